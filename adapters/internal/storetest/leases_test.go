package storetest

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

func leases(t *testing.T, e engine) {
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
			_ = requireRefused(t, err)
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

// killable is a store whose process can be killed: from then on it receives nothing.
type killable struct {
	store.Store
	dead atomic.Bool
	// told are the states of leases, as Extend was told them last.
	told atomic.Pointer[map[int64]store.LeaseState]
}

func (k *killable) Extend(ctx context.Context, leases map[int64]store.LeaseState, ttl time.Duration) ([]int64, error) {
	if k.dead.Load() {
		return nil, sdk.ErrStoreUnavailable
	}
	ended, err := k.Store.Extend(ctx, leases, ttl)
	k.told.Store(&leases)
	return ended, err
}

func (k *killable) Settle(ctx context.Context, id int64, spent map[string]int64) error {
	if k.dead.Load() {
		return sdk.ErrStoreUnavailable
	}
	return k.Store.Settle(ctx, id, spent)
}

// takeAfterBills settles 30 calls at the price, which is ten times their reservation, and returns the reservation of
// one more.
func takeAfterBills(t *testing.T, leased *store.LeasedAccounts, price, limit int64) *store.Hold {
	charge := []store.Charge{{Account: "hot", Amount: 10 * price, Cap: limit}}
	for range 30 {
		held, err := leased.Take(t.Context(), charge)
		must(t, err)
		must(t, held.Settle(t.Context(), price))
	}
	under, err := leased.Take(t.Context(), charge)
	must(t, err)
	return under
}

// The leases of a killed process expire after a minute. What then counts as spent is its spend, its reservations, and
// at most an eighth of the leases.
func testKill(t *testing.T, e engine) {
	const limit, price = 100_000, 50
	s := &killable{Store: e.Open(t)}
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{})
	t.Cleanup(func() { leased.Close() })
	under := takeAfterBills(t, leased, price, limit)
	s.dead.Store(true)
	spent, reserved := balance(t, s, "hot")
	if reserved < limit/10 {
		t.Fatalf("only %d are leased: nothing is tested", reserved)
	}
	e.Clock(t, s.Store, time.Now().Add(61*time.Second))
	least := int64(30*price + 10*price)
	after, still := balance(t, s, "hot")
	if most := least + reserved/store.LeaseShare + 10*price; still != 0 || after < least || after > most {
		t.Errorf("spent %d and reserved %d of %d; a minute later %d and %d, want nothing reserved and %d to %d spent", spent, reserved, limit, after, still, least, most)
	}
	// It was only away: its bills correct the account, and it hands out nothing more of what is over.
	s.dead.Store(false)
	must(t, under.Settle(t.Context(), price))
	must(t, leased.Close())
	if spent, reserved := balance(t, s, "hot"); spent != 31*price || reserved != 0 {
		t.Errorf("spent %d, reserved %d after the end, want %d", spent, reserved, 31*price)
	}
}

// The settled spend of a killed process's leases is known, and the operator can release only the rest.
func releasedLeases(t *testing.T, e engine) {
	const limit, price = 100_000, 50
	s := &killable{Store: e.Open(t)}
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: 400 * time.Millisecond})
	t.Cleanup(func() { leased.Close() })
	takeAfterBills(t, leased, price, limit)
	isTold := func() bool {
		states := s.told.Load()
		return states != nil && slices.ContainsFunc(slices.Collect(maps.Values(*states)), func(l store.LeaseState) bool { return l.HandedOut-l.Settled == 10*price })
	}
	for until := time.Now().Add(5 * time.Second); !isTold(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the store was told %+v, and not what is settled", s.told.Load())
		}
	}
	s.dead.Store(true)
	balance(t, s, "hot") // what the process has begun is over then
	e.Clock(t, s.Store, time.Now().Add(61*time.Second))
	list, err := s.Balances(t.Context(), "hot", 0)
	if must(t, err); len(list) != 1 || list[0].Spent != 40*price || list[0].Unsettled != 10*price {
		t.Errorf("a minute after the kill: %+v, want %d spent, and of it %d unsettled", list, 40*price, 10*price)
	}
	must(t, s.Release(t.Context(), "hot"))
	if spent, reserved := balance(t, s, "hot"); spent != 30*price || reserved != 0 {
		t.Errorf("released, %d are spent and %d reserved, want %d and 0", spent, reserved, 30*price)
	}
}

// A slot lasts as long as its process extends it, and ends soon after a kill; the call's reservation stands for its
// longer time.
func killedSlots(t *testing.T, e engine) {
	const ttl = 300 * time.Millisecond
	s := &killable{Store: e.Open(t)}
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{LeaseTTL: ttl, Idle: 40 * time.Millisecond})
	t.Cleanup(func() { leased.Close() })
	slot := store.Charge{Account: "streams", Amount: 1, Cap: 1, Returns: true}
	first, err := leased.Take(t.Context(), []store.Charge{slot, {Account: "money", Amount: 5, Cap: 10}})
	must(t, err)
	if _, err := leased.Take(t.Context(), []store.Charge{{Account: "money", Amount: 5, Cap: 9}, slot}); !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Errorf("the second slot of one: %v", err)
	}
	time.Sleep(3 * ttl)
	if _, reserved := balance(t, s, "streams"); reserved != 1 {
		t.Errorf("of a call that lasts %d slots are taken, want 1", reserved)
	}
	must(t, first.Settle(t.Context()))
	_, err = leased.Take(t.Context(), []store.Charge{slot, {Account: "money", Amount: 5, Cap: 10}})
	must(t, err)
	s.dead.Store(true)
	time.Sleep(2 * ttl)
	spent, reserved := balance(t, s, "streams")
	if _, money := balance(t, s, "money"); spent != 0 || reserved != 0 || money != 5 {
		t.Errorf("after the kill %d slots are spent and %d taken, %d reserved of the money", spent, reserved, money)
	}
}

// An unknown part of a call's cost stays reserved like the calls of a killed process, and is then unsettled; it is
// not handed out again, not even from leases.
func uncertain(t *testing.T, e engine) {
	s := e.Open(t)
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: 40 * time.Millisecond})
	ctx := store.WithKey(t.Context(), &store.Key{ID: "k", CapUSD: 1})
	ledger := leased.Ledger(step.Caps{})
	seen, most, calls := 0.0, 0.0, 0
	for range 500 {
		held, err := ledger.Reserve(ctx, &sdk.Query{}, 0.01)
		if errors.Is(err, sdk.ErrBudgetExhausted) { // what is leased and not used comes back soon
			time.Sleep(time.Millisecond)
			continue
		}
		must(t, err)
		calls++
		if calls%2 == 0 {
			seen, most = seen+0.001, most+0.001
			must(t, held.Settle(ctx, 0.001))
			continue
		}
		seen, most = seen+0.002, most+0.01
		must(t, held.(step.UncertainReservation).SettleUncertain(ctx, 0.002, 0.01))
	}
	must(t, leased.Close())
	spent, reserved := balance(t, s, store.KeyAccount("k"))
	if math.Round(most*store.NanoUSD) > store.NanoUSD || most < 0.9 || spent != int64(math.Round(seen*store.NanoUSD)) || reserved != int64(math.Round((most-seen)*store.NanoUSD)) {
		t.Errorf("%d calls that cost %v USD, at most %v of 1: spent %d, reserved %d", calls, seen, most, spent, reserved)
	}
	e.Clock(t, s, time.Now().Add(16*time.Minute))
	list, err := s.Balances(t.Context(), "key", 0)
	if must(t, err); len(list) != 1 || list[0].Spent != spent+reserved || list[0].Reserved != 0 || list[0].Unsettled != reserved {
		t.Errorf("in the end %+v, want %d unsettled", list, reserved)
	}
}

// It is reserved once, by the lease or in the store: nothing is refused while the cap has room.
func uncertainOnce(t *testing.T, e engine) {
	s := e.Open(t)
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: time.Hour}) // leases are not given back meanwhile
	ctx := store.WithKey(t.Context(), &store.Key{ID: "k", CapUSD: 1})
	ledger := leased.Ledger(step.Caps{})
	most := 0.0
	for range 200 {
		held, err := ledger.Reserve(ctx, &sdk.Query{}, 0.01)
		if errors.Is(err, sdk.ErrBudgetExhausted) {
			break
		}
		must(t, err)
		most += 0.01
		must(t, held.(step.UncertainReservation).SettleUncertain(ctx, 0.002, 0.01))
		if spent, reserved := balance(t, s, store.KeyAccount("k")); spent+reserved > store.NanoUSD {
			t.Fatalf("%d spent and %d reserved of a cap of 1 USD", spent, reserved)
		}
	}
	must(t, leased.Close())
	if most < 0.9 {
		t.Errorf("refused after calls that cost at most %v of 1 USD", most)
	}
}

// An overrun reduces what is left at once: after many calls in flight with overruns, nothing is granted beyond the
// cap.
func overruns(t *testing.T, e engine) {
	const limit, most, paid, under, excess = 100_000, 400, 100, 50, 10_000
	for _, c := range []struct {
		name  string
		bill  int64 // of each call under way
		spent int64 // without a reservation
	}{{"more than the cap", excess, 0}, {"a part of the cap", excess / 10, 0}, {"not reserved at all", paid, limit - (100+under)*paid}} {
		s := e.Open(t)
		leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: time.Hour}) // leases are not renewed meanwhile
		t.Cleanup(func() { leased.Close() })
		charge := []store.Charge{{Account: c.name, Amount: most, Cap: limit}}
		sum := int64(0)
		settle := func(held *store.Hold, bill int64) {
			sum += bill
			must(t, held.Settle(t.Context(), bill))
		}
		for range 100 {
			held, err := leased.Take(t.Context(), charge)
			must(t, err)
			settle(held, paid)
		}
		var holds []*store.Hold
		for range under {
			held, err := leased.Take(t.Context(), charge)
			must(t, err)
			holds = append(holds, held)
		}
		var settled sync.WaitGroup
		for _, held := range holds {
			settled.Go(func() {
				if err := held.Settle(t.Context(), c.bill); err != nil {
					t.Error(err)
				}
			})
		}
		settled.Wait()
		sum += under * c.bill
		held, err := leased.Take(t.Context(), []store.Charge{{Account: c.name}})
		must(t, err)
		settle(held, c.spent)
		before := sum
		for range 2 * limit / paid {
			held, err := leased.Take(t.Context(), charge)
			if err != nil {
				_ = requireRefused(t, err)
				break
			}
			settle(held, paid)
		}
		// What the leases held that ended comes back a moment later.
		if sum > max(before, limit) || sum < limit*9/10 {
			t.Errorf("%s: %d were spent under a cap of %d, and %d of it later", c.name, sum, limit, sum-before)
		}
		must(t, leased.Close())
		if spent, reserved := balance(t, s, c.name); spent != sum || reserved != 0 {
			t.Errorf("%s: the store has %d spent and %d reserved of %d", c.name, spent, reserved, sum)
		}
	}
}

// A refusal says how much is missing once all leases are returned.
func shortages(t *testing.T, e engine) {
	leased := store.NewLeasedAccounts(e.Open(t), store.LeaseOptions{Idle: time.Hour})
	defer leased.Close()
	for _, c := range []struct {
		run   string
		ofRun bool
	}{{"", false}, {"agent-7", true}} {
		q := &sdk.Query{Tenant: "blue" + c.run, Run: c.run}
		l := leased.Ledger(step.Caps{TenantUSD: 2, RunUSD: 1.5})
		for range 30 {
			held, err := l.Reserve(t.Context(), q, 0.03)
			must(t, err)
			must(t, held.Settle(t.Context(), 0.01))
		}
		want, limit := 5+0.3-2, 10*time.Second
		if c.ofRun {
			want = 5 + 0.3 - 1.5
		}
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // a lease may be under way
			_, err := l.Reserve(t.Context(), q, 5)
			var short step.Shortage
			if !errors.As(err, &short) {
				t.Fatalf("got %v", err)
			}
			usd, ofRun := short.MissingUSD()
			if math.Abs(usd-want) < 1e-8 && ofRun == c.ofRun {
				break
			}
			if time.Since(began) > limit {
				t.Fatalf("%q: %v USD are missing, of a run %v, want %v", c.run, usd, ofRun, want)
			}
		}
	}
}

// forgetful is a store that remembers which leases it granted, so that they can be removed as if a backup were restored.
type forgetful struct {
	store.Store
	mu     sync.Mutex
	leases []int64
}

func (f *forgetful) Lease(ctx context.Context, id int64, c store.Charge, least int64, ttl time.Duration) (int64, time.Time, error) {
	amount, until, err := f.Store.Lease(ctx, id, c, least, ttl)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leases = append(f.leases, id)
	return amount, until, err
}

// What a process spent of a lease that the store has forgotten is booked all the same, and it says that the store went
// back.
func forgottenLeases(t *testing.T, e engine) {
	s := &forgetful{Store: e.Open(t)}
	var wentBack atomic.Int64
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: 2 * time.Second, WentBack: func() { wentBack.Add(1) }})
	defer leased.Close()
	taken := int64(0)
	take := func() {
		held, err := leased.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 10, Cap: 1_000_000}})
		must(t, err)
		must(t, held.Settle(t.Context(), 10))
		taken += 10
	}
	for range 30 {
		take()
	}
	s.mu.Lock()
	for _, id := range s.leases {
		must(t, s.Settle(t.Context(), id, nil))
	}
	if len(s.leases) == 0 {
		t.Error("nothing was leased")
	}
	s.mu.Unlock()
	for began := time.Now(); wentBack.Load() == 0 && time.Since(began) < time.Second; time.Sleep(5 * time.Millisecond) {
		take()
	}
	must(t, leased.Close())
	if spent, reserved := balance(t, s, "hot"); spent != taken || reserved != 0 || wentBack.Load() == 0 {
		t.Errorf("spent %d of %d, reserved %d, went back %d times", spent, taken, reserved, wentBack.Load())
	}
}

// unreachable is a store that extends and settles no lease while down.
type unreachable struct {
	store.Store
	down atomic.Bool
}

func (u *unreachable) Extend(ctx context.Context, leases map[int64]store.LeaseState, ttl time.Duration) ([]int64, error) {
	if u.down.Load() {
		return nil, sdk.ErrStoreUnavailable
	}
	return u.Store.Extend(ctx, leases, ttl)
}

// Settle implements [store.Store].
func (u *unreachable) Settle(ctx context.Context, id int64, spent map[string]int64) error {
	if u.down.Load() {
		return sdk.ErrStoreUnavailable
	}
	return u.Store.Settle(ctx, id, spent)
}

// What was spent of leases that are idle while the store is away is booked too if it then lacks them, as a standby that
// lagged.
func TestLeasesThatWereForgottenInAnOutage(t *testing.T) {
	forgetful := &forgetful{Store: openSQLite(t).Open(t)}
	s := &unreachable{Store: forgetful}
	var wentBack atomic.Int64
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: 200 * time.Millisecond, WentBack: func() { wentBack.Add(1) }})
	for range 30 {
		held, err := leased.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 10, Cap: 1_000_000}})
		must(t, err)
		must(t, held.Settle(t.Context(), 10))
	}
	s.down.Store(true)
	time.Sleep(time.Second) // much longer than Idle
	forgetful.mu.Lock()
	for _, id := range forgetful.leases {
		must(t, forgetful.Settle(t.Context(), id, nil))
	}
	forgetful.mu.Unlock()
	s.down.Store(false)
	for began := time.Now(); wentBack.Load() == 0 && time.Since(began) < 5*time.Second; time.Sleep(5 * time.Millisecond) {
		continue
	}
	must(t, leased.Close())
	if spent, reserved := balance(t, s, "hot"); spent != 300 || reserved != 0 || wentBack.Load() != 1 {
		t.Errorf("spent %d of 300, reserved %d, went back %d times", spent, reserved, wentBack.Load())
	}
}

// In an outage leases end by themselves, which is no store that went back.
func TestLeasesThatEndInAnOutage(t *testing.T) {
	s := &unreachable{Store: openSQLite(t).Open(t)}
	var wentBack atomic.Int64
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: 2 * time.Second, LeaseTTL: time.Second, WentBack: func() { wentBack.Add(1) }})
	defer leased.Close()
	charges := []store.Charge{{Account: "hot", Amount: 10, Cap: 1_000_000}}
	for range 30 {
		held, err := leased.Take(t.Context(), charges)
		must(t, err)
		must(t, held.Settle(t.Context(), 10))
	}
	held, err := leased.Take(t.Context(), charges) // a call in flight
	must(t, err)
	s.down.Store(true)
	time.Sleep(1500 * time.Millisecond)
	s.down.Store(false)
	time.Sleep(1200 * time.Millisecond)
	must(t, held.Settle(t.Context(), 10))
	if wentBack.Load() > 0 {
		t.Error("it is said to have gone back")
	}
}

// A lowered cap may leave no room only until other processes have returned what they leased under the earlier one:
// nothing is missing then, so that steps wait. A cap that was not changed refuses at once.
func testLoweredCap(t *testing.T, e engine) {
	q := &sdk.Query{Tenant: "blue"}
	one, other := store.NewLeasedAccounts(e.Open(t), store.LeaseOptions{}), store.NewLeasedAccounts(e.Open(t), store.LeaseOptions{})
	defer one.Close()
	defer other.Close()
	for _, l := range []*store.LeasedAccounts{one, other} {
		for range 30 {
			held, err := l.Ledger(step.Caps{TenantUSD: 2}).Reserve(t.Context(), q, 0.03)
			must(t, err)
			must(t, held.Settle(t.Context(), 0.001))
		}
	}
	missing := func(most float64) float64 {
		t.Helper()
		var short step.Shortage
		if _, err := one.Ledger(step.Caps{TenantUSD: most}).Reserve(t.Context(), q, 0.15); !errors.As(err, &short) {
			t.Fatalf("got %v", err)
		}
		usd, _ := short.MissingUSD()
		return usd
	}
	if usd := missing(0.1); usd > 0 {
		t.Errorf("%v USD are missing while leases are returned", usd)
	}
	time.Sleep(2100 * time.Millisecond)
	if usd := missing(0.1); usd <= 0 {
		t.Errorf("%v USD are missing of a cap that is too low", usd)
	}
}

func processesShare(t *testing.T, e engine) {
	const limit, price = 20_000, 7
	var paid atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		leased := store.NewLeasedAccounts(e.Open(t), store.LeaseOptions{Idle: 40 * time.Millisecond})
		t.Cleanup(func() { leased.Close() })
		for range 4 {
			wg.Go(func() {
				for range 400 {
					held, err := leased.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 3 * price, Cap: limit}})
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

func idle(t *testing.T, e engine) {
	s := e.Open(t)
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: 50 * time.Millisecond})
	for range 50 {
		held, err := leased.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 10, Cap: 100_000}})
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
	held, err := leased.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 10, Cap: 100_000}})
	must(t, err)
	must(t, held.Settle(t.Context(), 4))
	must(t, leased.Close())
	if spent, reserved := balance(t, s, "hot"); spent != 204 || reserved != 0 {
		t.Errorf("spent %d, reserved %d after the end", spent, reserved)
	}
}

// The spend of an account that is charged continuously shows up in the store.
func seen(t *testing.T, e engine) {
	s := e.Open(t)
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{Idle: 200 * time.Millisecond})
	defer leased.Close()
	paid := int64(0)
	for until := time.Now().Add(2 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		held, err := leased.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 1000, Cap: 1_000_000_000}})
		must(t, err)
		must(t, held.Settle(t.Context(), 10))
		paid += 10
	}
	if spent, _ := balance(t, s, "hot"); spent < paid/2 || spent > paid {
		t.Errorf("%d of %d are seen as spent", spent, paid)
	}
}

// A lowered cap holds at once, even where much was leased under the old one.
func leasesEndWithTheirCap(t *testing.T, e engine) {
	leased := store.NewLeasedAccounts(e.Open(t), store.LeaseOptions{})
	defer leased.Close()
	take := func(limit int64) error {
		held, err := leased.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 10, Cap: limit}})
		if err == nil {
			must(t, held.Settle(t.Context(), 10))
		}
		return err
	}
	for range 50 {
		must(t, take(1_000_000))
	}
	_ = requireRefused(t, take(400))
	must(t, take(1_000_000))
}

func everyCent(t *testing.T, e engine) {
	leased := store.NewLeasedAccounts(e.Open(t), store.LeaseOptions{})
	defer leased.Close()
	for i := range 1000 {
		held, err := leased.Take(t.Context(), []store.Charge{{Account: "hot", Amount: 3, Cap: 1001}})
		if err != nil {
			_ = requireRefused(t, err)
			if i != 333 {
				t.Errorf("refused after %d calls of 3 under a cap of 1001", i)
			}
			return
		}
		must(t, held.Settle(t.Context(), 3))
	}
	t.Error("the cap does not hold")
}

func ledger(t *testing.T, e engine) {
	s := e.Open(t)
	leased := store.NewLeasedAccounts(s, store.LeaseOptions{})
	defer leased.Close()
	var l step.Ledger = leased.Ledger(step.Caps{RunUSD: 0.5, TenantUSD: 2})
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
	// What was spent without a reservation is booked, also above the caps.
	r, err := l.Reserve(keyed, q, 0)
	must(t, err)
	must(t, r.Settle(t.Context(), 0.25))
	if spent, _ := balance(t, s, store.RunAccount("blue", "agent-7")); spent != 0.75*store.NanoUSD {
		t.Errorf("the run spent %d", spent)
	}
	// Another tenant's run of the same name is another run.
	red := &sdk.Query{Run: "agent-7", Tenant: "red"}
	r, err = l.Reserve(t.Context(), red, 0.5)
	must(t, err)
	must(t, r.Settle(t.Context(), 0.5))
	if _, err := l.Reserve(keyed, &sdk.Query{Tenant: "red"}, 0.2); requireRefused(t, err).Account != store.KeyAccount("k") {
		t.Errorf("the key's cap does not hold: %v", err)
	}
	if spent, _ := balance(t, s, store.TenantAccount("blue")); spent != 0.75*store.NanoUSD {
		t.Errorf("the tenant spent %d", spent)
	}
	for _, usd := range []float64{math.NaN(), -0.01, math.Inf(1)} {
		if _, err := l.Reserve(t.Context(), q, usd); err == nil {
			t.Errorf("%v was reserved", usd)
		}
	}
}
