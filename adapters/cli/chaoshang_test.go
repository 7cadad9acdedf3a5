package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/postgres"
)

const (
	// hungRequest is how long a request may take that needs a store which hangs, and
	// hungEnd the end of a replica by SIGTERM.
	hungRequest = 5 * time.Second
	hungEnd     = 15 * time.Second
)

// hang is a database that stops answering its replicas, with no connection closed.
type hang struct {
	proxy    *pgtest.Proxy
	client   *client
	replicas []*service
	database string // not through the proxy

	times, requests int
	slowest, end    time.Duration
}

// refuse has the database hang and asks each replica three times for tenants that nobody has
// leased: each is refused in time, and told when to come again.
func (h *hang) refuse(ctx context.Context, t *testing.T) {
	h.proxy.Hang()
	h.times++
	var mu sync.Mutex
	var asking sync.WaitGroup
	for i, r := range h.replicas {
		addr := r.address()
		if addr == "" {
			continue
		}
		asking.Go(func() {
			for n := range 3 {
				began := time.Now()
				code, retryAfter := h.client.ask(ctx, addr, h.tenant(i, n))
				took := time.Since(began)
				if code != http.StatusServiceUnavailable || retryAfter == "" || took > hungRequest {
					t.Errorf("while the database hangs: status %d, Retry-After %q after %v, want 503 within %v", code, retryAfter, took, hungRequest)
				}
				mu.Lock()
				h.requests++
				h.slowest = max(h.slowest, took)
				mu.Unlock()
			}
		})
	}
	asking.Wait()
}

// terminate ends a replica by SIGTERM while the database hangs, and starts it again. What the
// others were refused is not in the books, though it may have reached the database late.
func (h *hang) terminate(ctx context.Context, t *testing.T) {
	h.refuse(ctx, t)
	began := time.Now()
	h.replicas[0].kill(syscall.SIGTERM)
	if h.end = time.Since(began); h.end > hungEnd {
		t.Errorf("a replica ended %v after SIGTERM while the database hung, want at most %v", h.end, hungEnd)
	}
	h.proxy.Resume()
	for until := time.Now().Add(time.Minute); !h.replicas[0].start(t); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the replica does not start again: %s", h.replicas[0].log)
		}
	}
	s, err := postgres.Open(ctx, h.database)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		booked, err := h.booked(ctx, s)
		if err == nil && len(booked) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Errorf("refused requests are booked: %+v, %v", booked, err)
			return
		}
	}
}

// booked returns the accounts that hold money of requests which were refused during the last
// hang by replicas that still run.
func (h *hang) booked(ctx context.Context, s store.Store) (list []store.Balance, err error) {
	for i := 1; i < len(h.replicas); i++ {
		for n := range 3 {
			found, err := s.Balances(ctx, store.TenantAccount(h.tenant(i, n)), 0)
			if err != nil {
				return nil, err
			}
			for _, b := range found {
				if b.Spent != 0 || b.Reserved != 0 {
					list = append(list, b)
				}
			}
		}
	}
	return list, nil
}

// tenant names who asks a replica for the n-th time during the present hang.
func (h *hang) tenant(replica, n int) string { return fmt.Sprintf("hang%d-%d-%d", h.times, replica, n) }
