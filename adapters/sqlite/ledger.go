package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Ledger holds hard caps in the file of a store. It implements [step.Ledger].
type Ledger struct {
	store *Store
	caps  step.Caps
	lease time.Duration
}

// DefaultLease is how long a call may take before its reservation counts as spent.
const DefaultLease = 15 * time.Minute

// Ledger returns a ledger with these caps. A call may take as long as the lease;
// 0 means DefaultLease.
func (s *Store) Ledger(caps step.Caps, lease time.Duration) *Ledger {
	if lease == 0 {
		lease = DefaultLease
	}
	return &Ledger{store: s, caps: caps, lease: lease}
}

// Reserve implements [step.Ledger].
func (l *Ledger) Reserve(ctx context.Context, q *sdk.Query, usd float64) (step.Reservation, error) {
	var accounts []Account
	if l.caps.RunUSD > 0 && q.Run != "" {
		accounts = append(accounts, Account{Name: "run " + q.Run, CapUSD: l.caps.RunUSD})
	}
	if usd, name := l.caps.Tenant(q.Tenant, time.Now()); usd > 0 {
		accounts = append(accounts, Account{Name: fmt.Sprintf("tenant %q", name), CapUSD: usd})
	}
	r, err := l.store.Reserve(ctx, accounts, usd, l.lease)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Account is one ledger that a cost is charged to, and the most that may ever be
// charged to it: a step's, a run's, a tenant's.
type Account struct {
	Name string
	// CapUSD is the hard cap; 0 means none.
	CapUSD float64
}

// Reservation is money set aside for a call that is under way.
type Reservation struct {
	store    *Store
	id       int64
	accounts []Account
}

// ErrSettled is returned for a reservation that was settled before, or whose
// lease ended so that it was counted as spent.
var ErrSettled = errors.New("the reservation is settled")

// nanoUSD is the unit of the ledger, so that sums are exact.
const nanoUSD = 1e9

// toNano rounds up: a cap is never exceeded by rounding.
func toNano(usd float64) (int64, error) {
	if math.IsNaN(usd) || usd < 0 || usd > 1e9 {
		return 0, fmt.Errorf("%v US dollars is no amount to charge", usd)
	}
	return int64(math.Ceil(usd * nanoUSD)), nil
}

// Reserve sets the amount aside in every account or in none. When a cap leaves no
// room it returns an error that is [sdk.ErrBudgetExhausted] and names the account.
// The lease is how long the call may take before the reservation counts as spent.
func (s *Store) Reserve(ctx context.Context, accounts []Account, usd float64, lease time.Duration) (*Reservation, error) {
	amount, err := toNano(usd)
	if err != nil {
		return nil, err
	}
	// A random id is never given twice, so that a late Settle cannot touch another
	// call's reservation.
	r := &Reservation{store: s, id: rand.Int64(), accounts: accounts}
	if len(accounts) == 0 {
		return r, nil
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		if err := expire(ctx, tx, time.Now()); err != nil {
			return err
		}
		for _, a := range accounts {
			spent, reserved, err := balance(ctx, tx, a.Name)
			if err != nil {
				return err
			}
			limit, err := toNano(a.CapUSD)
			if err != nil {
				return err
			}
			if a.CapUSD > 0 && spent+reserved+amount > limit {
				return fmt.Errorf("%w: %s has %.6f of %.6f USD left and %.6f are needed",
					sdk.ErrBudgetExhausted, a.Name, max(0, float64(limit-spent-reserved)/nanoUSD), a.CapUSD, usd)
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO reservations (id, account, nanousd, lease_ns) VALUES (?, ?, ?, ?)",
				r.id, a.Name, amount, time.Now().Add(lease).UnixNano()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reserving: %w", err)
	}
	return r, nil
}

// Settle replaces the reservation by what the call really cost. It implements
// [step.Reservation], and so does not stop when ctx ends.
func (r *Reservation) Settle(ctx context.Context, usd float64) error {
	ctx = context.WithoutCancel(ctx)
	amount, err := toNano(usd)
	if err != nil {
		return err
	}
	if len(r.accounts) == 0 {
		return nil
	}
	err = r.store.write(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "DELETE FROM reservations WHERE id = ?", r.id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, ErrSettled)
		}
		for _, a := range r.accounts {
			if err := charge(ctx, tx, a.Name, amount); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	return nil
}

// Balance returns what was spent from an account and what is reserved, in US dollars.
func (s *Store) Balance(ctx context.Context, account string) (spentUSD, reservedUSD float64, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		if err := expire(ctx, tx, time.Now()); err != nil {
			return err
		}
		spent, reserved, err := balance(ctx, tx, account)
		spentUSD, reservedUSD = float64(spent)/nanoUSD, float64(reserved)/nanoUSD
		return err
	})
	return spentUSD, reservedUSD, err
}

// expire counts the reservations as spent whose lease has ended: their process
// did not live to settle them, and the provider may have charged them.
func expire(ctx context.Context, tx *sql.Tx, now time.Time) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO accounts (name, spent_nanousd)
		SELECT account, sum(nanousd) FROM reservations WHERE lease_ns < ? GROUP BY account
		ON CONFLICT (name) DO UPDATE SET spent_nanousd = spent_nanousd + excluded.spent_nanousd`, now.UnixNano()); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM reservations WHERE lease_ns < ?", now.UnixNano())
	return err
}

func charge(ctx context.Context, tx *sql.Tx, account string, amount int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO accounts (name, spent_nanousd) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET spent_nanousd = spent_nanousd + excluded.spent_nanousd`, account, amount)
	return err
}

func balance(ctx context.Context, tx *sql.Tx, account string) (spent, reserved int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT
		coalesce((SELECT spent_nanousd FROM accounts WHERE name = ?1), 0),
		coalesce((SELECT sum(nanousd) FROM reservations WHERE account = ?1), 0)`, account).Scan(&spent, &reserved)
	return spent, reserved, err
}
