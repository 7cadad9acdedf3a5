package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/sdk"
)

const (
	// deadline bounds an operation that a request waits for; recordDeadline bounds one that writes or deletes many
	// rows.
	deadline       = 3 * time.Second
	recordDeadline = 5 * time.Second
	// probeEvery is the interval of probes while the engine is unavailable.
	probeEvery = 500 * time.Millisecond
	// closeDeadline bounds the closing of an engine.
	closeDeadline = 3 * time.Second
)

// deadlineStore bounds the duration of every operation of a store, even where the engine hangs: an operation ends
// after its deadline, or at once while the circuit is open. The circuit opens when an operation times out or the
// engine is unavailable, and closes when a background probe succeeds. The errors wrap sdk.ErrStoreUnavailable. Reads
// of traces are passed through without a deadline.
type deadlineStore struct {
	Store
	logger hclog.Logger

	mu         sync.Mutex
	openErr    error // why the circuit is open; nil while it is closed
	lastLogged time.Time
	closed     bool
	closing    chan struct{}
	probeID    int64         // see writeNothing
	probing    chan struct{} // holds one value during writeNothing
}

// runWithin runs an operation of the engine under a deadline. An operation that overruns it continues in the
// background with a cancelled context; its result is discarded.
func runWithin[T any](ctx context.Context, b *deadlineStore, limit time.Duration, do func(context.Context) (T, error)) (none T, err error) {
	b.mu.Lock()
	err = b.openErr
	b.mu.Unlock()
	if err != nil {
		return none, err
	}
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	inner, cancel := context.WithTimeout(ctx, limit)
	go func() {
		defer cancel()
		value, err := do(inner)
		done <- outcome{value, err}
	}()
	var o outcome
	select {
	case o = <-done:
	case <-inner.Done():
		select {
		case o = <-done: // the operation's own cancel can win the select
		default:
			if o.err = ctx.Err(); o.err == nil {
				o.err = fmt.Errorf("%w: no answer within %v", sdk.ErrStoreUnavailable, limit)
			}
		}
	}
	if o.err == nil {
		return o.value, nil
	}
	if err = o.err; ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, sdk.ErrStoreUnavailable) {
		err = fmt.Errorf("%w: %w", sdk.ErrStoreUnavailable, err)
	}
	if ctx.Err() == nil && errors.Is(err, sdk.ErrStoreUnavailable) {
		b.openCircuit(err)
	}
	return none, err
}

func (b *deadlineStore) run(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	_, err := runWithin(ctx, b, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

func (b *deadlineStore) openCircuit(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.openErr != nil || b.closed {
		return
	}
	b.openErr = why
	recovery := b.logger.Debug
	if time.Since(b.lastLogged) >= repeatAfter {
		b.lastLogged = time.Now()
		b.logger.Error("the store is unavailable; calls fail until it answers", "error", why)
		recovery = b.logger.Info
	}
	go b.probe(recovery)
}

// probe retries the engine until it answers, however long one try hangs, and then closes the circuit and logs that by
// recovery.
func (b *deadlineStore) probe(recovery func(message string, args ...any)) {
	opened := time.Now()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		err := b.writeNothing(ctx)
		cancel()
		if err == nil || !errors.Is(err, sdk.ErrStoreUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			b.mu.Lock()
			b.openErr = nil
			b.mu.Unlock()
			recovery("the store is available again", "after", time.Since(opened).Round(time.Millisecond))
			return
		}
		select {
		case <-b.closing:
			return
		case <-time.After(probeEvery):
		}
	}
}

// writeNothing replaces this process's reservation of nothing by a new one. Unlike a transaction that changes no row,
// it needs what a request under a cap needs: rights, room on the disk, and a standby that the server waits for.
// One is made at a time: two with the same id could wait for each other.
func (b *deadlineStore) writeNothing(ctx context.Context) error {
	select {
	case b.probing <- struct{}{}:
		defer func() { <-b.probing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := b.Store.Settle(ctx, b.probeID, nil); err != nil {
		return err
	}
	return b.Store.Reserve(ctx, b.probeID, []Charge{{Account: "probe", Returns: true}}, time.Minute)
}

// Ready returns why the store cannot be used, or nil, within the deadline.
func (b *deadlineStore) Ready(ctx context.Context) error {
	return b.run(ctx, deadline, b.writeNothing)
}

func (b *deadlineStore) Ping(ctx context.Context) error { return b.run(ctx, deadline, b.Store.Ping) }

func (b *deadlineStore) Reserve(ctx context.Context, id int64, charges []Charge, ttl time.Duration) error {
	return b.run(ctx, deadline, func(ctx context.Context) error { return b.Store.Reserve(ctx, id, charges, ttl) })
}

func (b *deadlineStore) Lease(ctx context.Context, id int64, c Charge, least int64, ttl time.Duration) (int64, time.Time, error) {
	type lease struct {
		amount int64
		until  time.Time
	}
	l, err := runWithin(ctx, b, deadline, func(ctx context.Context) (l lease, err error) {
		l.amount, l.until, err = b.Store.Lease(ctx, id, c, least, ttl)
		return l, err
	})
	return l.amount, l.until, err
}

func (b *deadlineStore) Settle(ctx context.Context, id int64, spent map[string]int64) error {
	return b.run(ctx, deadline, func(ctx context.Context) error { return b.Store.Settle(ctx, id, spent) })
}

func (b *deadlineStore) Extend(ctx context.Context, leases map[int64]LeaseState, ttl time.Duration) ([]int64, error) {
	return runWithin(ctx, b, deadline, func(ctx context.Context) ([]int64, error) { return b.Store.Extend(ctx, leases, ttl) })
}

func (b *deadlineStore) Record(ctx context.Context, entries []Entry) error {
	return b.run(ctx, recordDeadline, func(ctx context.Context) error { return b.Store.Record(ctx, entries) })
}

func (b *deadlineStore) Prune(ctx context.Context, r Retention, most int) (PruneCounts, error) {
	return runWithin(ctx, b, recordDeadline, func(ctx context.Context) (PruneCounts, error) { return b.Store.Prune(ctx, r, most) })
}

func (b *deadlineStore) KeyByDigest(ctx context.Context, digest []byte) (*Key, error) {
	return runWithin(ctx, b, deadline, func(ctx context.Context) (*Key, error) { return b.Store.KeyByDigest(ctx, digest) })
}

func (b *deadlineStore) Post(ctx context.Context, kind, name string, note []byte, ttl time.Duration) error {
	return b.run(ctx, deadline, func(ctx context.Context) error { return b.Store.Post(ctx, kind, name, note, ttl) })
}

func (b *deadlineStore) Claim(ctx context.Context, kind, name string, note []byte, ttl time.Duration) (bool, error) {
	return runWithin(ctx, b, deadline, func(ctx context.Context) (bool, error) { return b.Store.Claim(ctx, kind, name, note, ttl) })
}

func (b *deadlineStore) Note(ctx context.Context, kind, name string) ([]byte, error) {
	return runWithin(ctx, b, deadline, func(ctx context.Context) ([]byte, error) { return b.Store.Note(ctx, kind, name) })
}

func (b *deadlineStore) Notes(ctx context.Context, kind string) (map[string]time.Duration, error) {
	return runWithin(ctx, b, deadline, func(ctx context.Context) (map[string]time.Duration, error) { return b.Store.Notes(ctx, kind) })
}

func (b *deadlineStore) Add(ctx context.Context, kind, name string, delta []float64) ([]float64, error) {
	return runWithin(ctx, b, deadline, func(ctx context.Context) ([]float64, error) { return b.Store.Add(ctx, kind, name, delta) })
}

// Close closes the engine. An engine that hangs is abandoned after closeDeadline.
func (b *deadlineStore) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if again {
		return nil
	}
	close(b.closing)
	done := make(chan error, 1)
	go func() { done <- b.Store.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(closeDeadline):
		return fmt.Errorf("closing the store: %w: not closed within %v", sdk.ErrStoreUnavailable, closeDeadline)
	}
}
