package store

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// BufferOptions configure a [Buffer]; the zero value is sensible.
type BufferOptions struct {
	// Size is how many traces may wait; 0 means 10,000. Those that come when it is
	// full are dropped and counted.
	Size int
	// Batch is how many traces are written together at most; 0 means 500.
	Batch int
	// Wait is how long a step waits at most for its trace to be written, so that one
	// that has ended has its trace also when the process dies then; 0 means 100 ms,
	// less than 0 not at all. While the store is away nobody waits.
	Wait time.Duration
	// Fault is told of errors of the store, and of traces that were dropped, now and
	// then; nil is nobody.
	Fault func(err error, dropped int64)
}

// Buffer writes traces in batches, so that steps do not wait for the store, and keeps
// them while it is away. Its Record is a trace sink. It is safe for concurrent use.
type Buffer struct {
	s Traces
	o BufferOptions

	mu      sync.Mutex
	traces  []waiting
	away    bool // the last write failed
	dropped int64
	written int64
	closed  bool
	more    chan struct{}
	ended   chan struct{}
}

// waiting is a trace that is to be written; done is closed when it is.
type waiting struct {
	t    *sdk.Trace
	key  string
	done chan struct{}
}

// NewBuffer returns a buffer. The caller closes it before the store.
func NewBuffer(s Traces, o BufferOptions) *Buffer {
	o.Size, o.Batch = cmp.Or(o.Size, 10_000), cmp.Or(o.Batch, 500)
	o.Wait = cmp.Or(o.Wait, 100*time.Millisecond)
	b := &Buffer{s: s, o: o, more: make(chan struct{}, 1), ended: make(chan struct{})}
	go b.run()
	return b
}

// Record takes a trace, which must not be modified after.
func (b *Buffer) Record(ctx context.Context, t *sdk.Trace) {
	key := ""
	if k := KeyFrom(ctx); k != nil {
		key = k.ID
	}
	b.mu.Lock()
	if b.closed || len(b.traces) >= b.o.Size {
		b.dropped++
		b.mu.Unlock()
		return
	}
	one := waiting{t, key, make(chan struct{})}
	b.traces = append(b.traces, one)
	wait := b.o.Wait
	if b.away {
		wait = 0
	}
	b.wake()
	b.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-one.done:
	case <-timer.C:
	}
}

// wake has the writer look. b is locked and not closed.
func (b *Buffer) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// Counts returns how many traces were written, wait, and were dropped.
func (b *Buffer) Counts() (written, waiting, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written, int64(len(b.traces)), b.dropped
}

// pause is how long the buffer waits after a fault, and gathers before a write.
const (
	pause  = 500 * time.Millisecond
	gather = 2 * time.Millisecond
)

func (b *Buffer) run() {
	defer close(b.ended)
	for range b.more {
		time.Sleep(gather)
		for b.flush() {
		}
	}
	// What waits at the end is tried for a moment longer.
	for until := time.Now().Add(2 * time.Second); b.flush() || (b.pending() && time.Now().Before(until)); {
	}
}

func (b *Buffer) pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.traces) > 0
}

// flush writes one batch and reports whether to go on at once.
func (b *Buffer) flush() bool {
	b.mu.Lock()
	n := min(len(b.traces), b.o.Batch)
	batch := b.traces[:n:n]
	b.mu.Unlock()
	if n == 0 {
		return false
	}
	traces, keys := make([]*sdk.Trace, n), make([]string, n)
	for i := range batch {
		traces[i], keys[i] = batch[i].t, batch[i].key
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	err := b.s.Record(ctx, traces, keys)
	cancel()
	b.mu.Lock()
	dropped := b.dropped
	b.away = err != nil
	if err == nil {
		b.written += int64(n)
		b.traces = b.traces[n:]
		if len(b.traces) == 0 {
			b.traces = nil
		}
	}
	b.mu.Unlock()
	if err == nil {
		for i := range batch {
			close(batch[i].done)
		}
		return true
	}
	if b.o.Fault != nil {
		b.o.Fault(err, dropped)
	}
	time.Sleep(pause)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.wake()
	}
	return false
}

// Close writes what waits and returns an error when it could not, or when traces were
// dropped.
func (b *Buffer) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	if !again {
		close(b.more)
	}
	b.mu.Unlock()
	if again {
		return nil
	}
	<-b.ended
	b.mu.Lock()
	defer b.mu.Unlock()
	if lost := b.dropped + int64(len(b.traces)); lost > 0 {
		return fmt.Errorf("%d traces were dropped since the store was away", lost)
	}
	return nil
}
