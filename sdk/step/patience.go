package step

import (
	"sync"
	"time"
)

// An estimator that misses maxMisses deadlines in a row is not asked for a while, which doubles from
// shortPause to longPause: a slow one would cost its timeout in every step. Nor is a verifier that was
// inconclusive maxRefusals times in a row because max_usd refused a model call.
const (
	maxMisses   = 3
	maxRefusals = 10
	shortPause  = 30 * time.Second
	longPause   = 10 * time.Minute
)

// patience is what is known of an estimator's deadlines, or of a verifier's max_usd.
type patience struct {
	mu     sync.Mutex
	missed int
	pause  time.Duration
	until  time.Time
}

// pauseLeft returns how much of a pause is left.
func (p *patience) pauseLeft(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}

// observe counts an attempt; most failures in a row begin a pause.
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
