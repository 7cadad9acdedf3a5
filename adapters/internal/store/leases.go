package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// LeaseOptions configure [LeasedAccounts]; the zero value is sensible.
type LeaseOptions struct {
	// TTL is how long a call may take before its reservation counts as spent; 0 means
	// 15 minutes. What it cost is booked after it all the same.
	TTL time.Duration
	// LeaseTTL is how long after its process died a lease ends; 0 means one minute. What
	// was handed out of it then counts as spent, and the rest is free again. A process
	// that lives extends its leases.
	// Slots ([Charge.Returns]) end in the same way.
	LeaseTTL time.Duration
	// Idle is after how long without use a lease is given back; 0 means 2 seconds.
	Idle time.Duration
	// Direct has every reservation made in the store, none from a lease.
	Direct bool
}

// LeasedAccounts take charges from accounts, for one process. An account that is charged
// more than hotAt times in a second is served from leases: parts of what is left that are
// reserved in the store at once and handed out in memory.
//
// A lease is what the account needs here in about a second, but at most 1/[LeaseShare]
// of what is left. The store knows how much of it may have been handed out: that mark is
// raised before more is handed out, and lowered where less is in use. When the process is
// killed, its leases end by themselves after LeaseTTL, and only what stands below the
// marks counts as spent: what was spent, what its calls under way may cost, and at most
// 1/[LeaseShare] of each of two leases. What a process holds and does not use comes back
// after Idle, and at Close at once; until then other processes may be refused it.
//
// While the store is away, accounts are served from what is handed out, and then not at
// all: the error wraps what the store said.
//
// LeasedAccounts are safe for concurrent use.
type LeasedAccounts struct {
	s Accounts
	o LeaseOptions

	mu       sync.Mutex
	accounts map[string]*leasedAccount
	owed     []settlement        // what could not be settled yet
	slots    map[int64]time.Time // reservations of slots, and when they were extended last
	closed   chan struct{}
	ended    sync.WaitGroup
	once     sync.Once
}

type settlement struct {
	id    int64
	spent map[string]int64
}

const (
	// maxOwed bounds what waits to be settled. What does not fit stands as reserved, and
	// in the end counts as spent.
	maxOwed = 100_000
	// hotAt is how many charges in a second make an account hot.
	hotAt = 4
)

// NewLeasedAccounts returns the accounts of a store. The caller closes them before it.
func NewLeasedAccounts(s Accounts, o LeaseOptions) *LeasedAccounts {
	o.TTL = cmp.Or(o.TTL, 15*time.Minute)
	o.LeaseTTL = cmp.Or(o.LeaseTTL, time.Minute)
	o.Idle = cmp.Or(o.Idle, 2*time.Second)
	t := &LeasedAccounts{s: s, o: o, accounts: map[string]*leasedAccount{}, slots: map[int64]time.Time{}, closed: make(chan struct{})}
	t.ended.Go(t.maintain)
	return t
}

// leasedAccount is what this process knows of one account.
type leasedAccount struct {
	mu     sync.Mutex
	cap    int64
	period time.Duration
	leases []*lease
	// asking is closed when the store has answered what it is asked about the leases; nil
	// when it is not asked.
	asking chan struct{}
	// tight is until when no lease is asked for, since little is left, and failed until when
	// no mark is raised, since the store could not be told.
	tight, failed time.Time

	second time.Time // when the present second of counting began
	count  int       // of charges in it
	rate   int       // of charges in the second before
	mean   int64     // amount of a charge
	used   time.Time
}

// lease is a reservation that charges are taken from.
type lease struct {
	id                  int64
	account             string
	amount, held, spent int64
	// mark is how much of it the store takes for handed out: no more is.
	mark           int64
	made, extended time.Time
	until          time.Time // the end of the account's period, or of the lease; zero for none
}

// room is how much may be handed out now.
func (l *lease) room(now time.Time) int64 {
	if !l.until.IsZero() && !now.Before(l.until) {
		return 0
	}
	return l.mark - l.held - l.spent
}

func newID() int64 { return rand.Int64N(1<<62) + 1 }

// Take sets the charges aside, all or none. When a cap leaves no room the error is a
// [*RefusedError].
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
		// A charge of nothing is refused, too, where the cap is passed already.
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
		h.leave(ctx)
		for _, s := range slices.Concat(h.shares...) {
			s.book(0, 0)
		}
		return nil, err
	}
	return h, nil
}

// reserve reserves charges in the store itself, if there are any.
func (t *LeasedAccounts) reserve(ctx context.Context, charges []Charge, ttl time.Duration) (id int64, err error) {
	if len(charges) == 0 {
		return 0, nil
	}
	// Rows are taken in one order by everybody.
	slices.SortFunc(charges, func(a, b Charge) int { return cmp.Compare(a.Account, b.Account) })
	id = newID()
	if err = t.s.Reserve(ctx, id, charges, ttl); err == nil {
		return id, nil
	}
	if !errors.Is(err, sdk.ErrBudgetExhausted) {
		// It may have been made, and the answer lost: take it back.
		_ = t.settle(ctx, id, nil) // what is not settled expires
	}
	return 0, err
}

func (t *LeasedAccounts) settle(ctx context.Context, id int64, spent map[string]int64) error {
	err := t.s.Settle(context.WithoutCancel(ctx), id, spent)
	if err != nil {
		t.mu.Lock()
		if len(t.owed) < maxOwed {
			t.owed = append(t.owed, settlement{id, spent})
		}
		t.mu.Unlock()
	}
	return err
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

// draw takes as much of a charge as there is from leases, and returns what is left of it.
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
		answered := a.asking
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
	// More is fetched before this is used up.
	if a.hot() && a.asking == nil && a.room(now) < a.leaseSize()/(2*LeaseShare) {
		t.refill(a, c, now)
	}
	return shares, left
}

func (a *leasedAccount) observe(c *Charge, now time.Time) {
	if a.cap != c.Cap || a.period != c.Period {
		for _, l := range a.leases {
			if c.Cap < a.cap {
				l.until = now // it was granted under a cap that no longer holds
			}
		}
		a.cap, a.period, a.tight = c.Cap, c.Period, time.Time{}
	}
	if since := now.Sub(a.second); since >= time.Second {
		a.rate = a.count
		if since >= 2*time.Second {
			a.rate = 0
		}
		a.second, a.count = now, 0
	}
	a.count++
	a.used = now
	if a.mean == 0 {
		a.mean = c.Amount
	}
	a.mean += (c.Amount - a.mean) / 8
}

func (a *leasedAccount) hot() bool { return a.count >= hotAt || a.rate >= hotAt }

// leaseSize is how much to lease: what a second needs.
func (a *leasedAccount) leaseSize() int64 { return max(1, a.mean) * int64(max(a.count, a.rate, 32)) }

func (a *leasedAccount) room(now time.Time) (sum int64) {
	for _, l := range a.leases {
		sum += max(0, l.room(now))
	}
	return sum
}

// headroom is how far the mark of a lease stands above what is in use.
func (a *leasedAccount) headroom(l *lease) int64 { return min(a.leaseSize(), l.amount) / LeaseShare }

// refill has the mark of a lease raised, or another lease fetched, in the background; it
// returns nil where neither can be. The account is locked.
func (t *LeasedAccounts) refill(a *leasedAccount, c *Charge, now time.Time) chan struct{} {
	for _, l := range a.leases {
		if l.mark < l.amount && (l.until.IsZero() || now.Before(l.until)) && !now.Before(a.failed) {
			mark := min(l.amount, l.held+l.spent+max(c.Amount, a.headroom(l)))
			a.asking = make(chan struct{})
			go t.raise(a, l, mark, a.asking)
			return a.asking
		}
	}
	if !a.hot() || now.Before(a.tight) {
		return nil
	}
	one := *c
	one.Amount = max(a.leaseSize(), c.Amount)
	a.asking = make(chan struct{})
	go t.lease(a, one, max(1, c.Amount), a.asking)
	return a.asking
}

// finish ends an exchange with the store. The account is locked.
func (a *leasedAccount) finish(done chan struct{}) {
	a.asking = nil
	close(done)
}

const (
	// retryAfter is how long no lease is asked for after a refusal or a fault, and tightPause
	// after a grant of little.
	retryAfter = 100 * time.Millisecond
	tightPause = 10 * time.Millisecond
)

func (t *LeasedAccounts) raise(a *leasedAccount, l *lease, mark int64, done chan struct{}) {
	ended, err := t.s.Extend(context.Background(), map[int64]int64{l.id: mark}, t.o.LeaseTTL)
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.finish(done)
	switch now := time.Now(); {
	case err != nil:
		a.failed = now.Add(retryAfter)
	case len(ended) > 0:
		l.until = now
	default:
		l.mark, l.extended = max(l.mark, mark), now
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
		// Little is left, or the store is away: what is asked for next is reserved
		// by itself, and refused by itself.
		a.tight = now.Add(retryAfter)
		if !errors.Is(err, sdk.ErrBudgetExhausted) {
			go func() { _ = t.settle(context.Background(), l.id, nil) }() // what is not settled expires
		}
		return
	}
	if amount < a.leaseSize()/8 {
		a.tight = now.Add(tightPause)
	}
	for _, old := range a.leases {
		if now.Sub(old.made) >= t.o.Idle {
			old.until = now // so that what was spent of it is booked
		}
	}
	l.amount, l.mark, l.until, l.extended = amount, HandedOut(amount, least), until, now
	a.leases = append(a.leases, l)
}

// maintain gives leases back, extends them, and settles what is owed, until Close.
func (t *LeasedAccounts) maintain() {
	every := max(min(t.o.Idle/4, t.o.LeaseTTL/4), 10*time.Millisecond)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-t.closed:
			return
		case now := <-ticker.C:
			t.collect(now, false)
			_ = t.pay(context.Background()) // what is owed is paid at the next tick
			t.report(now, every)
		}
	}
}

// collect takes leases back that are not used, or all that nothing is held from.
func (t *LeasedAccounts) collect(now time.Time, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, a := range t.accounts {
		a.mu.Lock()
		idle := now.Sub(a.used) >= t.o.Idle
		a.leases = slices.DeleteFunc(a.leases, func(l *lease) bool {
			over := !l.until.IsZero() && !now.Before(l.until)
			last := l == a.leases[len(a.leases)-1]
			if l.held != 0 || !all && a.asking != nil || !all && !idle && !over && (last || now.Sub(l.made) < t.o.Idle) {
				return false
			}
			t.owed = append(t.owed, settlement{l.id, map[string]int64{l.account: l.spent}})
			return true
		})
		if len(a.leases) == 0 && a.asking == nil && now.Sub(a.used) >= 5*t.o.Idle {
			delete(t.accounts, name)
		}
		a.mu.Unlock()
	}
}

// report extends leases and slots now and then, and lowers the marks of those of which less is in
// use than the store takes for handed out.
func (t *LeasedAccounts) report(now time.Time, quiet time.Duration) {
	marks := map[int64]int64{}
	done := make(chan struct{})
	var asked []*leasedAccount
	for name, a := range t.list() {
		a.mu.Lock()
		t.renew(name, a, now)
		before := len(marks)
		for _, l := range a.leases {
			if a.asking != nil {
				break
			}
			mark := l.held + l.spent
			if now.Sub(a.used) < quiet {
				mark = max(mark, min(l.mark, mark+a.headroom(l)))
			}
			if l.mark-mark > a.headroom(l)/2 || now.Sub(l.extended) >= t.o.LeaseTTL/3 {
				l.mark, l.extended = mark, now
				marks[l.id] = mark
			}
		}
		if len(marks) > before {
			a.asking = done
			asked = append(asked, a)
		}
		a.mu.Unlock()
	}
	t.mu.Lock()
	for id, extended := range t.slots {
		if now.Sub(extended) >= t.o.LeaseTTL/3 {
			marks[id], t.slots[id] = 0, now
		}
	}
	t.mu.Unlock()
	if len(marks) == 0 {
		return
	}
	// Where it fails the store takes more for handed out than is, and the lease ends early.
	ended, _ := t.s.Extend(context.Background(), marks, t.o.LeaseTTL)
	for _, a := range asked {
		a.mu.Lock()
		for _, l := range a.leases {
			if slices.Contains(ended, l.id) {
				l.until = now
			}
		}
		a.asking = nil
		a.mu.Unlock()
	}
	close(done)
}

// renew has another lease fetched in place of one that goes on being used: what is spent of a
// lease is not seen in the store before it is given back. The account is locked.
func (t *LeasedAccounts) renew(name string, a *leasedAccount, now time.Time) {
	if n := len(a.leases); n == 0 || a.asking != nil || !a.hot() || now.Before(a.tight) || a.leases[n-1].spent == 0 || now.Sub(a.leases[n-1].made) < t.o.Idle {
		return
	}
	a.asking = make(chan struct{})
	go t.lease(a, Charge{Account: name, Amount: a.leaseSize(), Cap: a.cap, Period: a.period}, max(1, a.mean), a.asking)
}

func (t *LeasedAccounts) list() map[string]*leasedAccount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.accounts)
}

// pay settles what is owed, as far as the store can be reached.
func (t *LeasedAccounts) pay(ctx context.Context) error {
	t.mu.Lock()
	owed := t.owed
	t.owed = nil
	t.mu.Unlock()
	for i, o := range owed {
		if err := t.s.Settle(ctx, o.id, o.spent); err != nil {
			t.mu.Lock()
			t.owed = append(t.owed, owed[i:]...)
			t.mu.Unlock()
			return err
		}
	}
	return nil
}

// Close gives back what is leased and settles what is owed. Calls must have ended;
// what they hold still counts as spent in the end.
func (t *LeasedAccounts) Close() error {
	var err error
	t.once.Do(func() {
		close(t.closed)
		t.ended.Wait()
		for _, a := range t.list() {
			a.mu.Lock()
			asking := a.asking
			a.mu.Unlock()
			if asking != nil {
				<-asking
			}
		}
		t.collect(time.Now(), true)
		err = t.pay(context.Background())
	})
	return err
}
