package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// BufferOptions configures a [Buffer]. The zero value is usable.
type BufferOptions struct {
	// Size bounds the traces that wait in memory; 0 means 50,000. Beyond that, or beyond 256 MB, traces wait in the
	// spool only; those that find no room there either, or where there is no spool, are dropped, counted and reported
	// to Fault.
	Size int
	// Batch bounds the traces of one write; 0 means 500.
	Batch int
	// Spool is a local folder for waiting traces, so that they outlive the process: the next buffer on that folder,
	// in any process, writes what an ended process left. Empty means no spool.
	Spool string
	// SpoolBytes bounds the size of the spool folder; 0 means 1 GB.
	SpoolBytes int64
	// Wait bounds how long Record blocks until a trace that is not in the spool is in the store, so that the trace of
	// a finished step survives a crash. 0 means 100 ms; a negative value means no wait. Nobody waits while the store
	// is unavailable.
	Wait time.Duration
	// Fault, when not nil, is called with store errors and the number of dropped traces, at a limited rate, and with
	// a [*LeftOutError] for each batch of which some traces can never be written.
	Fault func(err error, dropped int64)
}

// Buffer writes traces in batches in the background, so that steps do not wait for the store, and holds them while it
// is unavailable. Its Record is a trace sink. It is safe for concurrent use.
type Buffer struct {
	s Traces
	o BufferOptions

	mu          sync.Mutex
	traces      []*waiting
	bytes       int    // approximate memory of traces
	batch       int    // batch size; halved after a failed write, then growing back
	failing     bool   // the last write failed
	lastFault   string // last error passed to Fault, at lastFaultAt
	lastFaultAt time.Time
	dropped     int64
	written     int64
	closed      bool
	more        chan struct{} // signals that traces are pending
	flushNow    chan struct{} // signals that a batch is full, or that a caller waits for the write
	ended       chan struct{}

	spool    *spool // nil without a spool folder
	adopting sync.WaitGroup
	stop     func() // ends adopting; nil without a spool
}

// waiting is a pending trace; done is closed when it is in the store.
type waiting struct {
	Entry
	bytes int
	done  chan struct{}
	file  *spoolFile // nil when it is in memory only
}

// NewBuffer returns a buffer. The caller closes it before the store.
func NewBuffer(s Traces, o BufferOptions) *Buffer {
	o.Size, o.Batch = cmp.Or(o.Size, 50_000), cmp.Or(o.Batch, 500)
	o.Wait = cmp.Or(o.Wait, 100*time.Millisecond)
	b := &Buffer{s: s, o: o, batch: o.Batch, more: make(chan struct{}, 1), flushNow: make(chan struct{}, 1), ended: make(chan struct{})}
	if o.Spool != "" {
		b.spool = &spool{dir: o.Spool, room: cmp.Or(o.SpoolBytes, 1<<30)}
		ctx, cancel := context.WithCancel(context.Background())
		b.stop = cancel
		b.adopting.Go(func() { b.adopt(ctx) })
	}
	go b.run()
	return b
}

// Record queues a trace, which must not be modified afterwards.
func (b *Buffer) Record(ctx context.Context, t *sdk.Trace) {
	key := ""
	if k := KeyFrom(ctx); k != nil {
		key = k.ID
	}
	one := &waiting{Entry: Entry{Trace: t, Key: key}, bytes: textBytes(t), done: make(chan struct{})}
	if b.spool != nil {
		// Encoded once for both the spool and the store. On an error the store reports the trace as left out.
		one.JSON, _ = Encode(t)
		one.bytes += len(one.JSON)
	}
	b.mu.Lock()
	if full := len(b.traces) >= b.o.Size || len(b.traces) > 0 && b.bytes+one.bytes > mostBytes; b.closed || full {
		err := errFull
		switch {
		case b.closed:
			err = errClosed
		case b.spool != nil && one.JSON != nil:
			err = b.spool.writeOverflow(one.Entry)
		}
		if err != nil {
			b.dropped++
			err = fmt.Errorf("traces are dropped: %w", err)
		}
		b.mu.Unlock()
		b.report(err)
		return
	}
	err := b.keep(one)
	b.traces, b.bytes = append(b.traces, one), b.bytes+one.bytes
	wait := b.o.Wait > 0 && one.file == nil && !b.failing
	if wait || len(b.traces) >= b.batch {
		wake(b.flushNow)
	}
	wake(b.more)
	b.mu.Unlock()
	b.report(err)
	if wait {
		timer := time.NewTimer(b.o.Wait)
		defer timer.Stop()
		select {
		case <-one.done:
		case <-timer.C:
		}
	}
}

// keep writes a trace to the spool, if there is one. b.mu is held.
func (b *Buffer) keep(w *waiting) (err error) {
	if b.spool != nil && w.file == nil && w.JSON != nil {
		w.file, err = b.spool.keep(w.Entry)
	}
	return err
}

// report passes an error to Fault, unless the same error was just reported. b.mu is not held.
func (b *Buffer) report(err error) {
	if err == nil || b.o.Fault == nil {
		return
	}
	b.mu.Lock()
	dropped, text := b.dropped, err.Error()
	again := text == b.lastFault && time.Since(b.lastFaultAt) < repeatAfter
	if !again {
		b.lastFault, b.lastFaultAt = text, time.Now()
	}
	b.mu.Unlock()
	if !again {
		b.o.Fault(err, dropped)
	}
}

// Reasons for dropped traces.
var (
	errFull   = errors.New("the buffer is full")
	errClosed = errors.New("the buffer is closed")
)

// wake signals a channel of capacity 1 without blocking.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Settle waits until all traces recorded so far are written, but for maxGather at most, and not while the store is
// unavailable.
func (b *Buffer) Settle(ctx context.Context) {
	b.mu.Lock()
	var last *waiting
	if n := len(b.traces); n > 0 && !b.failing {
		last = b.traces[n-1]
		wake(b.flushNow)
	}
	b.mu.Unlock()
	if last == nil {
		return
	}
	timer := time.NewTimer(maxGather)
	defer timer.Stop()
	select {
	case <-last.done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Counts returns how many traces were written, are waiting, and were dropped.
func (b *Buffer) Counts() (written, waiting, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written, int64(len(b.traces)), b.dropped
}

const (
	// pause is the delay after a failed write.
	pause = 500 * time.Millisecond
	// Traces are gathered for minGather to maxGather before a write; the delay stays short while writes hold no more
	// than few traces or a caller waits.
	maxGather = 100 * time.Millisecond
	minGather = 2 * time.Millisecond
	few       = 4
	// adoptEvery is how often the buffer looks for files of ended processes in the spool.
	adoptEvery = 5 * time.Second
	// repeatAfter is how long a repeated error is suppressed.
	repeatAfter = 10 * time.Second
	// mostBytes bounds the memory of waiting traces, batchBytes that of one write.
	mostBytes  = 256 << 20
	batchBytes = 16 << 20
)

// textBytes estimates the memory of a trace.
func textBytes(t *sdk.Trace) int {
	n := len(t.Prompt) + len(t.Error)
	if t.Verdict != nil {
		n += len(t.Verdict.Evidence)
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		n += len(c.Answer) + len(c.Error)
		if c.Verdict != nil {
			n += len(c.Verdict.Evidence)
		}
	}
	return n
}

func (b *Buffer) run() {
	defer close(b.ended)
	// A few traces are written at once, so that they show up immediately; many are gathered.
	lull := minGather
	for range b.more {
		timer := time.NewTimer(lull)
		select {
		case <-b.flushNow:
			time.Sleep(minGather)
		case <-timer.C:
		}
		timer.Stop()
		n := b.flush()
		if n > 0 {
			b.wakeIfPending()
		}
		if n > few {
			lull = min(2*lull, maxGather)
		} else {
			lull = max(lull/2, minGather)
		}
	}
	// After Close, pending traces are retried for up to two seconds.
	for until := time.Now().Add(2 * time.Second); b.flush() > 0 || (b.pending() && time.Now().Before(until)); {
	}
}

// wakeIfPending wakes the writer if traces are pending.
func (b *Buffer) wakeIfPending() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.traces) >= b.batch {
		wake(b.flushNow)
	}
	if len(b.traces) > 0 && !b.closed {
		wake(b.more)
	}
}

func (b *Buffer) pending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.traces) > 0
}

// flush writes one batch and returns its size, or 0 if there was none or the write failed.
func (b *Buffer) flush() int {
	b.mu.Lock()
	n := 0
	for size := 0; n < min(len(b.traces), b.batch) && (n == 0 || size+b.traces[n].bytes <= batchBytes); n++ {
		size += b.traces[n].bytes
	}
	batch := b.traces[:n:n]
	b.mu.Unlock()
	if n == 0 {
		return 0
	}
	entries := make([]Entry, n)
	for i := range batch {
		entries[i] = batch[i].Entry
	}
	err := b.write(context.Background(), entries)
	if err == nil {
		b.report(b.settle(batch))
		return n
	}
	b.mu.Lock()
	b.failing, b.batch = true, max(1, n/2)
	b.mu.Unlock()
	b.report(err)
	time.Sleep(pause)
	b.wakeIfPending()
	return 0
}

// write writes traces to the store, and reports those that the store left out.
func (b *Buffer) write(ctx context.Context, entries []Entry) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := b.s.Record(ctx, entries)
	leftOut, some := errors.AsType[*LeftOutError](err)
	if err != nil && !some {
		return err
	}
	lost := 0
	if some {
		lost = len(leftOut.Reasons)
	}
	b.drop(lost, len(entries)-lost)
	b.report(err)
	return nil
}

func (b *Buffer) drop(lost, written int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped += int64(lost)
	b.written += int64(written)
}

// settle removes a batch that is now in the store: the first len(batch) traces.
func (b *Buffer) settle(batch []*waiting) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing, b.batch = false, min(b.batch+b.batch/8+1, b.o.Batch)
	if b.spool != nil {
		err = b.spool.release()
	}
	b.traces = b.traces[len(batch):]
	for _, w := range batch {
		b.bytes -= w.bytes
	}
	if len(b.traces) == 0 {
		b.traces = nil
	}
	for _, w := range batch {
		close(w.done)
		if w.file != nil {
			err = errors.Join(err, b.spool.markStored(w.file))
		}
	}
	return err
}

// adopt writes the traces of ended processes, at once and then every few seconds, until the buffer is closed.
func (b *Buffer) adopt(ctx context.Context) {
	ticker := time.NewTicker(adoptEvery)
	defer ticker.Stop()
	write := func(entries []Entry) error { return b.write(ctx, entries) }
	for {
		lost, err := b.spool.adopt(ctx, b.o.Batch, write)
		b.drop(lost, 0)
		if ctx.Err() == nil {
			b.report(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Close writes the pending traces. It returns an error when it could not, or when traces were dropped.
func (b *Buffer) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	if !again {
		close(b.more)
		wake(b.flushNow)
	}
	b.mu.Unlock()
	if again {
		return nil
	}
	<-b.ended
	if b.spool != nil {
		b.stop()
		b.adopting.Wait()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var faults []error
	lost, kept := b.dropped, 0
	for _, w := range b.traces {
		if err := b.keep(w); err != nil || w.file == nil {
			lost++
			faults = append(faults, err)
			continue
		}
		kept++
	}
	if b.spool != nil {
		faults = append(faults, b.spool.close())
	}
	if kept > 0 {
		faults = append(faults, fmt.Errorf("%d traces wait in %s until a process opens the store again", kept, b.o.Spool))
	}
	if lost > 0 {
		faults = append(faults, fmt.Errorf("%d traces were dropped: the store was unavailable or rejected them", lost))
	}
	return errors.Join(faults...)
}
