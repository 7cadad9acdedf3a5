package step

import (
	"sync"
	"time"
)

// An estimator with a timeout that misses its deadline misses in a row is left alone for
// a time, which doubles from shortPause to longPause while it goes on: a slow one would
// cost its timeout in every step. So is a verifier of which max_usd refuses a model call in
// refusals verdicts in a row, and that says nothing without it: each would be paid for nothing.
const (
	misses     = 3
	refusals   = 10
	shortPause = 30 * time.Second
	longPause  = 10 * time.Minute
)

// patience is what is known of an estimator's deadlines, or of a verifier's max_usd.
type patience struct {
	mu     sync.Mutex
	missed int
	pause  time.Duration
	until  time.Time
}

// pauseLeft returns for how much longer nothing is asked.
func (p *patience) pauseLeft(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}

// observe counts an attempt that succeeded or not; most in a row that did not begin a pause.
func (p *patience) observe(now time.Time, succeeded bool, most int) {
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
