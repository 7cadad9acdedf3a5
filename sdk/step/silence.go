package step

import (
	"sync"

	"github.com/stepfall/stepfall/sdk"
)

// kind is what is known of a query before any answer by which it is learned who can judge
// answers to such queries.
type kind struct {
	group    string
	hasTools bool
}

// silence counts, by kind of query, how often a verifier was asked and how often it had
// something to say. One that mostly has not looks at nothing, as far as anybody can plan.
type silence struct {
	mu     sync.Mutex
	counts map[kind]*[2]int // asked, spoke
}

// Bounds of silence: it takes more than silentAfter answers without a verdict, and
// maxKinds are told apart.
const (
	silentAfter = 2
	maxKinds    = 1024
)

func kindOf(q *sdk.Query) kind { return kind{q.Group, len(q.Tools) > 0} }

// note counts a verification. That a verifier could not be had is nothing about a kind.
func (s *silence) note(q *sdk.Query, spoke bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kindOf(q)
	c := s.counts[k]
	if c == nil {
		if s.counts == nil || len(s.counts) >= maxKinds {
			s.counts = map[kind]*[2]int{}
		}
		c = &[2]int{}
		s.counts[k] = c
	}
	c[0]++
	if spoke {
		c[1]++
	}
}

// isSilent reports whether the verifier is expected to say nothing of an answer to q: it
// said something of fewer than half of them, two that spoke counted in beforehand.
func (s *silence) isSilent(q *sdk.Query) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[kindOf(q)]
	return c != nil && 2*(c[1]+silentAfter) < c[0]+silentAfter
}
