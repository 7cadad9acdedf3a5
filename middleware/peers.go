package middleware

import (
	"encoding/json"
	"time"
)

// Circuits shares with other processes which circuits are open. It must be safe for concurrent use and
// return at once.
type Circuits interface {
	// Opened announces that a circuit opened here, until the given time.
	Opened(name string, until time.Time)
	// Until returns until when another process has the circuit open; zero for never.
	Until(name string) time.Time
}

// Conversations shares what is remembered about conversations with other processes. It must be safe
// for concurrent use, and must not make a step wait long.
type Conversations interface {
	// Load returns what was last saved, or nil if there is nothing or it is unavailable.
	Load(id string) []byte
	// Save keeps a note for the given time.
	Save(id string, note []byte, ttl time.Duration)
}

type conversation struct {
	Last   modelKey       `json:"last"`
	Used   time.Time      `json:"used"`
	Cached []sharedPrefix `json:"cached,omitempty"`
	// Disputes is of the run that the note is about.
	Disputes int `json:"disputes,omitempty"`
}

type sharedPrefix struct {
	Model  modelKey  `json:"model"`
	Tokens int       `json:"tokens"`
	At     time.Time `json:"at"`
}

// loadShared updates a session from what another process has saved since it was last used here.
func (s *Sessions) loadShared(id string) {
	if s.shared == nil {
		return
	}
	var c conversation
	if note := s.shared.Load(id); note == nil || json.Unmarshal(note, &c) != nil {
		return
	}
	shard := s.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	known := s.sessionFor(shard, id, s.now())
	if !c.Used.After(known.used) {
		return
	}
	known.last, known.used, known.disputes = c.Last, c.Used, c.Disputes
	for _, p := range c.Cached {
		known.cached[p.Model] = prefix{p.Tokens, p.At}
	}
}

// saveShared saves a session, which is locked.
func (s *Sessions) saveShared(id string, known *session) {
	if s.shared == nil {
		return
	}
	c := conversation{Last: known.last, Used: known.used, Disputes: known.disputes}
	for model, p := range known.cached {
		c.Cached = append(c.Cached, sharedPrefix{model, p.tokens, p.at})
	}
	if note, err := json.Marshal(&c); err == nil {
		s.shared.Save(id, note, s.c.IdleTimeout)
	}
}
