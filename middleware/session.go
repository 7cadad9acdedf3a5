package middleware

import (
	"cmp"
	"container/list"
	"hash/maphash"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Sessions remembers, for each conversation, which model answered last and which prefix each model's
// provider holds in its prompt cache. Every [Model] has one; other programs use it to predict a Model's
// decisions. It is safe for concurrent use.
type Sessions struct {
	c      SessionConfig
	models []sdk.Model
	// keys identify the models across Models with different candidates that share the conversations.
	keys   []modelKey
	now    func() time.Time
	memory *conversations
	// shared exchanges the conversations with other processes; nil shares nothing.
	shared Conversations
}

type conversations struct {
	seed   maphash.Seed
	shards [16]sessionShard
	doubts doubts
}

type modelKey struct{ Name, Provider, Served string }

type sessionShard struct {
	mu   sync.Mutex
	byID map[string]*session
	ids  list.List // of the sessions, that used least recently first
}

type session struct {
	place *list.Element // in ids
	last  modelKey
	used  time.Time
	// disputes counts the disputed steps of a run; see [Sessions.AddFeatures].
	disputes int
	// cached has the prefix of the conversation that each model last read.
	cached map[modelKey]prefix
}

type prefix struct {
	tokens int
	at     time.Time
}

// NewSessions returns empty Sessions for candidates in the order of their indexes. If now is nil, time.Now
// is used.
func NewSessions(c SessionConfig, models []sdk.Model, now func() time.Time) *Sessions {
	c.CacheTTL = cmp.Or(c.CacheTTL, 5*time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 30*time.Minute)
	c.MaxSessions = cmp.Or(c.MaxSessions, 65536)
	if now == nil {
		now = time.Now
	}
	s := &Sessions{c: c, models: models, now: now, keys: make([]modelKey, len(models)), memory: &conversations{seed: maphash.MakeSeed()}}
	for i := range models {
		s.keys[i] = modelKey{models[i].Name, models[i].Provider, models[i].Served}
	}
	return s
}

func (s *Sessions) shard(id string) *sessionShard {
	return &s.memory.shards[maphash.String(s.memory.seed, id)%uint64(len(s.memory.shards))]
}

// Offsets returns how much the session changes the predicted cost of each model, in US dollars: the
// price of switching minus the savings of a prompt cache. It returns nil if nothing is known.
func (s *Sessions) Offsets(id string) []float64 {
	if id == "" || s.c.Off {
		return nil
	}
	s.loadShared(id)
	shard := s.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	known := shard.byID[id]
	now := s.now()
	if known == nil || now.Sub(known.used) > s.c.IdleTimeout {
		return nil
	}
	offsets := make([]float64, len(s.models))
	for i := range s.models {
		if s.keys[i] != known.last {
			offsets[i] = s.c.SwitchCostUSD
		}
		p, m := known.cached[s.keys[i]], &s.models[i]
		if now.Sub(p.at) >= s.c.CacheTTL {
			p.tokens = 0
		}
		switch expected := s.c.CachedUSD[m.Name]; {
		case s.c.IgnoreCache:
		case expected > 0:
			offsets[i] += expected - max(s.c.FirstCachedUSD[m.Name], m.Price.CachedUSD(sdk.Usage{CachedInputTokens: p.tokens}))
		default:
			offsets[i] -= float64(p.tokens) * max(0, m.Price.Input-m.Price.CachedInput) / 1e6
		}
	}
	return offsets
}

// RecordUse records which models have read the conversation in a step.
func (s *Sessions) RecordUse(id string, result *step.Result) {
	if id == "" || s.c.Off || result.Index < 0 {
		return
	}
	now := s.now()
	shard := s.shard(id)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	known := s.sessionFor(shard, id)
	known.last, known.used = s.keys[result.Index], now
	for i := range result.Attempts {
		for k := range s.models {
			if a := &result.Attempts[i].Answer; s.models[k].Name == a.Model {
				before, hadRead := known.cached[s.keys[k]]
				hadRead = hadRead && now.Sub(before.at) < s.c.CacheTTL
				known.cached[s.keys[k]] = prefix{cachedTokens(&a.Usage, &s.models[k].Price, hadRead), now}
			}
		}
	}
	s.saveShared(id, known)
}

// cachedTokens returns how much of a prompt the provider is expected to have cached. Providers that charge for writes
// report them; others cache a prompt unless they read nothing of it although the model had read the conversation
// before, as happens to short prompts.
func cachedTokens(u *sdk.Usage, p *sdk.Price, hadRead bool) int {
	switch {
	case p.CacheWrite > p.Input:
		return u.CachedInputTokens + u.CacheWriteTokens
	case hadRead && u.CachedInputTokens == 0:
		return 0
	}
	return u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens
}

// sessionFor returns a session to use, creating it if necessary, in place of the one used least recently if the shard
// is full. The shard is locked.
func (s *Sessions) sessionFor(shard *sessionShard, id string) *session {
	known := shard.byID[id]
	if known != nil {
		shard.ids.MoveToBack(known.place)
		return known
	}
	if shard.byID == nil {
		shard.byID = map[string]*session{}
	}
	if limit := max(1, s.c.MaxSessions/len(s.memory.shards)); len(shard.byID) >= limit {
		delete(shard.byID, shard.ids.Remove(shard.ids.Front()).(string))
	}
	known = &session{place: shard.ids.PushBack(id), cached: map[modelKey]prefix{}}
	shard.byID[id] = known
	return known
}
