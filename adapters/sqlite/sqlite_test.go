package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestTracesSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "with a space?.db")
	s := open(t, path)
	start := time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
	for i := range 5 {
		trace := &sdk.Trace{
			ID: fmt.Sprint("t", i), Start: start.Add(time.Duration(i) * time.Minute), Run: fmt.Sprint("run", i%2),
			Strategy: "index", Chosen: "small", CostUSD: 0.25, Calls: []sdk.Call{{Model: "small", Verdict: &sdk.Verdict{Outcome: sdk.Passed}}},
		}
		if err := s.Record(t.Context(), trace); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()

	s = open(t, path)
	found, err := s.List(t.Context(), sqlite.Filter{Run: "run0", Until: start.Add(4 * time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range found {
		ids = append(ids, f.ID)
	}
	if diff := cmp.Diff([]string{"t2", "t0"}, ids); diff != "" {
		t.Error(diff)
	}
	got, err := s.Get(t.Context(), "t3")
	if err != nil {
		t.Fatal(err)
	}
	if got.CostUSD != 0.25 || got.Calls[0].Verdict.Outcome != sdk.Passed {
		t.Errorf("got %+v", got)
	}
	if _, err := s.Get(t.Context(), "t9"); !errors.Is(err, sqlite.ErrNoTrace) {
		t.Errorf("an unknown trace gives %v", err)
	}
	if n, err := s.Prune(t.Context(), start.Add(2*time.Minute)); n != 2 || err != nil {
		t.Errorf("pruned %d: %v", n, err)
	}
}

func TestConcurrentCallersNeverExceedACap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	stores := []*sqlite.Store{open(t, path), open(t, path)} // as two processes would
	accounts := []sqlite.Account{{Name: "run/1", CapUSD: 0.10}, {Name: "tenant/a", CapUSD: 1}}
	var granted atomic.Int32
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			s := stores[i%2]
			r, err := s.Reserve(t.Context(), accounts, 0.01, time.Hour)
			if errors.Is(err, sdk.ErrBudgetExhausted) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			granted.Add(1)
			if err := r.Settle(t.Context(), 0.01); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if granted.Load() != 10 {
		t.Errorf("%d calls of a cent were granted under a cap of ten", granted.Load())
	}
	for _, a := range accounts {
		spent, reserved, err := stores[0].Balance(t.Context(), a.Name)
		if err != nil || math.Abs(spent-0.10) > 1e-12 || reserved != 0 {
			t.Errorf("%s: spent %v, reserved %v, %v", a.Name, spent, reserved, err)
		}
	}
}

func TestAReservationIsAllOrNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	accounts := []sqlite.Account{{Name: "wide", CapUSD: 10}, {Name: "narrow", CapUSD: 0.001}}
	if _, err := s.Reserve(t.Context(), accounts, 0.5, time.Hour); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Fatalf("got %v", err)
	}
	if _, reserved, err := s.Balance(t.Context(), "wide"); reserved != 0 || err != nil {
		t.Errorf("the refused call holds %v of the wide account (%v)", reserved, err)
	}
}

func TestTheRealCostReplacesTheReservation(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	account := []sqlite.Account{{Name: "run", CapUSD: 1}}
	r, err := s.Reserve(t.Context(), account, 0.9, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reserve(t.Context(), account, 0.2, time.Hour); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("the worst case of the first call is not held: %v", err)
	}
	if err := r.Settle(t.Context(), 0.05); err != nil {
		t.Fatal(err)
	}
	if err := r.Settle(t.Context(), 0.05); !errors.Is(err, sqlite.ErrSettled) {
		t.Errorf("settling twice gives %v", err)
	}
	if spent, _, err := s.Balance(t.Context(), "run"); spent != 0.05 || err != nil {
		t.Errorf("spent %v (%v)", spent, err)
	}
}

func TestACrashedCallCountsAsSpent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := open(t, path)
	account := []sqlite.Account{{Name: "tenant", CapUSD: 1}}
	if _, err := s.Reserve(t.Context(), account, 0.75, -time.Nanosecond); err != nil { // a lease that has ended
		t.Fatal(err)
	}
	s.Close()

	s = open(t, path)
	if spent, reserved, err := s.Balance(t.Context(), "tenant"); spent != 0.75 || reserved != 0 || err != nil {
		t.Errorf("spent %v, reserved %v (%v)", spent, reserved, err)
	}
	if _, err := s.Reserve(t.Context(), account, 0.5, time.Hour); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("the crash made room: %v", err)
	}
}

func TestTheLedgerChargesTheAccountsOfTheQuery(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	var ledger step.Ledger = s.Ledger(step.Caps{RunUSD: 0.5, TenantUSD: 2}, 0)
	q := &sdk.Query{Run: "r1", Tenant: "acme"}
	for range 2 {
		r, err := ledger.Reserve(t.Context(), q, 0.25)
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Settle(ended, 0.25); err != nil {
			t.Errorf("settling after the caller has gone: %v", err)
		}
	}
	if _, err := ledger.Reserve(t.Context(), q, 0.01); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("the run's cap does not hold: %v", err)
	}
	if _, err := ledger.Reserve(t.Context(), &sdk.Query{Run: "r2", Tenant: "acme"}, 0.5); err != nil {
		t.Errorf("another run of the tenant: %v", err)
	}
	if spent, _, err := s.Balance(t.Context(), `tenant "acme"`); spent != 0.5 || err != nil {
		t.Errorf("the tenant spent %v (%v)", spent, err)
	}
}

func TestAmountsThatAreNoneAreRefused(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ledger.db"))
	for _, usd := range []float64{math.NaN(), -0.01, math.Inf(1)} {
		if _, err := s.Reserve(t.Context(), []sqlite.Account{{Name: "a"}}, usd, time.Hour); err == nil {
			t.Errorf("%v was reserved", usd)
		}
	}
}

func TestAFolderIsNoFile(t *testing.T) {
	if _, err := sqlite.Open(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder was opened")
	}
}

func BenchmarkReserveSettle(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "ledger.db"))
	accounts := []sqlite.Account{{Name: "step"}, {Name: "run", CapUSD: 1e6}, {Name: "tenant", CapUSD: 1e6}}
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.Reserve(b.Context(), accounts, 0.001, time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Settle(b.Context(), 0.0005); err != nil {
			b.Fatal(err)
		}
	}
}
