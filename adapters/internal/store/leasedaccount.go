package store

import (
	"cmp"
	"sync"
	"time"
)

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
	// overrun is when more was spent than was reserved and than the leases covered: one that was
	// asked for before may have been granted without it.
	overrun time.Time

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
	// uncertain is what calls may have cost whose bill is not known. It is reserved by itself when the
	// lease is given back.
	uncertain int64
	// mark is how much of it the store takes for handed out: no more is.
	mark int64
	// settled is how much of it the store knows to be spent.
	settled        int64
	made, extended time.Time
	until          time.Time // the end of the account's period, or of the lease; zero for none
}

// room is how much may be handed out now.
func (l *lease) room(now time.Time) int64 {
	if !l.until.IsZero() && !now.Before(l.until) {
		return 0
	}
	return l.mark - l.inUse()
}

func (l *lease) inUse() int64 { return l.held + l.spent + l.uncertain }

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
	a.mean = cmp.Or(a.mean, c.Amount)
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

// cover books an overrun on the leases, and returns how much of it they had room for.
func (a *leasedAccount) cover(over int64) (covered int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, l := range a.leases {
		part := min(over-covered, l.room(now))
		if part > 0 {
			l.spent += part
			covered += part
		}
	}
	return covered
}

// endLeases ends the leases, and one that is being asked for.
func (a *leasedAccount) endLeases() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.overrun = time.Now()
	for _, l := range a.leases {
		l.until = a.overrun
	}
}

// headroom is how far the mark of a lease should be above what is in use.
func (a *leasedAccount) headroom(l *lease) int64 { return min(a.leaseSize(), l.amount) / LeaseShare }

// finish wakes those who wait for the store's answer. The account is locked.
func (a *leasedAccount) finish(done chan struct{}) {
	a.asking = nil
	close(done)
}
