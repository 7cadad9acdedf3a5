package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// hotAt is how many charges in a second make an account hot.
const hotAt = 4

// drawer is what this process knows of one account.
type drawer struct {
	mu     sync.Mutex
	cap    int64
	period time.Duration
	leases []*lease
	// filling is closed when the lease that was asked for is there, or refused; nil
	// when none was asked for.
	filling chan struct{}
	// tight is until when no lease is asked for, since little is left.
	tight time.Time

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
	made                time.Time
	until               time.Time // the end of the account's period; zero for none
}

func (l *lease) room(now time.Time) int64 {
	if !l.until.IsZero() && !now.Before(l.until) {
		return 0
	}
	return l.amount - l.held - l.spent
}

// part is what one charge took from one lease.
type part struct {
	d      *drawer
	l      *lease
	amount int64
}

func giveBack(parts []part) {
	for _, p := range parts {
		p.d.mu.Lock()
		p.l.held -= p.amount
		p.d.mu.Unlock()
	}
}

func (t *Till) drawer(c *Charge) *drawer {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.drawers[c.Account]
	if d == nil {
		d = &drawer{cap: c.Cap, period: c.Period, second: time.Now(), used: time.Now()}
		t.drawers[c.Account] = d
	}
	return d
}

// see counts a charge.
func (d *drawer) see(c *Charge, now time.Time) {
	if d.cap != c.Cap || d.period != c.Period {
		d.cap, d.period, d.tight = c.Cap, c.Period, time.Time{}
	}
	if since := now.Sub(d.second); since >= time.Second {
		d.rate = d.count
		if since >= 2*time.Second {
			d.rate = 0
		}
		d.second, d.count = now, 0
	}
	d.count++
	d.used = now
	if d.mean == 0 {
		d.mean = c.Amount
	}
	d.mean += (c.Amount - d.mean) / 8
}

func (d *drawer) hot() bool { return d.count >= hotAt || d.rate >= hotAt }

// want is how much to lease: what a second needs.
func (d *drawer) want() int64 { return max(1, d.mean) * int64(max(d.count, d.rate, 32)) }

func (d *drawer) room(now time.Time) int64 {
	sum := int64(0)
	for _, l := range d.leases {
		sum += max(0, l.room(now))
	}
	return sum
}

// fill asks for a lease in the background. d is locked.
func (t *Till) fill(d *drawer, c *Charge) chan struct{} {
	done := make(chan struct{})
	d.filling = done
	one := *c
	one.Amount = max(d.want(), c.Amount)
	least := max(1, c.Amount)
	go func() {
		l := &lease{id: newID(), account: c.Account, made: time.Now()}
		amount, until, err := t.s.Lease(context.Background(), l.id, one, least, t.o.LeaseTTL)
		now := time.Now()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.filling = nil
		close(done)
		if err != nil {
			// Little is left, or the store is away: what is asked for next is reserved
			// by itself, and refused by itself.
			d.tight = now.Add(100 * time.Millisecond)
			if !errors.Is(err, sdk.ErrBudgetExhausted) {
				go func() { _ = t.settle(context.Background(), l.id, nil) }() // what is not settled expires
			}
			return
		}
		if amount < d.want()/8 {
			d.tight = now.Add(10 * time.Millisecond)
		}
		l.amount = amount
		if !until.IsZero() {
			l.until = until
		}
		d.leases = append(d.leases, l)
	}()
	return done
}

func (t *Till) extend() {
	t.mu.Lock()
	drawers := slices.Collect(maps.Values(t.drawers))
	t.mu.Unlock()
	var ids []int64
	for _, d := range drawers {
		d.mu.Lock()
		for _, l := range d.leases {
			ids = append(ids, l.id)
		}
		d.mu.Unlock()
	}
	if len(ids) > 0 {
		slices.Sort(ids)
		// A lease that is not extended counts as spent, which holds the cap.
		_ = t.s.Extend(context.Background(), ids, t.o.LeaseTTL)
	}
}
