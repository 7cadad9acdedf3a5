package cli

import (
	"cmp"
	"io"
	"sync"
)

// errorWriter remembers the first write error, so that lost output, such as on a full disk, fails the command whoever
// printed it. It is safe for concurrent use.
type errorWriter struct {
	w io.Writer

	mu  sync.Mutex
	err error
}

func (c *errorWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.w.Write(p)
	c.err = cmp.Or(c.err, err)
	return n, err
}

func (c *errorWriter) fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
