package step

import (
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// An estimator that misses maxMisses deadlines in a row is paused for a time that doubles from shortPause
// to longPause, since a slow one would cost its timeout in every step. So is a verifier that was
// inconclusive maxRefusals times in a row because of its max_usd or its timeout.
const (
	maxMisses   = 3
	maxRefusals = 10
	shortPause  = 30 * time.Second
	longPause   = 10 * time.Minute
)

// cooldown tracks an estimator's missed deadlines, or a verifier's verdicts that its limits ended.
type cooldown struct {
	mu     sync.Mutex
	missed int
	pause  time.Duration
	until  time.Time
}

// pauseLeft returns the remaining time of a pause; it is not positive if there is none.
func (p *cooldown) pauseLeft(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}

// observe records an attempt. The most-th failure in a row, and each further one, starts a pause.
func (p *cooldown) observe(now time.Time, succeeded bool, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if succeeded {
		p.missed, p.pause = 0, 0
		return
	}
	if p.missed++; p.missed >= most {
		p.pause = min(max(2*p.pause, shortPause), longPause)
		p.until = now.Add(p.pause)
	}
}

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
