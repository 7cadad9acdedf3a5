package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Ledger enforces the caps of a policy, and of the key that a call is made with, on the accounts of a store. It
// implements [step.Ledger].
type Ledger struct {
	leased *LeasedAccounts
	caps   step.Caps
}

// Ledger returns a ledger with these caps.
func (t *LeasedAccounts) Ledger(caps step.Caps) *Ledger { return &Ledger{leased: t, caps: caps} }

type keyKey struct{}

// WithKey returns a context whose calls are charged to the key.
func WithKey(ctx context.Context, k *Key) context.Context { return context.WithValue(ctx, keyKey{}, k) }

// KeyFrom returns the key that calls with this context are charged to, or nil.
func KeyFrom(ctx context.Context) *Key {
	k, _ := ctx.Value(keyKey{}).(*Key)
	return k
}

func (k *Key) hasCap() bool { return k != nil && k.CapUSD > 0 }

// KeyAccount names the account of a key.
func KeyAccount(id string) string { return fmt.Sprintf("key %q", id) }

// charges returns the charge on each account that has a cap.
func (l *Ledger) charges(ctx context.Context, q *sdk.Query, amount int64) (charges []Charge, err error) {
	charges = make([]Charge, 0, 3)
	add := func(account string, capUSD float64, period time.Duration) {
		limit, fault := nano(min(capUSD, MostUSD)) // a larger cap never binds
		if fault != nil {
			err = fault
		}
		c := Charge{Account: account, Amount: amount, Cap: max(limit, 1), Period: period}
		if amount == 0 {
			c.Cap = 0 // so that spend is booked even above a cap
		}
		charges = append(charges, c)
	}
	if k := KeyFrom(ctx); k.hasCap() {
		add(KeyAccount(k.ID), k.CapUSD, k.CapPeriod)
	}
	if run := q.RunName(); l.caps.RunUSD > 0 && run != "" {
		add(RunAccount(q.Tenant, run), l.caps.RunUSD, 0)
	}
	if tenantUSD := l.caps.TenantCap(q.Tenant); tenantUSD > 0 {
		add(TenantAccount(q.Tenant), tenantUSD, l.caps.TenantPeriod)
	}
	return charges, err
}

// HasCaps implements [step.CapReader]. Caps of keys are known only once a key is used.
func (l *Ledger) HasCaps() bool { return l.caps.Any() }

// HasCapOn implements [step.CapReader].
func (l *Ledger) HasCapOn(ctx context.Context, q *sdk.Query) bool {
	return KeyFrom(ctx).hasCap() || l.caps.ApplyTo(q)
}

// Reserve implements [step.Ledger].
func (l *Ledger) Reserve(ctx context.Context, q *sdk.Query, usd float64) (step.Reservation, error) {
	amount, err := nano(usd)
	if err != nil {
		return nil, err
	}
	charges, err := l.charges(ctx, q, amount)
	if err != nil {
		return nil, err
	}
	held, err := l.leased.Take(ctx, charges)
	if full, refused := errors.AsType[*RefusedError](err); refused {
		return nil, &shortage{full, amount - full.Left - l.leased.returnableAmount(full.Account)}
	}
	if err != nil {
		return nil, err
	}
	return &reservation{held}, nil
}

// shortage is the RefusedError of an account in US dollars, with a message in US dollars.
type shortage struct {
	full    *RefusedError
	missing int64 // missing even after this process has returned its unused leases
}

func (e *shortage) Error() string {
	const perUSD = 1e9 // an account's unit is a nano-dollar
	return fmt.Sprintf("%s has %.6g USD neither spent nor reserved, and up to %.6g USD are needed: %v",
		e.full.Account, float64(max(0, e.full.Left))/perUSD, float64(e.full.Asked)/perUSD, sdk.ErrBudgetExhausted)
}

func (e *shortage) Unwrap() error { return e.full }

// MissingUSD implements [step.Shortage].
func (e *shortage) MissingUSD() (usd float64, ofRun bool) {
	return float64(e.missing) / NanoUSD, strings.HasPrefix(e.full.Account, runPrefix)
}

// reservation is a reservation of US dollars on several accounts.
type reservation struct{ held *Hold }

func (m *reservation) Settle(ctx context.Context, usd float64) error {
	amount, err := nano(usd)
	if err != nil {
		return err
	}
	return m.held.Settle(ctx, m.each(amount)...)
}

// SettleUncertain implements [step.UncertainReservation]: the rest stays reserved like the calls of a killed process,
// and in the end counts as spent and unsettled.
func (m *reservation) SettleUncertain(ctx context.Context, usd, most float64) error {
	amount, err := nano(usd)
	if err != nil {
		return err
	}
	all, err := nano(most)
	if err != nil {
		return err
	}
	return m.held.settleUncertain(ctx, all-amount, m.each(amount)...)
}

func (m *reservation) each(amount int64) []int64 {
	return slices.Repeat([]int64{amount}, len(m.held.charges))
}
