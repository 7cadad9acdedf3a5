package jail

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
)

var errTooMuchOutput = errors.New("far too much output")

// Output keeps the first and the last half of what is written to it. It is safe for concurrent use.
type Output struct {
	// Limit is the number of bytes kept.
	Limit int
	// Most is the number of written bytes above which Full is called; 0 means 16 times Limit and at
	// least 32 MiB, which is more than any test prints.
	Most int
	Full func()

	mu         sync.Mutex
	head, tail []byte
	total      int
}

// Write implements [io.Writer]. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, half := len(p), o.Limit/2
	o.total += n
	if o.total > cmp.Or(o.Most, max(16*o.Limit, 32<<20)) {
		o.Full()
	}
	if room := half - len(o.head); room > 0 {
		take := min(room, len(p))
		o.head, p = append(o.head, p[:take]...), p[take:]
	}
	o.tail = append(o.tail, p...)
	if len(o.tail) > 2*half {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-half:]...)
	}
	return n, nil
}

// Truncated reports whether more was written than is kept.
func (o *Output) Truncated() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total > o.Limit
}

// Bytes returns the kept output, with a marker line between the halves if it was truncated.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.total <= o.Limit {
		return slices.Concat(o.head, o.tail)
	}
	tail := o.tail[max(0, len(o.tail)-o.Limit/2):]
	gap := fmt.Sprintf("\n[... %d bytes left out ...]\n", o.total-len(o.head)-len(tail))
	return slices.Concat(o.head, []byte(gap), tail)
}
