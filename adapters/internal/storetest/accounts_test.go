package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

func requireRefused(t testing.TB, err error) *store.RefusedError {
	t.Helper()
	full, ok := errors.AsType[*store.RefusedError](err)
	if !ok || !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return full
}

func capsHold(t *testing.T, e engine) {
	stores := []store.Store{e.Open(t), e.Open(t)}
	charges := []store.Charge{{Account: "run", Amount: 10, Cap: 100}, {Account: "tenant", Amount: 10, Cap: 1000}}
	var granted atomic.Int64
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			s, id := stores[i%2], int64(i+1)
			err := s.Reserve(t.Context(), id, charges, time.Hour)
			if errors.Is(err, sdk.ErrBudgetExhausted) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			granted.Add(1)
			if err := s.Settle(t.Context(), id, map[string]int64{"run": 10, "tenant": 10}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if granted.Load() != 10 {
		t.Errorf("%d calls of 10 were granted under a cap of 100", granted.Load())
	}
	for _, name := range []string{"run", "tenant"} {
		if spent, reserved := balance(t, stores[0], name); spent != 100 || reserved != 0 {
			t.Errorf("%s: spent %d, reserved %d", name, spent, reserved)
		}
	}
}

func allOrNothing(t *testing.T, e engine) {
	s := e.Open(t)
	full := requireRefused(t, s.Reserve(t.Context(), 1, []store.Charge{{Account: "a wide", Amount: 50, Cap: 100}, {Account: "b narrow", Amount: 50, Cap: 7}}, time.Hour))
	if full.Account != "b narrow" || full.Left != 7 || full.Asked != 50 {
		t.Errorf("got %+v", full)
	}
	if spent, reserved := balance(t, s, "a wide"); spent != 0 || reserved != 0 {
		t.Errorf("the refused call holds %d, %d of the wide account", spent, reserved)
	}
	must(t, s.Reserve(t.Context(), 1, []store.Charge{{Account: "a wide", Amount: 100, Cap: 100}}, time.Hour))
}

func settling(t *testing.T, e engine) {
	s := e.Open(t)
	one := []store.Charge{{Account: "a", Amount: 90, Cap: 100}}
	must(t, s.Reserve(t.Context(), 1, one, time.Hour))
	_ = requireRefused(t, s.Reserve(t.Context(), 2, one, time.Hour))
	for range 3 {
		must(t, s.Settle(t.Context(), 1, map[string]int64{"a": 5}))
	}
	must(t, s.Settle(t.Context(), 77, map[string]int64{"a": 5}))
	if spent, reserved := balance(t, s, "a"); spent != 5 || reserved != 0 {
		t.Errorf("spent %d, reserved %d, want 5 and 0", spent, reserved)
	}
	must(t, s.Reserve(t.Context(), 3, one, time.Hour))
}

func twice(t *testing.T, e engine) {
	s := e.Open(t)
	one := []store.Charge{{Account: "a", Amount: 60, Cap: 100}}
	must(t, s.Reserve(t.Context(), 1, one, time.Hour))
	must(t, s.Reserve(t.Context(), 1, one, time.Hour))
	if _, reserved := balance(t, s, "a"); reserved != 60 {
		t.Errorf("reserved %d, want 60", reserved)
	}
}

func expiry(t *testing.T, e engine) {
	s := e.Open(t)
	one := []store.Charge{{Account: "a", Amount: 75, Cap: 100}}
	must(t, s.Reserve(t.Context(), 1, one, -time.Second))
	s.Close()

	s = e.Open(t)
	if spent, reserved := balance(t, s, "a"); spent != 75 || reserved != 0 {
		t.Errorf("spent %d, reserved %d: the worst case must stand", spent, reserved)
	}
	_ = requireRefused(t, s.Reserve(t.Context(), 2, one, time.Hour))
	// The bill comes late, twice.
	for range 2 {
		must(t, s.Settle(t.Context(), 1, map[string]int64{"a": 20}))
	}
	if spent, reserved := balance(t, s, "a"); spent != 20 || reserved != 0 {
		t.Errorf("spent %d, reserved %d, want the bill", spent, reserved)
	}
	must(t, s.Reserve(t.Context(), 3, []store.Charge{{Account: "a", Amount: 80, Cap: 100}}, -time.Second))
	if ended, err := s.Extend(t.Context(), map[int64]store.LeaseState{3: {HandedOut: 80}}, time.Hour); err != nil || len(ended) != 1 {
		t.Errorf("what is over was extended: %v, %v", ended, err)
	}
}

func returning(t *testing.T, e engine) {
	s := e.Open(t)
	one := []store.Charge{{Account: "streams", Amount: 1, Cap: 1, Returns: true}}
	must(t, s.Reserve(t.Context(), 1, one, -time.Second))
	balance(t, s, "streams")
	must(t, s.Reserve(t.Context(), 2, one, time.Hour))
	must(t, s.Settle(t.Context(), 1, nil)) // late
	if spent, reserved := balance(t, s, "streams"); spent != 0 || reserved != 1 {
		t.Errorf("spent %d, reserved %d, want the second only", spent, reserved)
	}
	must(t, s.Settle(t.Context(), 2, nil))
}

func periods(t *testing.T, e engine) {
	s := e.Open(t)
	noon := time.Date(2031, 5, 6, 12, 0, 30, 0, time.UTC)
	e.Clock(t, s, noon)
	one := []store.Charge{{Account: "a", Amount: 100, Cap: 100, Period: time.Minute}}
	must(t, s.Reserve(t.Context(), 1, one, time.Hour))
	full := requireRefused(t, s.Reserve(t.Context(), 2, one, time.Hour))
	if full.Wait != 30*time.Second {
		t.Errorf("it begins anew in %v", full.Wait)
	}
	e.Clock(t, s, noon.Add(30*time.Second))
	must(t, s.Reserve(t.Context(), 3, one, time.Hour))
	// The clock goes back: the minute before does not come again.
	e.Clock(t, s, noon.Add(-5*time.Minute))
	_ = requireRefused(t, s.Reserve(t.Context(), 4, one, time.Hour))
	must(t, s.Settle(t.Context(), 1, map[string]int64{"a": 1}))
	_ = requireRefused(t, s.Reserve(t.Context(), 5, one, time.Hour))
}

// What was spent within a longer period, or ever, counts when the cap's period becomes longer, in refusals and in
// balances. A shorter period begins empty.
func longerPeriods(t *testing.T, e engine) {
	s, id := e.Open(t), int64(0)
	noon := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
	spend := func(at time.Time, amount int64, period time.Duration) {
		t.Helper()
		e.Clock(t, s, at)
		id++
		must(t, s.Reserve(t.Context(), id, []store.Charge{{Account: "a", Amount: amount, Cap: 100, Period: period}}, time.Hour))
		must(t, s.Settle(t.Context(), id, map[string]int64{"a": amount}))
	}
	left := func(want int64, period time.Duration) *store.RefusedError {
		t.Helper()
		id++
		full := requireRefused(t, s.Reserve(t.Context(), id, []store.Charge{{Account: "a", Amount: 101, Cap: 100, Period: period}}, time.Hour))
		if spent, _ := balance(t, s, "a"); full.Left != want || spent != 100-want {
			t.Errorf("in periods of %s %d are left after %d, want %d", period, full.Left, spent, want)
		}
		return full
	}
	spend(noon.Add(-24*time.Hour), 8, 24*time.Hour)
	spend(noon, 20, 24*time.Hour)
	spend(noon, 30, time.Hour)
	left(70, time.Hour)
	spend(noon.Add(time.Hour), 4, time.Hour)
	for range 2 {
		if full := left(46, 24*time.Hour); full.Wait != 11*time.Hour {
			t.Errorf("it begins anew in %v, want midnight", full.Wait)
		}
	}
	left(38, 0)
	spend(noon.Add(2*time.Hour), 1, 0)
	left(37, 0)
	e.Clock(t, s, noon.Add(24*time.Hour))
	left(37, 0)
	spend(noon.Add(24*time.Hour), 2, 24*time.Hour)
	left(98, 24*time.Hour)
	left(35, 0)
}

// An unsettled reservation is freed when the operator says that it was not spent, and a late bill is still booked.
func releasing(t *testing.T, e engine) {
	s := e.Open(t)
	must(t, s.Reserve(t.Context(), 1, []store.Charge{{Account: "a", Amount: 30, Cap: 100}, {Account: "b", Amount: 30, Cap: 100}}, -time.Second))
	must(t, s.Reserve(t.Context(), 2, []store.Charge{{Account: "a", Amount: 50, Cap: 100}}, time.Hour))
	for most, want := range [][]store.Balance{
		{{Account: "a", Spent: 30, Reserved: 50, Unsettled: 30}, {Account: "b", Spent: 30, Unsettled: 30}},
		{{Account: "a", Spent: 30, Reserved: 50, Unsettled: 30}},
	} {
		list, err := s.Balances(t.Context(), "", most)
		must(t, err)
		for i := range list {
			if left := time.Until(list[i].Until); (left > 59*time.Minute && left <= time.Hour) != (list[i].Reserved > 0) {
				t.Errorf("%s is reserved until %v, want an hour from now where something is", list[i].Account, list[i].Until)
			}
			list[i].Until = time.Time{}
		}
		if !slices.Equal(list, want) {
			t.Errorf("at most %d: %+v, want %+v", most, list, want)
		}
	}
	must(t, s.Release(t.Context(), "a"))
	if spent, reserved := balance(t, s, "a"); spent != 0 || reserved != 50 {
		t.Errorf("spent %d, reserved %d, want what is over back and the rest held", spent, reserved)
	}
	if spent, _ := balance(t, s, "b"); spent != 30 {
		t.Errorf("another account was released: %d", spent)
	}
	must(t, s.Settle(t.Context(), 1, map[string]int64{"a": 7, "b": 8}))
	must(t, s.Settle(t.Context(), 2, map[string]int64{"a": 2}))
	for account, want := range map[string]int64{"a": 9, "b": 8} {
		if spent, reserved := balance(t, s, account); spent != want || reserved != 0 {
			t.Errorf("%s: spent %d, reserved %d, want the bills", account, spent, reserved)
		}
	}
}

// Old rows are deleted in small batches; what a cap may still depend on is kept.
func pruning(t *testing.T, e engine) {
	s := e.Open(t)
	day := 24 * time.Hour
	e.Clock(t, s, time.Now().Add(-100*day))
	run := store.RunAccount("blue", "nightly")
	active := trace(1)
	active.Tenant, active.Run, active.Start = "blue", "active", time.Now()
	must(t, s.Record(t.Context(), entriesOf([]*sdk.Trace{active})))
	for id, c := range []store.Charge{
		{Account: run}, {Account: store.RunAccount("blue", "held")}, {Account: store.TenantAccount("blue")}, {Account: "key requests", Period: time.Hour}, {Account: "yearly", Period: 365 * day},
		{Account: store.RunAccount("blue", "active")},
	} {
		c.Amount, c.Cap = 5, 9
		must(t, s.Reserve(t.Context(), int64(id+1), []store.Charge{c}, 1000*day))
		if id != 1 {
			must(t, s.Settle(t.Context(), int64(id+1), map[string]int64{c.Account: 5}))
		}
	}
	e.Clock(t, s, time.Now())
	must(t, s.Reserve(t.Context(), 9, []store.Charge{{Account: "key requests", Amount: 1, Cap: 9, Period: time.Hour}, {Account: store.RunAccount("blue", "new"), Amount: 1}}, time.Hour))
	must(t, s.Post(t.Context(), "session", "new", []byte("x"), time.Hour))
	must(t, s.Post(t.Context(), "session", "old", []byte("x"), -time.Hour)) // last, since one post in 64 sweeps
	none, err := s.Prune(t.Context(), store.Retention{}, 10)
	if must(t, err); none != (store.PruneCounts{}) {
		t.Errorf("pruned %+v, want nothing without a limit", none)
	}
	one, err := s.Prune(t.Context(), store.Retention{Accounts: 90 * day, Sessions: time.Minute}, 1)
	if must(t, err); one != (store.PruneCounts{Accounts: 1, Sessions: 1}) {
		t.Errorf("pruned %+v, want one of each", one)
	}
	all, err := store.PruneAll(t.Context(), s, store.Retention{Accounts: 90 * day, Sessions: time.Minute})
	if must(t, err); all != (store.PruneCounts{Accounts: 1}) {
		t.Errorf("pruned %+v, want the other account", all)
	}
	list, err := s.Balances(t.Context(), "", 0)
	must(t, err)
	var left []string
	for _, b := range list {
		left = append(left, fmt.Sprint(b.Account, " ", b.Spent, " ", b.Reserved))
	}
	want := []string{"key requests 0 1", `run "blue" "active" 5 0`, `run "blue" "held" 0 5`, `run "blue" "new" 0 1`, `tenant "blue" 5 0`, "yearly 5 0"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Error(diff)
	}
	if notes, err := s.Notes(t.Context(), "session"); err != nil || len(notes) != 1 {
		t.Errorf("notes %v, %v", notes, err)
	}
}

func many(t *testing.T, e engine) {
	var wg sync.WaitGroup
	for w := range 4 {
		s := e.Open(t)
		wg.Go(func() {
			for i := range 40 {
				id := int64(w*1000 + i + 1)
				charges := []store.Charge{{Account: "x", Amount: 1, Cap: 1e6}, {Account: "y", Amount: 1, Cap: 1e6}, {Account: "z", Amount: 1, Cap: 1e6}}
				if err := s.Reserve(t.Context(), id, charges, time.Duration(i%2)*time.Hour-time.Minute); err != nil {
					t.Error(err)
				}
				if err := s.Settle(t.Context(), id, map[string]int64{"z": 1, "x": 1, "y": 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s := e.Open(t)
	for _, name := range []string{"x", "y", "z"} {
		if spent, reserved := balance(t, s, name); spent != 160 || reserved != 0 {
			t.Errorf("%s: spent %d, reserved %d", name, spent, reserved)
		}
	}
}

func badText(t *testing.T, e engine) {
	s := e.Open(t)
	one := trace(1)
	one.Prompt, one.Error, one.Run = "nul \x00 and \xff", "bad \x00", "run\x00"
	must(t, s.Record(t.Context(), entriesOf([]*sdk.Trace{one})))
	if found, err := s.Steps(t.Context(), store.Filter{Text: "nul"}); err != nil || len(found) != 1 {
		t.Errorf("got %v, %v", found, err)
	}
}

func testCancel(t *testing.T, e engine) {
	s := e.Open(t)
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Direct: true})
	defer leased.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := leased.Take(ctx, []store.Charge{{Account: "a", Amount: 1, Cap: 2}}); err == nil {
		t.Error("a call that is over was granted money")
	}
	if spent, reserved := balance(t, s, "a"); spent != 0 || reserved != 0 {
		t.Errorf("spent %d, reserved %d", spent, reserved)
	}
}
