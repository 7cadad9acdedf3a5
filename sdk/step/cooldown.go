package step

import (
	"sync"
	"time"
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
