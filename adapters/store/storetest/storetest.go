// Package storetest says what every engine of a store must do, as a test that each of
// them runs.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Engine is an engine under test.
type Engine struct {
	// Open opens the same database each time, as another process would.
	Open func(t testing.TB) store.Store
	// Clock sets the clock by which the engine counts the periods of accounts.
	Clock func(t testing.TB, s store.Store, now time.Time)
}

// Run runs the tests. Each gets an engine with an empty database from fresh.
func Run(t *testing.T, fresh func(t testing.TB) Engine) {
	for name, test := range map[string]func(*testing.T, Engine){
		"CapsHoldAgainstConcurrentCallers":        capsHold,
		"AReservationIsAllOrNothing":              allOrNothing,
		"SettlingGivesTheRestBackOnce":            settling,
		"TheSameReservationTwiceIsOne":            twice,
		"WhatIsNotSettledCountsAsSpent":           expiry,
		"WhatReturnsIsGivenBack":                  returning,
		"PeriodsNeverGoBack":                      periods,
		"LeasesNeverPassACap":                     leases,
		"TillsOfManyProcessesHoldACap":            tills,
		"ATillGivesBackWhatItDoesNotUse":          idle,
		"ATillUsesEveryCent":                      everyCent,
		"TracesComeBack":                          traces,
		"ATraceCountsOnce":                        countsOnce,
		"SumsAddUp":                               sums,
		"PagesAndFollowersMissNothing":            pages,
		"KeysAreFoundByDigest":                    keys,
		"NotesEnd":                                notes,
		"NumbersAddUp":                            numbers,
		"LedgersChargeTenantRunAndKey":            ledger,
		"ConcurrentWritersOfManyAccountsAllEnd":   many,
		"ATextThatIsNoTextIsRecordedAllTheSame":   badText,
		"ACallThatIsCancelledLeavesNothingBehind": cancelled,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

func balance(t testing.TB, s store.Store, account string) (spent, reserved int64) {
	t.Helper()
	list, err := s.Balances(context.Background(), account)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		if b.Account == account {
			return b.Spent, b.Reserved
		}
	}
	return 0, 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t testing.TB, err error) *store.RefusedError {
	t.Helper()
	full, ok := errors.AsType[*store.RefusedError](err)
	if !ok || !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return full
}

func capsHold(t *testing.T, e Engine) {
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

func allOrNothing(t *testing.T, e Engine) {
	s := e.Open(t)
	full := refused(t, s.Reserve(t.Context(), 1, []store.Charge{{Account: "a wide", Amount: 50, Cap: 100}, {Account: "b narrow", Amount: 50, Cap: 7}}, time.Hour))
	if full.Account != "b narrow" || full.Left != 7 || full.Asked != 50 {
		t.Errorf("got %+v", full)
	}
	if spent, reserved := balance(t, s, "a wide"); spent != 0 || reserved != 0 {
		t.Errorf("the refused call holds %d, %d of the wide account", spent, reserved)
	}
	must(t, s.Reserve(t.Context(), 1, []store.Charge{{Account: "a wide", Amount: 100, Cap: 100}}, time.Hour))
}

func settling(t *testing.T, e Engine) {
	s := e.Open(t)
	one := []store.Charge{{Account: "a", Amount: 90, Cap: 100}}
	must(t, s.Reserve(t.Context(), 1, one, time.Hour))
	_ = refused(t, s.Reserve(t.Context(), 2, one, time.Hour))
	for range 3 {
		must(t, s.Settle(t.Context(), 1, map[string]int64{"a": 5}))
	}
	must(t, s.Settle(t.Context(), 77, map[string]int64{"a": 5}))
	if spent, reserved := balance(t, s, "a"); spent != 5 || reserved != 0 {
		t.Errorf("spent %d, reserved %d, want 5 and 0", spent, reserved)
	}
	must(t, s.Reserve(t.Context(), 3, one, time.Hour))
}

func twice(t *testing.T, e Engine) {
	s := e.Open(t)
	one := []store.Charge{{Account: "a", Amount: 60, Cap: 100}}
	must(t, s.Reserve(t.Context(), 1, one, time.Hour))
	must(t, s.Reserve(t.Context(), 1, one, time.Hour))
	if _, reserved := balance(t, s, "a"); reserved != 60 {
		t.Errorf("reserved %d, want 60", reserved)
	}
}

func expiry(t *testing.T, e Engine) {
	s := e.Open(t)
	one := []store.Charge{{Account: "a", Amount: 75, Cap: 100}}
	must(t, s.Reserve(t.Context(), 1, one, -time.Second))
	s.Close()

	s = e.Open(t)
	if spent, reserved := balance(t, s, "a"); spent != 75 || reserved != 0 {
		t.Errorf("spent %d, reserved %d: the worst case must stand", spent, reserved)
	}
	_ = refused(t, s.Reserve(t.Context(), 2, one, time.Hour))
	// The bill comes late, twice.
	for range 2 {
		must(t, s.Settle(t.Context(), 1, map[string]int64{"a": 20}))
	}
	if spent, reserved := balance(t, s, "a"); spent != 20 || reserved != 0 {
		t.Errorf("spent %d, reserved %d, want the bill", spent, reserved)
	}
	must(t, s.Reserve(t.Context(), 3, []store.Charge{{Account: "a", Amount: 80, Cap: 100}}, -time.Second))
	must(t, s.Extend(t.Context(), []int64{3}, time.Hour))
}

func returning(t *testing.T, e Engine) {
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

func periods(t *testing.T, e Engine) {
	s := e.Open(t)
	noon := time.Date(2031, 5, 6, 12, 0, 30, 0, time.UTC)
	e.Clock(t, s, noon)
	one := []store.Charge{{Account: "a", Amount: 100, Cap: 100, Period: time.Minute}}
	must(t, s.Reserve(t.Context(), 1, one, time.Hour))
	full := refused(t, s.Reserve(t.Context(), 2, one, time.Hour))
	if want := noon.Add(30 * time.Second); !full.Until.Equal(want) {
		t.Errorf("it begins anew at %v, want %v", full.Until, want)
	}
	e.Clock(t, s, noon.Add(30*time.Second))
	must(t, s.Reserve(t.Context(), 3, one, time.Hour))
	// The clock goes back: the minute before does not come again.
	e.Clock(t, s, noon.Add(-5*time.Minute))
	_ = refused(t, s.Reserve(t.Context(), 4, one, time.Hour))
	must(t, s.Settle(t.Context(), 1, map[string]int64{"a": 1}))
	_ = refused(t, s.Reserve(t.Context(), 5, one, time.Hour))
}

func leases(t *testing.T, e Engine) {
	s := e.Open(t)
	c := store.Charge{Account: "a", Amount: 50, Cap: 800}
	amount, until, err := s.Lease(t.Context(), 1, c, 10, time.Hour)
	if must(t, err); amount != 50 || !until.IsZero() {
		t.Errorf("leased %d until %v, want 50 for ever", amount, until)
	}
	c.Amount = 1 << 40
	sum := amount
	for id := int64(2); ; id++ {
		amount, _, err := s.Lease(t.Context(), id, c, 10, time.Hour)
		if err != nil {
			_ = refused(t, err)
			break
		}
		if amount > max(10, (800-sum)/store.LeaseShare) {
			t.Errorf("leased %d of %d", amount, 800-sum)
		}
		sum += amount
	}
	if sum > 800 || sum < 791 {
		t.Errorf("the leases are %d of 800", sum)
	}
	must(t, s.Settle(t.Context(), 1, map[string]int64{"a": 3}))
	if spent, reserved := balance(t, s, "a"); spent != 3 || reserved != sum-50 {
		t.Errorf("spent %d, reserved %d", spent, reserved)
	}
}

func tills(t *testing.T, e Engine) {
	const limit, price = 20_000, 7
	var paid atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		till := store.NewTill(e.Open(t), store.TillOptions{Idle: 40 * time.Millisecond})
		t.Cleanup(func() { till.Close() })
		for range 4 {
			wg.Go(func() {
				for range 400 {
					held, err := till.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 3 * price, Cap: limit}})
					if errors.Is(err, sdk.ErrBudgetExhausted) {
						time.Sleep(time.Millisecond)
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					paid.Add(price)
					if err := held.Settle(t.Context(), price); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if paid.Load() > limit {
		t.Errorf("%d was paid under a cap of %d", paid.Load(), limit)
	}
	if paid.Load() < limit/2 {
		t.Errorf("only %d of %d was paid", paid.Load(), limit)
	}
}

func idle(t *testing.T, e Engine) {
	s := e.Open(t)
	till := store.NewTill(s, store.TillOptions{Idle: 50 * time.Millisecond})
	for range 50 {
		held, err := till.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 10, Cap: 100_000}})
		must(t, err)
		must(t, held.Settle(t.Context(), 4))
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if spent, reserved := balance(t, s, "hot"); spent == 200 && reserved == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("spent %d, reserved %d: the leases do not come back", spent, reserved)
		}
	}
	held, err := till.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 10, Cap: 100_000}})
	must(t, err)
	must(t, held.Settle(t.Context(), 4))
	must(t, till.Close())
	if spent, reserved := balance(t, s, "hot"); spent != 204 || reserved != 0 {
		t.Errorf("spent %d, reserved %d after the end", spent, reserved)
	}
}

func everyCent(t *testing.T, e Engine) {
	till := store.NewTill(e.Open(t), store.TillOptions{})
	defer till.Close()
	for i := range 1000 {
		held, err := till.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 3, Cap: 1001}})
		if err != nil {
			_ = refused(t, err)
			if i != 333 {
				t.Errorf("refused after %d calls of 3 under a cap of 1001", i)
			}
			return
		}
		must(t, held.Settle(t.Context(), 3))
	}
	t.Error("the cap does not hold")
}

var start = time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)

// trace makes the i-th trace of a table that the tests count in.
func trace(i int) *sdk.Trace {
	t := &sdk.Trace{
		ID: fmt.Sprintf("%032x", i), Start: start.Add(time.Duration(i) * time.Hour), Run: fmt.Sprint("run", i%3), Tenant: []string{"acme", "blue"}[i%2],
		Session: fmt.Sprint("s", i%5), QueryID: fmt.Sprint("q", i), Policy: "p.hcl@1", Mode: "enforce", Strategy: "index", Stop: sdk.StopNotWorth,
		Chosen: "small", Prompt: "What is 100% of " + strconv.Itoa(i) + "?", CostUSD: 0.25, Duration: time.Second, Overhead: time.Millisecond,
		Usage: sdk.Usage{InputTokens: 10, OutputTokens: 2},
		Calls: []sdk.Call{{Model: "small", CostUSD: 0.05, Usage: sdk.Usage{InputTokens: 4, OutputTokens: 1}, Verdict: &sdk.Verdict{Outcome: sdk.Passed}}},
	}
	switch i % 4 {
	case 1:
		t.Calls[0].Verdict = &sdk.Verdict{Outcome: sdk.Failed}
		t.Calls = append(t.Calls, sdk.Call{Model: "large", CostUSD: 0.2, Usage: sdk.Usage{InputTokens: 6, OutputTokens: 1}, Verdict: &sdk.Verdict{Outcome: sdk.Passed}})
		t.Chosen = "large"
	case 3:
		t.Calls[0].Error, t.Calls[0].Verdict, t.Chosen, t.Error, t.Stop = "boom", nil, "", "model small: boom", sdk.StopError
	}
	return t
}

func ids(steps []store.Step) (list []string) {
	for _, s := range steps {
		n, _ := strconv.ParseInt(s.ID, 16, 64)
		list = append(list, strconv.FormatInt(n, 10))
	}
	return list
}

func traces(t *testing.T, e Engine) {
	s := e.Open(t)
	var batch []*sdk.Trace
	var keys []string
	for i := range 12 {
		batch, keys = append(batch, trace(i)), append(keys, fmt.Sprint("key", i%2))
	}
	must(t, s.Record(t.Context(), batch, keys))
	s.Close()

	s = e.Open(t)
	got, err := s.Trace(t.Context(), fmt.Sprintf("%032x", 5))
	if must(t, err); got.Calls[1].Verdict.Outcome != sdk.Passed || !got.Start.Equal(trace(5).Start) {
		t.Errorf("got %+v", got)
	}
	if _, err := s.Trace(t.Context(), "fff"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown trace gives %v", err)
	}
	if _, err := s.Trace(t.Context(), "000"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("the beginning of several gives %v", err)
	}
	for name, c := range map[string]struct {
		f    store.Filter
		want []string
	}{
		"run and time": {store.Filter{Run: "run0", Until: start.Add(9 * time.Hour)}, []string{"6", "3", "0"}},
		"tenant":       {store.Filter{Tenant: "blue", Limit: 2}, []string{"11", "9"}},
		"key":          {store.Filter{Key: "key1", Since: start.Add(8 * time.Hour)}, []string{"11", "9"}},
		"failed":       {store.Filter{Failed: true}, []string{"11", "7", "3"}},
		"escalated":    {store.Filter{Escalated: true, Chosen: "large"}, []string{"9", "5", "1"}},
		"asked":        {store.Filter{Model: "large"}, []string{"9", "5", "1"}},
		"outcome":      {store.Filter{Outcome: "passed", Session: "s0"}, []string{"10", "5", "0"}},
		"text":         {store.Filter{Text: "100% OF 1"}, []string{"11", "10", "1"}},
		"error":        {store.Filter{Text: "boom", Query: "q7"}, []string{"7"}},
		"stop":         {store.Filter{Stop: sdk.StopError, Policy: "p.hcl@1", Mode: "enforce", Limit: 1}, []string{"11"}},
		"nothing":      {store.Filter{Tenant: "nobody"}, nil},
	} {
		found, err := s.Steps(t.Context(), c.f)
		must(t, err)
		if diff := cmp.Diff(c.want, ids(found)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	found, err := s.Steps(t.Context(), store.Filter{Query: "q5"})
	must(t, err)
	want := []store.Step{{
		Seq: found[0].Seq, ID: trace(5).ID, Start: trace(5).Start, Policy: "p.hcl@1", Mode: "enforce", Strategy: "index", Tenant: "blue", Key: "key1", Run: "run2",
		Session: "s0", Query: "q5", Asked: []string{"small", "large"}, Chosen: "large", Stop: sdk.StopNotWorth, Outcome: "passed", Prompt: "What is 100% of 5?",
		Calls: 2, InputTokens: 10, OutputTokens: 2, CostUSD: 0.25, Duration: time.Second, Overhead: time.Millisecond,
	}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if n, err := s.Prune(t.Context(), start.Add(2*time.Hour)); n != 2 || err != nil {
		t.Errorf("pruned %d: %v", n, err)
	}
	if found, err := s.Steps(t.Context(), store.Filter{}); len(found) != 10 || err != nil {
		t.Errorf("%d are left: %v", len(found), err)
	}
	total, err := s.Sums(t.Context(), nil, store.Filter{})
	if must(t, err); len(total) != 1 || total[0].Steps != 12 {
		t.Errorf("sums do not stay: %+v", total)
	}
}

func countsOnce(t *testing.T, e Engine) {
	s := e.Open(t)
	for range 3 {
		must(t, s.Record(t.Context(), []*sdk.Trace{trace(1), trace(2), trace(1)}, nil))
	}
	total, err := s.Sums(t.Context(), nil, store.Filter{})
	if must(t, err); len(total) != 1 || total[0].Steps != 2 || math.Abs(total[0].CostUSD-0.5) > 1e-12 {
		t.Errorf("got %+v", total)
	}
}

func sums(t *testing.T, e Engine) {
	s := e.Open(t)
	for i := range 48 {
		must(t, s.Record(t.Context(), []*sdk.Trace{trace(i)}, []string{fmt.Sprint("key", i%2)}))
	}
	total, err := s.Sums(t.Context(), nil, store.Filter{})
	must(t, err)
	want := store.Sum{
		Steps: 48, Failed: 12, Escalated: 12, Calls: 60, Passed: 36, Rejected: 12, InputTokens: 480, OutputTokens: 96, CostUSD: 12,
		Duration: 48 * time.Second, Overhead: 48 * time.Millisecond,
	}
	if diff := cmp.Diff([]store.Sum{want}, total); diff != "" {
		t.Error(diff)
	}
	byModel, err := s.Sums(t.Context(), []store.Dimension{store.ByModel}, store.Filter{Tenant: "blue"})
	must(t, err)
	if diff := cmp.Diff([]store.Sum{
		{Model: "large", Steps: 12, Calls: 12, Passed: 12, InputTokens: 72, OutputTokens: 12, CostUSD: 2.4},
		{Model: "small", Failed: 12, Calls: 24, Rejected: 12, InputTokens: 96, OutputTokens: 24, CostUSD: 1.2},
	}, byModel); diff != "" {
		t.Error(diff)
	}
	days, err := s.Sums(t.Context(), []store.Dimension{store.ByDay, store.ByKey, store.ByTenant, store.ByPolicy}, store.Filter{Since: start.Add(24 * time.Hour), Until: start.Add(25 * time.Hour)})
	must(t, err)
	if len(days) != 2 || days[0].Day != "2026-11-22" || days[0].Key != "key0" || days[0].Tenant != "acme" || days[0].Policy != "p.hcl@1" || days[0].Steps != 12 {
		t.Errorf("got %+v", days)
	}
	runs, err := s.Runs(t.Context(), store.Filter{Tenant: "acme", Limit: 2, Offset: 1})
	must(t, err)
	if len(runs) != 2 || runs[0].Run != "run2" && runs[0].Run != "run0" && runs[0].Run != "run1" || runs[0].Steps != 8 || !runs[0].Last.After(runs[1].Last) {
		t.Errorf("got %+v", runs)
	}
	if _, err := s.Sums(t.Context(), []store.Dimension{"weather"}, store.Filter{}); err == nil {
		t.Error("there are sums by the weather")
	}
}

func pages(t *testing.T, e Engine) {
	s := e.Open(t)
	// Three at each time, so that a page ends among equals.
	for i := range 30 {
		one := trace(i)
		one.Start = start.Add(time.Duration(i/3) * time.Second)
		must(t, s.Record(t.Context(), []*sdk.Trace{one}, nil))
	}
	seen := map[string]bool{}
	f := store.Filter{Limit: 4}
	for {
		page, err := s.Steps(t.Context(), f)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, p := range page {
			if seen[p.ID] {
				t.Errorf("%s comes twice", p.ID)
			}
			seen[p.ID] = true
		}
		f.Before = &page[len(page)-1]
	}
	if len(seen) != 30 {
		t.Errorf("%d of 30", len(seen))
	}
	// Followers see every step, in the order of Seq, whoever writes.
	var wg sync.WaitGroup
	for w := range 3 {
		other := e.Open(t)
		wg.Go(func() {
			for i := range 40 {
				if err := other.Record(t.Context(), []*sdk.Trace{trace(1000 + 100*w + i)}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	last, got := int64(0), 0
	for deadline := time.Now().Add(30 * time.Second); got < 150 && time.Now().Before(deadline); {
		fresh, err := s.Follow(t.Context(), last, store.Filter{Limit: 7})
		must(t, err)
		got += len(fresh)
		for _, one := range fresh {
			if one.Seq <= last {
				t.Errorf("%d after %d", one.Seq, last)
			}
			last = one.Seq
		}
	}
	wg.Wait()
	if got != 150 {
		t.Errorf("a follower saw %d of 150", got)
	}
}

func keys(t *testing.T, e Engine) {
	s := e.Open(t)
	now := time.Now().UTC().Truncate(time.Second)
	k := &store.Key{ID: "k1", Tenant: "acme", Created: now, CapUSD: 5, RequestsPerMinute: 3}
	must(t, s.PutKey(t.Context(), k, []byte("one"), now))
	got, err := e.Open(t).KeyByDigest(t.Context(), []byte("one"))
	must(t, err)
	if diff := cmp.Diff(k, got); diff != "" || !got.Valid(now) {
		t.Error(diff)
	}
	if _, err := s.KeyByDigest(t.Context(), []byte("two")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown secret gives %v", err)
	}
	// A new secret; the first one ends in an hour.
	must(t, s.PutKey(t.Context(), k, []byte("two"), now.Add(time.Hour)))
	first, err := s.KeyByDigest(t.Context(), []byte("one"))
	must(t, err)
	second, err := s.KeyByDigest(t.Context(), []byte("two"))
	must(t, err)
	if !first.Valid(now) || first.Valid(now.Add(time.Hour)) || !second.Valid(now.Add(time.Hour)) {
		t.Errorf("the first %+v, the second %+v", first, second)
	}
	k.Revoked = now
	must(t, s.PutKey(t.Context(), k, nil, time.Time{}))
	if got, err := s.KeyByDigest(t.Context(), []byte("two")); err != nil || got.Valid(now) {
		t.Errorf("a revoked key is %+v, %v", got, err)
	}
	must(t, s.PutKey(t.Context(), &store.Key{ID: "k0"}, []byte("three"), now))
	list, err := s.ListKeys(t.Context(), "")
	if must(t, err); len(list) != 2 || list[0].ID != "k0" {
		t.Errorf("got %+v", list)
	}
	if list, err := s.ListKeys(t.Context(), "k1"); err != nil || len(list) != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

func notes(t *testing.T, e Engine) {
	s, other := e.Open(t), e.Open(t)
	must(t, s.Post(t.Context(), "circuit", "a", []byte("1"), time.Hour))
	must(t, s.Post(t.Context(), "circuit", "a", []byte("2"), time.Hour))
	must(t, s.Post(t.Context(), "circuit", "b", []byte("3"), time.Hour))
	must(t, s.Post(t.Context(), "circuit", "b", []byte("3"), -time.Hour))
	must(t, s.Post(t.Context(), "session", "a", []byte("4"), time.Hour))
	got, err := other.Notes(t.Context(), "circuit")
	must(t, err)
	if diff := cmp.Diff(map[string][]byte{"a": []byte("2")}, got); diff != "" {
		t.Error(diff)
	}
	if note, err := other.Note(t.Context(), "session", "a"); string(note) != "4" || err != nil {
		t.Errorf("got %q, %v", note, err)
	}
	if note, err := other.Note(t.Context(), "circuit", "b"); note != nil || err != nil {
		t.Errorf("got %q, %v", note, err)
	}
}

func numbers(t *testing.T, e Engine) {
	var wg sync.WaitGroup
	for range 4 {
		s := e.Open(t)
		wg.Go(func() {
			for range 10 {
				if _, err := s.Add(t.Context(), "pace", "p", []float64{1, 0.5}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := e.Open(t).Add(t.Context(), "pace", "p", nil)
	if must(t, err); !slices.Equal(got, []float64{40, 20}) {
		t.Errorf("got %v", got)
	}
}

func ledger(t *testing.T, e Engine) {
	s := e.Open(t)
	till := store.NewTill(s, store.TillOptions{})
	defer till.Close()
	var l step.Ledger = till.Ledger(step.Caps{RunUSD: 0.5, TenantUSD: 2})
	key := &store.Key{ID: "k", CapUSD: 0.6}
	keyed := store.WithKey(t.Context(), key)
	q := &sdk.Query{Run: "agent-7", Tenant: "blue"}
	for range 2 {
		r, err := l.Reserve(keyed, q, 0.25)
		must(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Settle(ended, 0.25); err != nil {
			t.Errorf("settling after the caller has gone: %v", err)
		}
	}
	if _, err := l.Reserve(t.Context(), q, 0.01); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("the run's cap does not hold: %v", err)
	}
	// Another tenant's run of the same name is another run.
	red := &sdk.Query{Run: "agent-7", Tenant: "red"}
	r, err := l.Reserve(t.Context(), red, 0.5)
	must(t, err)
	must(t, r.Settle(t.Context(), 0.5))
	if _, err := l.Reserve(keyed, &sdk.Query{Tenant: "red"}, 0.2); refused(t, err).Account != store.KeyAccount("k") {
		t.Errorf("the key's cap does not hold: %v", err)
	}
	if spent, _ := balance(t, s, store.TenantAccount("blue")); spent != 0.5*store.NanoUSD {
		t.Errorf("the tenant spent %d", spent)
	}
	for _, usd := range []float64{math.NaN(), -0.01, math.Inf(1)} {
		if _, err := l.Reserve(t.Context(), q, usd); err == nil {
			t.Errorf("%v was reserved", usd)
		}
	}
}

func many(t *testing.T, e Engine) {
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

func badText(t *testing.T, e Engine) {
	s := e.Open(t)
	one := trace(1)
	one.Prompt, one.Error, one.Run = "nul \x00 and \xff", "bad \x00", "run\x00"
	must(t, s.Record(t.Context(), []*sdk.Trace{one}, nil))
	if found, err := s.Steps(t.Context(), store.Filter{Text: "nul"}); err != nil || len(found) != 1 {
		t.Errorf("got %v, %v", found, err)
	}
}

func cancelled(t *testing.T, e Engine) {
	s := e.Open(t)
	till := store.NewTill(s, store.TillOptions{Direct: true})
	defer till.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := till.Take(ctx, []store.Charge{{Account: "a", Amount: 1, Cap: 2}}); err == nil {
		t.Error("a call that is over was granted money")
	}
	if spent, reserved := balance(t, s, "a"); spent != 0 || reserved != 0 {
		t.Errorf("spent %d, reserved %d", spent, reserved)
	}
}
