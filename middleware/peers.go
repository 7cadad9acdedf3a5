package middleware

import (
	"encoding/json"
	"time"
)

// Circuits shares open circuits between processes. It must be safe for concurrent use and must not
// block.
type Circuits interface {
	// Opened announces that a circuit opened in this process, until the given time.
	Opened(name string, until time.Time)
	// Until returns the time until which another process has the circuit open, or the zero time if none has.
	Until(name string) time.Time
}

// Conversations shares the memory of conversations between processes. It must be safe for concurrent use,
// and must not delay a step for long.
type Conversations interface {
	// Load returns what was last saved, or nil if there is nothing or the store is unavailable.
	Load(id string) []byte
	// Save stores a note for the given time.
	Save(id string, note []byte, ttl time.Duration)
}

type sharedConversation struct {
	Last   modelKey       `json:"last"`
	Used   time.Time      `json:"used"`
	Cached []sharedPrefix `json:"cached,omitempty"`
	// Disputes is the number of disputed steps, if the note is about a run.
	Disputes int `json:"disputes,omitempty"`
}

type sharedPrefix struct {
	Model  modelKey  `json:"model"`
	Tokens int       `json:"tokens"`
	At     time.Time `json:"at"`
}

// loadShared updates a session if another process saved it after its last use in this process.
func (s *Sessions) loadShared(id string) {
	if s.shared == nil {
		return
	}
	var c sharedConversation
	if note := s.shared.Load(id); note == nil || json.Unmarshal(note, &c) != nil {
		return
	}
	shard := s.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	known := s.sessionFor(shard, id)
	if !c.Used.After(known.used) {
		return
	}
	known.last, known.used, known.disputes = c.Last, c.Used, c.Disputes
	for _, p := range c.Cached {
		known.cached[p.Model] = prefix{p.Tokens, p.At}
	}
}

// saveShared saves a session. Its shard is locked.
func (s *Sessions) saveShared(id string, known *session) {
	if s.shared == nil {
		return
	}
	c := sharedConversation{Last: known.last, Used: known.used, Disputes: known.disputes}
	for model, p := range known.cached {
		c.Cached = append(c.Cached, sharedPrefix{model, p.tokens, p.at})
	}
	if note, err := json.Marshal(&c); err == nil {
		s.shared.Save(id, note, s.c.IdleTimeout)
	}
}
