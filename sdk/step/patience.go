package step

import (
	"sync"
	"time"
)

// An estimator with a timeout that misses its deadline misses in a row is left alone for
// a time, which doubles from shortPause to longPause while it goes on: a slow one would
// cost its timeout in every step.
const (
	misses     = 3
	shortPause = 30 * time.Second
	longPause  = 10 * time.Minute
)

// patience is what is known of an estimator's deadlines.
type patience struct {
	mu     sync.Mutex
	missed int
	pause  time.Duration
	until  time.Time
}

// pauseLeft returns for how much longer the estimator is not asked.
func (p *patience) pauseLeft(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}

func (p *patience) observe(now time.Time, inTime bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if inTime {
		p.missed, p.pause = 0, 0
		return
	}
	if p.missed++; p.missed >= misses {
		p.pause = min(max(2*p.pause, shortPause), longPause)
		p.until = now.Add(p.pause)
	}
}
