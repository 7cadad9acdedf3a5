package store

import (
	"context"
	"maps"
	"slices"
	"time"
)

// maintain returns and extends leases, and retries settlements, until Close.
func (t *LeasedAccounts) maintain() {
	every := max(min(t.o.Idle, t.o.LeaseTTL)/20, 10*time.Millisecond)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-t.closed:
			return
		case now := <-ticker.C:
			t.collect(now, false)
			_ = t.retrySettlements(context.Background()) // retried at the next tick
			t.report(now, 5*every)
		}
	}
}

// collect returns the leases that are unused or, with all, every lease from which nothing is held.
func (t *LeasedAccounts) collect(now time.Time, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, a := range t.accounts {
		a.mu.Lock()
		a.leases = slices.DeleteFunc(a.leases, func(l *lease) bool {
			if l.held != 0 || !all && t.keeps(a, l, now) {
				return false
			}
			t.unsettled = append(t.unsettled, settlement{l.id, map[string]int64{l.account: l.spent}, Charge{Account: l.account, Amount: l.uncertain, Period: a.period}})
			return true
		})
		if len(a.leases) == 0 && a.inFlight == nil && now.Sub(a.used) >= 5*t.o.Idle {
			delete(t.accounts, name)
		}
		a.mu.Unlock()
	}
}

// keeps reports whether a lease from which nothing is held continues. One that is not needed does until report has asked
// the store for it, so that what was spent of it is booked even if the store forgot it in an outage.
func (t *LeasedAccounts) keeps(a *leasedAccount, l *lease, now time.Time) bool {
	idle := now.Sub(a.used) >= t.o.Idle
	over := !l.until.IsZero() && !now.Before(l.until)
	last := l == a.leases[len(a.leases)-1]
	if a.inFlight != nil || !idle && !over && (last || now.Sub(l.made) < t.o.Idle) {
		return true
	}
	l.isDue = now.Sub(l.answered) >= t.o.Idle/2
	return l.isDue
}

// report extends the leases and slots that are due, lowers marks to what is in use, and tells the store how much of
// the leases is settled.
func (t *LeasedAccounts) report(now time.Time, quiet time.Duration) {
	states := map[int64]LeaseState{}
	done := make(chan struct{})
	var asked []*leasedAccount
	for name, a := range t.list() {
		a.mu.Lock()
		t.renew(name, a, now)
		before := len(states)
		for _, l := range a.leases {
			if a.inFlight != nil {
				break
			}
			mark := l.inUse()
			if now.Sub(a.used) < quiet {
				mark = max(mark, min(l.mark, mark+a.headroom(l)))
			}
			if l.mark-mark > a.headroom(l)/2 || l.spent-l.settled > a.mean || now.Sub(l.asked) >= t.o.LeaseTTL/3 || l.isDue && now.Sub(l.asked) >= t.o.Idle/4 {
				l.mark, l.settled = mark, l.spent
				states[l.id] = LeaseState{HandedOut: mark, Settled: l.spent}
			}
		}
		if len(states) > before {
			a.inFlight = done
			asked = append(asked, a)
		}
		a.mu.Unlock()
	}
	t.mu.Lock()
	for id, extended := range t.slots {
		if now.Sub(extended) >= t.o.LeaseTTL/3 {
			states[id], t.slots[id] = LeaseState{}, now
		}
	}
	t.mu.Unlock()
	if len(states) == 0 {
		return
	}
	// On failure the store counts more as handed out than is, and the lease ends early: safe.
	ended, err := t.s.Extend(context.Background(), states, t.o.LeaseTTL)
	for _, a := range asked {
		t.restore(a, ended)
		a.mu.Lock()
		for _, l := range a.leases {
			hasEnded := slices.Contains(ended, l.id)
			if hasEnded {
				l.until = now
			}
			if _, wasAsked := states[l.id]; wasAsked {
				l.asked = now
				if err == nil {
					l.answered = now
				}
				if err == nil && !hasEnded {
					l.extended = now
				}
			}
		}
		a.inFlight = nil
		a.mu.Unlock()
	}
	close(done)
}

// restore reserves the account's leases that have ended once more, under their ids, so that what was spent of them is
// booked. That changes nothing where the store knows them. It cannot have ended them by itself within their ttl.
func (t *LeasedAccounts) restore(a *leasedAccount, ended []int64) {
	if len(ended) == 0 {
		return
	}
	a.mu.Lock()
	period, leases := a.period, slices.Clone(a.leases)
	wentBack := slices.ContainsFunc(leases, func(l *lease) bool { return slices.Contains(ended, l.id) && time.Since(l.extended) < t.o.LeaseTTL })
	a.mu.Unlock()
	for _, l := range leases {
		if slices.Contains(ended, l.id) {
			// On failure what was spent of the lease is lost, as the rest of what the store forgot.
			_ = t.s.Reserve(context.Background(), l.id, []Charge{{Account: l.account, Amount: l.amount, Period: period}}, t.o.LeaseTTL)
		}
	}
	if wentBack && t.o.WentBack != nil {
		t.o.WentBack()
	}
}

// renew replaces a lease that stays in use, because the store sees the spend of a lease only when it is returned.
// a.mu is held.
func (t *LeasedAccounts) renew(name string, a *leasedAccount, now time.Time) {
	if n := len(a.leases); n == 0 || a.inFlight != nil || !a.hot() || now.Before(a.noLeaseBefore) || a.leases[n-1].spent == 0 || now.Sub(a.leases[n-1].made) < t.o.Idle {
		return
	}
	a.inFlight = make(chan struct{})
	go t.lease(a, Charge{Account: name, Amount: a.leaseSize(), Cap: a.cap, Period: a.period}, max(1, a.mean), a.inFlight)
}

func (t *LeasedAccounts) list() map[string]*leasedAccount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.accounts)
}

// retrySettlements retries the pending settlements, up to the first error.
func (t *LeasedAccounts) retrySettlements(ctx context.Context) error {
	t.mu.Lock()
	owed := t.unsettled
	t.unsettled = nil
	t.mu.Unlock()
	for i := range owed {
		o := &owed[i]
		var err error
		if o.uncertain.Amount > 0 {
			_, err = t.reserve(ctx, []Charge{o.uncertain}, t.o.TTL)
		}
		if err == nil {
			o.uncertain.Amount = 0
			err = t.s.Settle(ctx, o.id, o.spent)
		}
		if err != nil {
			t.mu.Lock()
			t.unsettled = append(t.unsettled, owed[i:]...)
			t.mu.Unlock()
			return err
		}
	}
	return nil
}

// Close returns the leases and retries the pending settlements. Calls must have ended; whatever they still hold
// counts as spent in the end.
func (t *LeasedAccounts) Close() error {
	var err error
	t.once.Do(func() {
		close(t.closed)
		t.ended.Wait()
		for _, a := range t.list() {
			a.mu.Lock()
			asking := a.inFlight
			a.mu.Unlock()
			if asking != nil {
				<-asking
			}
		}
		t.collect(time.Now(), true)
		err = t.retrySettlements(context.Background())
	})
	return err
}
