package step

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// waitableLedger wraps a ledger and tracks its pending reservations, so that a call that finds a cap taken up by
// other calls' worst cases can wait until they are settled.
type waitableLedger struct {
	Ledger

	mu            sync.Mutex
	tenants, runs map[string]int64 // pending reservations in picodollars
	lines         map[string]*waitQueue
}

type waitQueue struct {
	tenant  string
	waiting int
	turn    chan struct{} // held by the step that may try
	settled chan struct{}
}

// countDelay is longer than the time between granting and counting a reservation.
const countDelay = 5 * time.Millisecond

// pollInterval is how often to try again in case other processes have settled reservations.
const pollInterval = 250 * time.Millisecond

func newWaitableLedger(l Ledger) *waitableLedger {
	return &waitableLedger{Ledger: l, tenants: map[string]int64{}, runs: map[string]int64{}, lines: map[string]*waitQueue{}}
}

// Reserve implements [Ledger]. It does not wait.
func (m *waitableLedger) Reserve(ctx context.Context, q *sdk.Query, usd float64) (Reservation, error) {
	held, err := m.Ledger.Reserve(ctx, q, usd)
	if err != nil || held == nil {
		return held, err
	}
	u := &pendingReservation{held, m, q.Tenant, runAccount(q.Tenant, q.RunName()), ceilPico(usd)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tenants[u.tenant] += u.amount
	m.runs[u.run] += u.amount
	return u, nil
}

// await reserves usd as soon as there is room. It waits for at most wait, and only while pending
// reservations hold the missing amount. Waiting steps take turns; each settlement allows another try.
func (m *waitableLedger) await(ctx context.Context, q *sdk.Query, usd float64, wait time.Duration) (Reservation, error) {
	key := runAccount(q.Tenant, q.RunName())
	l := m.join(key, q.Tenant)
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.waiting--; l.waiting == 0 {
			delete(m.lines, key)
		}
	}()
	patience, look := time.NewTimer(wait), time.NewTicker(pollInterval)
	defer patience.Stop()
	defer look.Stop()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-patience.C:
		return nil, errFull(wait)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		ofTenant, ofRun := m.pending(q.Tenant, key) // before the try, so that the try sees what they settle
		held, err := m.Reserve(ctx, q, usd)
		if err == nil || !errors.Is(err, sdk.ErrBudgetExhausted) {
			return held, err
		}
		if !mayFree(err, ofTenant, ofRun) { // unless another run has just taken the room and is not counted yet
			time.Sleep(countDelay)
			if ofTenant, ofRun = m.pending(q.Tenant, key); !mayFree(err, ofTenant, ofRun) {
				return nil, err
			}
		}
		select {
		case <-l.settled:
		case <-look.C:
		case <-patience.C:
			return nil, fmt.Errorf("%w: %w", errFull(wait), err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func errFull(wait time.Duration) error {
	return fmt.Errorf("calls in flight may need the rest, and were not settled within %v: %w", wait, sdk.ErrBudgetExhausted)
}

// pending returns the pending reservations of a tenant and of one of its runs, in picodollars.
func (m *waitableLedger) pending(tenant, run string) (ofTenant, ofRun int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tenants[tenant], m.runs[run]
}

// mayFree reports whether settling the pending reservations can make room for what was refused.
func mayFree(refused error, ofTenant, ofRun int64) bool {
	var short Shortage
	if !errors.As(refused, &short) {
		return ofTenant > 0
	}
	missing, isRun := short.MissingUSD()
	if isRun {
		return ofRun >= nearestPico(missing)
	}
	return ofTenant >= nearestPico(missing)
}

func (m *waitableLedger) join(key, tenant string) *waitQueue {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lines[key]
	if l == nil {
		l = &waitQueue{tenant: tenant, turn: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
		m.lines[key] = l
	}
	l.waiting++
	return l
}

// pendingReservation is a granted reservation whose settlement other steps can wait for.
type pendingReservation struct {
	Reservation

	m           *waitableLedger
	tenant, run string
	amount      int64
}

// Settle implements [Reservation].
func (u *pendingReservation) Settle(ctx context.Context, usd float64) error {
	return u.SettleUncertain(ctx, usd, usd)
}

// SettleUncertain implements [UncertainReservation].
func (u *pendingReservation) SettleUncertain(ctx context.Context, usd, most float64) error {
	err := settle(ctx, u.Reservation, usd, most)
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	if u.m.tenants[u.tenant] -= u.amount; u.m.tenants[u.tenant] == 0 {
		delete(u.m.tenants, u.tenant)
	}
	if u.m.runs[u.run] -= u.amount; u.m.runs[u.run] == 0 {
		delete(u.m.runs, u.run)
	}
	for _, l := range u.m.lines {
		if l.tenant == u.tenant {
			select {
			case l.settled <- struct{}{}:
			default:
			}
		}
	}
	return err
}
