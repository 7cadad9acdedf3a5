package step

import (
	"sync"

	"github.com/stepfall/stepfall/sdk"
)

// kind is the class of queries within which a verifier is assumed to be equally often inconclusive.
type kind struct {
	group    string
	hasTools bool
}

// silence counts, by kind of query, how often a verifier was asked and how often its verdict was
// conclusive. A verifier that is mostly inconclusive is not expected to judge answers.
type silence struct {
	mu     sync.Mutex
	counts map[kind]*[2]int // asked, conclusive
}

const (
	silentAfter = 2    // a verifier is silent after more inconclusive verdicts than this, if none was conclusive
	maxKinds    = 1024 // counting starts over when there are more
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
