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

// TillOptions configure a [Till]; the zero value is sensible.
type TillOptions struct {
	// TTL is how long a call may take before its reservation counts as spent; 0 means
	// 15 minutes. What it cost is booked after it all the same.
	TTL time.Duration
	// LeaseTTL is how long after its process died a lease counts as spent; 0 means one
	// minute. A process that lives extends its leases.
	LeaseTTL time.Duration
	// Idle is after how long without use a lease is given back; 0 means 2 seconds.
	Idle time.Duration
	// Direct has every reservation made in the store, none from a lease.
	Direct bool
}

// Till takes charges from accounts, for one process. An account that is charged more
// than hotAt times in a second is served from leases: parts of what is left that are
// reserved in the store at once and handed out in memory.
//
// A lease is what the account needs here in about a second, but at most 1/[LeaseShare]
// of what is left. So when a process is killed, at most two such parts of each hot
// account, one in use and one fetched ahead, besides what its calls under way may
// cost, count as spent that were not. What a process holds and does not use comes back
// after Idle, and at Close at once; until then other processes may be refused it.
//
// While the store is away, accounts are served from what is leased, and then not at
// all: the error wraps what the store said.
//
// A Till is safe for concurrent use.
type Till struct {
	s Accounts
	o TillOptions

	mu      sync.Mutex
	drawers map[string]*drawer
	owed    []settlement // what could not be settled yet
	closed  chan struct{}
	ended   sync.WaitGroup
	once    sync.Once
}

type settlement struct {
	id    int64
	spent map[string]int64
}

// maxOwed bounds what waits to be settled. What does not fit stands as reserved, and
// in the end counts as spent.
const maxOwed = 100_000

// NewTill returns a till. The caller closes it before the store.
func NewTill(s Accounts, o TillOptions) *Till {
	o.TTL = cmp.Or(o.TTL, 15*time.Minute)
	o.LeaseTTL = cmp.Or(o.LeaseTTL, time.Minute)
	o.Idle = cmp.Or(o.Idle, 2*time.Second)
	t := &Till{s: s, o: o, drawers: map[string]*drawer{}, closed: make(chan struct{})}
	t.ended.Go(t.tend)
	return t
}

// Held is what was set aside for one call.
type Held struct {
	t       *Till
	charges []Charge
	parts   [][]part // by charge
	direct  []int64  // by charge: what was reserved in the store itself
	id      int64    // of that; 0 when there is none
}

func newID() int64 { return rand.Int64N(1<<62) + 1 }

// Take sets the charges aside, all or none. When a cap leaves no room the error is a
// [*RefusedError].
func (t *Till) Take(ctx context.Context, charges []Charge) (*Held, error) {
	h := &Held{t: t, charges: charges, parts: make([][]part, len(charges)), direct: make([]int64, len(charges))}
	var rest []Charge
	for i := range charges {
		c := &charges[i]
		left := c.Amount
		if !t.o.Direct && c.Cap > 0 && !c.Returns {
			h.parts[i], left = t.draw(ctx, c)
		}
		h.direct[i] = left
		// A charge of nothing is refused, too, where the cap is passed already.
		if left > 0 || len(h.parts[i]) == 0 {
			one := *c
			one.Amount = left
			rest = append(rest, one)
		}
	}
	if len(rest) == 0 {
		return h, nil
	}
	// Rows are taken in one order by everybody.
	slices.SortFunc(rest, func(a, b Charge) int { return cmp.Compare(a.Account, b.Account) })
	h.id = newID()
	if err := t.s.Reserve(ctx, h.id, rest, t.o.TTL); err != nil {
		if !errors.Is(err, sdk.ErrBudgetExhausted) {
			// It may have been made, and the answer lost: take it back.
			_ = t.settle(ctx, h.id, nil) // what is not settled expires
		}
		for _, parts := range h.parts {
			giveBack(parts)
		}
		return nil, err
	}
	return h, nil
}

// Settle books what was spent, by the index of the charge, in place of what was held.
// It is called once, and does not stop when ctx ends. What the store cannot be told now
// it is told later; until then the worst case stands.
func (h *Held) Settle(ctx context.Context, spent ...int64) error {
	var direct map[string]int64
	for i := range h.charges {
		left := int64(0)
		if i < len(spent) {
			left = spent[i]
		}
		parts := h.parts[i]
		if h.id != 0 {
			own := min(left, h.direct[i])
			if len(parts) == 0 {
				own = left
			}
			if own > 0 {
				if direct == nil {
					direct = map[string]int64{}
				}
				direct[h.charges[i].Account] = own
			}
			left -= own
		}
		for k, p := range parts {
			own := min(left, p.amount)
			if k == len(parts)-1 {
				own = left
			}
			left -= own
			p.d.mu.Lock()
			p.l.held -= p.amount
			p.l.spent += own
			p.d.mu.Unlock()
		}
	}
	if h.id == 0 {
		return nil
	}
	return h.t.settle(ctx, h.id, direct)
}

func (t *Till) settle(ctx context.Context, id int64, spent map[string]int64) error {
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

// draw takes as much of a charge as there is from leases, and returns what is left of it.
func (t *Till) draw(ctx context.Context, c *Charge) (parts []part, left int64) {
	d := t.drawer(c)
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.see(c, now)
	for range 3 {
		if d.room(now) >= c.Amount {
			break
		}
		if !d.hot() || now.Before(d.tight) {
			break
		}
		filled := d.filling
		if filled == nil {
			filled = t.fill(d, c)
		}
		d.mu.Unlock()
		select {
		case <-filled:
		case <-ctx.Done():
		}
		d.mu.Lock()
		if now = time.Now(); ctx.Err() != nil {
			break
		}
	}
	left = c.Amount
	for _, l := range slices.Backward(d.leases) {
		if own := min(left, l.room(now)); own > 0 || (c.Amount == 0 && l.room(now) >= 0) {
			l.held += own
			left -= own
			parts = append(parts, part{d, l, own})
			if left == 0 {
				break
			}
		}
	}
	// The next lease is fetched before this one is empty.
	if d.hot() && d.filling == nil && !now.Before(d.tight) && d.room(now) < d.want()/4 {
		t.fill(d, c)
	}
	return parts, left
}

// tend gives leases back, extends them, and settles what is owed, until Close.
func (t *Till) tend() {
	every := min(t.o.Idle/4, t.o.LeaseTTL/4)
	ticker := time.NewTicker(max(every, 10*time.Millisecond))
	defer ticker.Stop()
	extended := time.Now()
	for {
		select {
		case <-t.closed:
			return
		case now := <-ticker.C:
			t.collect(now, false)
			_ = t.pay(context.Background()) // what is owed is paid at the next tick
			if now.Sub(extended) >= t.o.LeaseTTL/3 {
				extended = now
				t.extend()
			}
		}
	}
}

// collect takes leases back that are not used, or all that nothing is held from.
func (t *Till) collect(now time.Time, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, d := range t.drawers {
		d.mu.Lock()
		idle := now.Sub(d.used) >= t.o.Idle
		d.leases = slices.DeleteFunc(d.leases, func(l *lease) bool {
			over := !l.until.IsZero() && !now.Before(l.until)
			last := l == d.leases[len(d.leases)-1]
			if l.held != 0 || !all && !idle && !over && (last || now.Sub(l.made) < t.o.Idle) {
				return false
			}
			t.owed = append(t.owed, settlement{l.id, map[string]int64{l.account: l.spent}})
			return true
		})
		if len(d.leases) == 0 && d.filling == nil && now.Sub(d.used) >= 5*t.o.Idle {
			delete(t.drawers, name)
		}
		d.mu.Unlock()
	}
}

// pay settles what is owed, as far as the store can be reached.
func (t *Till) pay(ctx context.Context) error {
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
func (t *Till) Close() error {
	var err error
	t.once.Do(func() {
		close(t.closed)
		t.ended.Wait()
		t.drain()
		t.collect(time.Now(), true)
		err = t.pay(context.Background())
	})
	return err
}

// drain waits for the leases that are asked for.
func (t *Till) drain() {
	t.mu.Lock()
	drawers := slices.Collect(maps.Values(t.drawers))
	t.mu.Unlock()
	for _, d := range drawers {
		d.mu.Lock()
		filling := d.filling
		d.mu.Unlock()
		if filling != nil {
			<-filling
		}
	}
}
