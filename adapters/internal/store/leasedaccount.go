package store

import (
	"cmp"
	"sync"
	"time"
)

// leasedAccount is the state of one account in this process.
type leasedAccount struct {
	mu      sync.Mutex
	cap     int64
	period  time.Duration
	changed time.Time // when cap or period did
	leases  []*lease
	// inFlight is closed when the current request to the store about the leases has returned; nil without one.
	inFlight chan struct{}
	// No lease is requested before noLeaseBefore, since little is left; no mark is raised before noRaiseBefore, since
	// the store did not answer.
	noLeaseBefore, noRaiseBefore time.Time
	// overrun is the time of the last spend beyond reservation and leases. A lease that was requested before it may
	// have been granted without it.
	overrun time.Time

	second time.Time // start of the current one-second window
	count  int       // charges in the window
	rate   int       // charges in the previous window
	mean   int64     // moving average of a charge's amount
	used   time.Time
}

// lease is a reservation in the store that charges are taken from in memory.
type lease struct {
	id                  int64
	account             string
	amount, held, spent int64
	// uncertain is what calls with an unknown bill may have cost. It becomes a reservation of its own when the lease
	// is returned.
	uncertain int64
	// mark is how much of the lease the store counts as handed out; no more than that is handed out.
	mark int64
	// settled is how much of the lease the store knows to be spent.
	settled        int64
	made, extended time.Time
	// asked is when an extension was last tried, and answered when the store last answered one; isDue if it is wanted
	// before the lease is returned.
	asked, answered time.Time
	isDue           bool
	until           time.Time // end of the account's period, or of the lease; zero for none
}

// room returns how much may be handed out now.
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
				l.until = now // it was granted under a higher cap
			}
		}
		a.cap, a.period, a.changed, a.noLeaseBefore = c.Cap, c.Period, now, time.Time{}
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

// leaseSize returns how much to lease: the need of one second.
func (a *leasedAccount) leaseSize() int64 { return max(1, a.mean) * int64(max(a.count, a.rate, 32)) }

func (a *leasedAccount) room(now time.Time) (sum int64) {
	for _, l := range a.leases {
		sum += max(0, l.room(now))
	}
	return sum
}

// cover books an overrun on the leases as far as they have room, and returns that amount.
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

// endLeases ends the leases, and one whose request is in flight.
func (a *leasedAccount) endLeases() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.overrun = time.Now()
	for _, l := range a.leases {
		l.until = a.overrun
	}
}

// headroom returns how far the mark of a lease should be above what is in use.
func (a *leasedAccount) headroom(l *lease) int64 { return min(a.leaseSize(), l.amount) / LeaseShare }

// finish wakes the goroutines that wait for the store. a.mu is held.
func (a *leasedAccount) finish(done chan struct{}) {
	a.inFlight = nil
	close(done)
}
