package step

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// room is a ledger that knows which of its reservations are under way, so that a call
// which finds a cap full of others' worst cases can wait until they are settled. It
// grants nothing itself.
type room struct {
	Ledger

	mu            sync.Mutex
	tenants, runs map[string]int64 // reserved and under way, in picodollars
	lines         map[string]*line
}

// line is the steps that wait for room for one run of a tenant.
type line struct {
	tenant  string
	waiting int
	turn    chan struct{} // held by the one that tries
	settled chan struct{}
}

// countDelay is longer than it takes until a granted reservation is counted.
const countDelay = 5 * time.Millisecond

// pollInterval is how often to try again in case other processes have settled.
const pollInterval = 250 * time.Millisecond

func newRoom(l Ledger) *room {
	return &room{Ledger: l, tenants: map[string]int64{}, runs: map[string]int64{}, lines: map[string]*line{}}
}

// Reserve implements [Ledger]. It does not wait.
func (m *room) Reserve(ctx context.Context, q *sdk.Query, usd float64) (Reservation, error) {
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

// await reserves when there is room: it waits, no longer than wait, while pending reservations hold
// what is missing. Those that wait try in turn, each time that one is settled.
func (m *room) await(ctx context.Context, q *sdk.Query, usd float64, wait time.Duration) (Reservation, error) {
	key := runAccount(q.Tenant, q.RunName())
	l := m.join(key, q.Tenant)
	defer m.leave(key, l)
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
		ofTenant, ofRun := m.pending(q.Tenant, key) // before the try, so that it sees what they have settled
		held, err := m.Reserve(ctx, q, usd)
		if err == nil || !errors.Is(err, sdk.ErrBudgetExhausted) {
			return held, err
		}
		if !mayFree(err, ofTenant, ofRun) { // or another run took the room in this moment, and is not counted yet
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
	return fmt.Errorf("calls under way may need what is left, and were not settled within %v: %w", wait, sdk.ErrBudgetExhausted)
}

// pending returns what reservations of a tenant, and of one of its runs, hold.
func (m *room) pending(tenant, run string) (ofTenant, ofRun int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tenants[tenant], m.runs[run]
}

// mayFree reports whether there may be room for what was refused when reservations under way are
// settled.
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

func (m *room) join(key, tenant string) *line {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lines[key]
	if l == nil {
		l = &line{tenant: tenant, turn: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
		m.lines[key] = l
	}
	l.waiting++
	return l
}

func (m *room) leave(key string, l *line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		delete(m.lines, key)
	}
}

// pendingReservation is a granted reservation that others may wait for.
type pendingReservation struct {
	Reservation

	m           *room
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
