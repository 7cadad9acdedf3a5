package step

import (
	"sync"

	"github.com/stepfall/stepfall/sdk"
)

// kind is what is known of a query before any answer, by which verifiers are told apart that can judge
// such answers.
type kind struct {
	group    string
	hasTools bool
}

// silence counts, by kind of query, how often a verifier was asked and how often its verdict was
// conclusive. One that is mostly inconclusive does not count in plans.
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

func (s *silence) count(q *sdk.Query, spoke bool) {
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

// isSilent reports whether the verifier is expected to be inconclusive on answers to q: fewer than
// half of its verdicts were conclusive, with silentAfter conclusive ones added as a prior.
func (s *silence) isSilent(q *sdk.Query) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[kindOf(q)]
	return c != nil && 2*(c[1]+silentAfter) < c[0]+silentAfter
}
