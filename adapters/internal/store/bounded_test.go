package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// stuck is an engine that hangs regardless of its callers' contexts, and afterwards still performs what it was asked.
type stuck struct {
	store.Store
	mu       sync.Mutex
	hung     chan struct{} // nil where it does not hang
	reserved map[int64]int64
	settled  map[int64]int
	spent    int64
	recorded int
}

func (s *stuck) hang() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = make(chan struct{})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.hung)
		s.hung = nil
	}
}

func (s *stuck) wait() {
	s.mu.Lock()
	hung := s.hung
	s.mu.Unlock()
	if hung != nil {
		<-hung
	}
}

func (s *stuck) Reserve(_ context.Context, id int64, charges []store.Charge, _ time.Duration) error {
	s.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if charges[0].Amount > 0 {
		s.reserved[id] = charges[0].Amount
	}
	return nil
}

func (s *stuck) Settle(_ context.Context, id int64, spent map[string]int64) error {
	s.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.reserved[id]; !ok {
		return nil
	}
	delete(s.reserved, id)
	s.settled[id]++
	for _, n := range spent {
		s.spent += n
	}
	return nil
}

func (s *stuck) Extend(context.Context, map[int64]store.LeaseState, time.Duration) ([]int64, error) {
	s.wait()
	return nil, nil
}
func (s *stuck) Note(context.Context, string, string) ([]byte, error) { s.wait(); return nil, nil }
func (s *stuck) Notes(context.Context, string) (map[string]time.Duration, error) {
	s.wait()
	return nil, nil
}
func (s *stuck) Record(_ context.Context, entries []store.Entry) error {
	s.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded += len(entries)
	return nil
}
func (s *stuck) Close() error { s.wait(); return nil }

// A hanging store blocks callers for at most five seconds, and then not at all; when it recovers, the accounts are
// correct.
func TestAStoreThatHangs(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		engine := &stuck{reserved: map[int64]int64{}, settled: map[int64]int{}}
		var log strings.Builder
		shared := store.Share(engine, "postgres://stuck/"+t.Name(), hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Info}))
		capped, free := shared.Ledger(step.Caps{RunUSD: 1}), shared.Ledger(step.Caps{})
		q := &sdk.Query{Run: "r", Tenant: "t"}
		before, err := capped.Reserve(t.Context(), q, 0.25)
		if err != nil || shared.Ready(t.Context()) != nil {
			t.Fatal(err)
		}
		release := engine.hang()
		within := func(what string, limit time.Duration, do func() error) error {
			began := time.Now()
			err := do()
			if took := time.Since(began); took > limit {
				t.Errorf("%s took %v, want %v at most", what, took, limit)
			}
			return err
		}
		reserve := func() error { _, err := capped.Reserve(t.Context(), q, 0.25); return err }
		for i, limit := range []time.Duration{5 * time.Second, 0, 0} {
			if err := within("a reservation", limit, reserve); !errors.Is(err, sdk.ErrStoreUnavailable) {
				t.Errorf("reservation %d: %v", i, err)
			}
		}
		if err := within("a settlement", 0, func() error { return before.Settle(t.Context(), 0.125) }); !errors.Is(err, sdk.ErrStoreUnavailable) {
			t.Errorf("settled: %v", err)
		}
		if err := within("readiness", 5*time.Second, func() error { return shared.Ready(t.Context()) }); !errors.Is(err, sdk.ErrStoreUnavailable) {
			t.Errorf("ready: %v", err)
		}
		_ = within("a step without caps", 100*time.Millisecond, func() error {
			shared.Load("conversation")
			if _, err := free.Reserve(t.Context(), q, 1); err != nil {
				t.Error(err)
			}
			shared.Record(t.Context(), &sdk.Trace{ID: "0123456789abcdef0123456789abcdef"})
			return nil
		})
		time.Sleep(time.Minute)
		release()
		time.Sleep(5 * time.Second)
		if err := shared.Ready(t.Context()); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		if err := reserve(); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		synctest.Wait() // nothing logs any more
		if lines := log.String(); strings.Count(lines, "the store is unavailable") != 1 || strings.Count(lines, "the store is available again: after=1m") != 1 {
			t.Errorf("logged:\n%s", lines)
		}
		engine.mu.Lock()
		for id, n := range engine.settled {
			if n != 1 {
				t.Errorf("%d is settled %d times", id, n)
			}
		}
		if engine.spent != 0.125*store.NanoUSD || len(engine.reserved) != 1 || engine.recorded != 1 {
			t.Errorf("%d spent, %d reserved, %d traces", engine.spent, len(engine.reserved), engine.recorded)
		}
		engine.mu.Unlock()
		release = engine.hang()
		_ = within("closing", 10*time.Second, shared.Close)
		release()
	})
}

// A process exits quickly while its store hangs, and its traces stay in the spool.
func TestClosingAStoreThatIsAway(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		engine := &stuck{reserved: map[int64]int64{}, settled: map[int64]int{}}
		shared := store.Share(engine, "postgres://stuck/"+t.Name(), nil)
		release := engine.hang()
		time.Sleep(5 * time.Second)
		if err := shared.Ready(t.Context()); !errors.Is(err, sdk.ErrStoreUnavailable) {
			t.Errorf("nobody asked, and it is ready: %v", err)
		}
		shared.Record(t.Context(), &sdk.Trace{ID: "0123456789abcdef0123456789abcdef"})
		began := time.Now()
		if err := shared.Close(); err == nil {
			t.Error("closed without a word")
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("closing took %v", took)
		}
		release()
	})
}
