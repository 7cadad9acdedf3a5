package jail

import (
	"errors"
	"fmt"
	"sync"
)

var errTooMuchOutput = errors.New("far too much output")

// More than floodFactor times the kept output, and than floodLeast bytes, is more
// than any test prints.
const (
	floodFactor = 16
	floodLeast  = 32 << 20
)

// capped keeps the first half and the last half of what is written to it.
type capped struct {
	limit   int
	tooMuch func()

	mu         sync.Mutex
	head, tail []byte
	total      int
}

func (c *capped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, half := len(p), c.limit/2
	c.total += n
	if c.total > max(floodFactor*c.limit, floodLeast) {
		c.tooMuch()
	}
	if room := half - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head, p = append(c.head, p[:take]...), p[take:]
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) > 2*half {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-half:]...)
	}
	return n, nil
}

func (c *capped) cut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total > c.limit
}

func (c *capped) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total <= c.limit {
		return append(c.head, c.tail...)
	}
	tail := c.tail[max(0, len(c.tail)-c.limit/2):]
	gap := fmt.Sprintf("\n[... %d bytes left out ...]\n", c.total-len(c.head)-len(tail))
	return append(append(c.head, gap...), tail...)
}
