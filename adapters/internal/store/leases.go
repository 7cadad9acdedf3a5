package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// LeaseOptions configures [LeasedAccounts]. The zero value is usable.
type LeaseOptions struct {
	// TTL is how long a call may take before its reservation counts as spent; 0 means 15 minutes. The real cost is
	// booked even after that.
	TTL time.Duration
	// LeaseTTL is how long a lease outlives its process; 0 means one minute. What was handed out of it then counts as
	// spent, and the rest is free again. A live process extends its leases. Slots ([Charge.Returns]) expire in the
	// same way.
	LeaseTTL time.Duration
	// Idle is how long a lease stays unused before it is returned; 0 means 2 seconds.
	Idle time.Duration
	// Direct disables leases: every reservation is made in the store.
	Direct bool
	// WentBack is called when the store has forgotten a lease, as after the promotion of a standby that lags; nil for
	// nothing.
	WentBack func()
}

// LeasedAccounts reserves charges on accounts, for one process. An account that is charged more than hotAt times in a
// second is served from leases: parts of what is left, reserved in the store in one go and handed out in memory.
//
// A lease covers what the account needs here in about a second, but at most 1/[LeaseShare] of what is left. The store
// knows how much of it may have been handed out: this mark is raised before more is handed out, and lowered where
// less is in use. When the process is killed, its leases expire after LeaseTTL, and only the amounts below the marks
// count as spent: the actual spend, the worst case of calls in flight, and at most 1/[LeaseShare] of each of two
// leases. What a process holds without using it is returned after Idle, or at once by Close; until then other
// processes can be refused it.
//
// While the store is unavailable, accounts are served from what is handed out, and then not at all: the error wraps
// that of the store.
//
// LeasedAccounts is safe for concurrent use.
type LeasedAccounts struct {
	s Accounts
	o LeaseOptions

	mu        sync.Mutex
	accounts  map[string]*leasedAccount
	unsettled []settlement        // settlements to retry
	slots     map[int64]time.Time // reservations of slots, with the time of the last extension
	closed    chan struct{}
	ended     sync.WaitGroup
	once      sync.Once
}

type settlement struct {
	id    int64
	spent map[string]int64
	// uncertain stays reserved.
	uncertain Charge
}

const (
	// maxUnsettled bounds the settlements that wait for a retry. Beyond it the reservation stands, and in the end counts
	// as spent.
	maxUnsettled = 100_000
	// hotAt is how many charges in a second make an account hot.
	hotAt = 4
)

// NewLeasedAccounts returns the accounts of a store. The caller closes them before the store.
func NewLeasedAccounts(s Accounts, o LeaseOptions) *LeasedAccounts {
	o.TTL = cmp.Or(o.TTL, 15*time.Minute)
	o.LeaseTTL = cmp.Or(o.LeaseTTL, time.Minute)
	o.Idle = cmp.Or(o.Idle, 2*time.Second)
	t := &LeasedAccounts{s: s, o: o, accounts: map[string]*leasedAccount{}, slots: map[int64]time.Time{}, closed: make(chan struct{})}
	t.ended.Go(t.maintain)
	return t
}

func newID() int64 { return rand.Int64N(1<<62) + 1 }

// Take reserves the charges, all or none. When a cap leaves no room the error is a [*RefusedError].
func (t *LeasedAccounts) Take(ctx context.Context, charges []Charge) (*Hold, error) {
	h := &Hold{t: t, charges: charges, shares: make([][]share, len(charges)), direct: make([]int64, len(charges))}
	var rest, slots []Charge
	for i := range charges {
		c := &charges[i]
		if c.Returns {
			slots = append(slots, *c)
			continue
		}
		left := c.Amount
		if !t.o.Direct && c.Cap > 0 {
			h.shares[i], left = t.draw(ctx, c)
		}
		h.direct[i] = left
		// A charge of 0 is sent too, so that it is refused where the cap is already exceeded.
		if left > 0 || len(h.shares[i]) == 0 {
			one := *c
			one.Amount = left
			rest = append(rest, one)
		}
	}
	var err error
	if h.slot, err = t.reserve(ctx, slots, t.o.LeaseTTL); err == nil && h.slot != 0 {
		t.mu.Lock()
		t.slots[h.slot] = time.Now()
		t.mu.Unlock()
	}
	if err == nil {
		h.id, err = t.reserve(ctx, rest, t.o.TTL)
	}
	if err != nil {
		h.releaseSlots(ctx)
		for _, s := range slices.Concat(h.shares...) {
			s.settle(0, 0)
		}
		return nil, err
	}
	return h, nil
}

func (t *LeasedAccounts) reserve(ctx context.Context, charges []Charge, ttl time.Duration) (id int64, err error) {
	if len(charges) == 0 {
		return 0, nil
	}
	// All processes lock the rows in the same order, which avoids deadlocks.
	slices.SortFunc(charges, func(a, b Charge) int { return cmp.Compare(a.Account, b.Account) })
	id = newID()
	if err = t.s.Reserve(ctx, id, charges, ttl); err == nil {
		return id, nil
	}
	if !errors.Is(err, sdk.ErrBudgetExhausted) {
		// The reservation may exist although the answer was lost: cancel it.
		_ = t.settle(ctx, id, nil) // an unsettled reservation expires
	}
	return 0, err
}

func (t *LeasedAccounts) settle(ctx context.Context, id int64, spent map[string]int64) error {
	err := t.s.Settle(context.WithoutCancel(ctx), id, spent)
	if err != nil {
		t.mu.Lock()
		if len(t.unsettled) < maxUnsettled {
			t.unsettled = append(t.unsettled, settlement{id: id, spent: spent})
		}
		t.mu.Unlock()
	}
	return err
}

// spend books spend on a charge's account that was not reserved.
func (t *LeasedAccounts) spend(ctx context.Context, c *Charge, amount int64) error {
	id, err := t.reserve(context.WithoutCancel(ctx), []Charge{{Account: c.Account, Amount: amount, Period: c.Period}}, t.o.TTL)
	if err == nil {
		_ = t.settle(ctx, id, map[string]int64{c.Account: amount}) // retried later; until then it stands as reserved
	}
	return err
}

// find returns the account of that name, or nil where nothing was leased.
func (t *LeasedAccounts) find(name string) *leasedAccount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.accounts[name]
}

// returnsAfterChange is how long processes need to learn of a changed cap and to return leases that they made under the
// earlier one.
const returnsAfterChange = 2 * time.Second

// returnableAmount returns how much of an account's leases is neither spent nor held for a call: any amount shortly
// after a change of the cap, when other processes return leases too.
func (t *LeasedAccounts) returnableAmount(name string) (sum int64) {
	a := t.find(name)
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.changed) < returnsAfterChange {
		return math.MaxInt64 / 2
	}
	for _, l := range a.leases {
		sum += max(0, l.amount-l.inUse())
	}
	return sum
}

func (t *LeasedAccounts) account(c *Charge) *leasedAccount {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.accounts[c.Account]
	if a == nil {
		a = &leasedAccount{cap: c.Cap, period: c.Period, second: time.Now(), used: time.Now()}
		t.accounts[c.Account] = a
	}
	return a
}

// draw takes as much of a charge as possible from leases, and returns the rest.
func (t *LeasedAccounts) draw(ctx context.Context, c *Charge) (shares []share, left int64) {
	a := t.account(c)
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.observe(c, now)
	for range 3 {
		if a.room(now) >= c.Amount {
			break
		}
		answered := a.inFlight
		if answered == nil {
			answered = t.refill(a, c, now)
		}
		if answered == nil {
			break
		}
		a.mu.Unlock()
		select {
		case <-answered:
		case <-ctx.Done():
		}
		a.mu.Lock()
		if now = time.Now(); ctx.Err() != nil {
			break
		}
	}
	left = c.Amount
	for _, l := range slices.Backward(a.leases) {
		if own := min(left, l.room(now)); own > 0 || (c.Amount == 0 && l.room(now) >= 0) {
			l.held += own
			left -= own
			shares = append(shares, share{a, l, own})
			if left == 0 {
				break
			}
		}
	}
	// Prefetch before the lease is used up.
	if a.hot() && a.inFlight == nil && a.room(now) < a.leaseSize()/(2*LeaseShare) {
		t.refill(a, c, now)
	}
	return shares, left
}

// refill raises the mark of a lease or requests another lease, in the background. The returned channel is closed when
// that is done; it is nil where neither is possible. a.mu is held.
func (t *LeasedAccounts) refill(a *leasedAccount, c *Charge, now time.Time) chan struct{} {
	for _, l := range a.leases {
		if l.mark < l.amount && (l.until.IsZero() || now.Before(l.until)) && !now.Before(a.noRaiseBefore) {
			mark := min(l.amount, l.inUse()+max(c.Amount, a.headroom(l)))
			a.inFlight = make(chan struct{})
			go t.raise(a, l, mark, l.spent, a.inFlight)
			return a.inFlight
		}
	}
	if !a.hot() || now.Before(a.noLeaseBefore) {
		return nil
	}
	one := *c
	one.Amount = max(a.leaseSize(), c.Amount)
	a.inFlight = make(chan struct{})
	go t.lease(a, one, max(1, c.Amount), a.inFlight)
	return a.inFlight
}

const (
	// retryAfter is how long no lease is requested after a refusal or an error, and tightPause after a small grant.
	retryAfter = 100 * time.Millisecond
	tightPause = 10 * time.Millisecond
)

func (t *LeasedAccounts) raise(a *leasedAccount, l *lease, mark, settled int64, done chan struct{}) {
	ended, err := t.s.Extend(context.Background(), map[int64]LeaseState{l.id: {HandedOut: mark, Settled: settled}}, t.o.LeaseTTL)
	t.restore(a, ended)
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.finish(done)
	switch now := time.Now(); {
	case err != nil:
		a.noRaiseBefore = now.Add(retryAfter)
	case len(ended) > 0:
		l.until = now
	default:
		l.mark, l.settled, l.extended, l.asked = max(l.mark, mark), settled, now, now
	}
}

func (t *LeasedAccounts) lease(a *leasedAccount, c Charge, least int64, done chan struct{}) {
	l := &lease{id: newID(), account: c.Account, made: time.Now()}
	amount, until, err := t.s.Lease(context.Background(), l.id, c, least, t.o.LeaseTTL)
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.finish(done)
	now := time.Now()
	if err != nil {
		// Little is left, or the store is unavailable: the next charges are reserved in the store, and refused, one
		// by one.
		a.noLeaseBefore = now.Add(retryAfter)
		if !errors.Is(err, sdk.ErrBudgetExhausted) {
			go func() { _ = t.settle(context.Background(), l.id, nil) }() // an unsettled reservation expires
		}
		return
	}
	if amount < a.leaseSize()/8 {
		a.noLeaseBefore = now.Add(tightPause)
	}
	for _, old := range a.leases {
		if now.Sub(old.made) >= t.o.Idle {
			old.until = now // its spend is booked when it is returned
		}
	}
	if !l.made.After(a.overrun) {
		until = now
	}
	l.amount, l.mark, l.until, l.extended, l.asked = amount, HandedOut(amount, least), until, now, now
	a.leases = append(a.leases, l)
}
