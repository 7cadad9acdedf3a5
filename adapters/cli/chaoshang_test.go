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

// hang is a database that stops answering its replicas, without closing connections.
type hang struct {
	proxy    *pgtest.Proxy
	client   *client
	replicas []*service
	database string // not through the proxy

	times, requests int
	slowest, end    time.Duration
}

// refuse hangs the database and sends each replica three requests of tenants without a lease: each is refused in
// time, with a Retry-After.
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

// terminate stops a replica with SIGTERM while the database hangs, and restarts it. What the others refused is not
// booked, although it may have reached the database late.
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

// booked returns the accounts with reservations of requests that running replicas refused during the last hang.
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

// tenant returns the tenant of the n-th request to a replica during the current hang.
func (h *hang) tenant(replica, n int) string { return fmt.Sprintf("hang%d-%d-%d", h.times, replica, n) }
