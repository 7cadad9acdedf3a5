package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

// account is a row of accounts2. period is the start of the period, in nanoseconds since the Unix epoch; 0 without
// periods.
type account struct {
	period, spent, reserved int64
	carried                 bool // see carry
}

// errCarried is joined to the refusal of an account with carried amounts, which is rolled back.
var errCarried = errors.New("amounts were carried over")

// find returns the current period of an account, and inserts it if needed. The period does not change when the clock
// goes back. When the account's periods have become longer, what was spent in those that the current one includes
// counts in the latest.
func (s *Store) find(name string, length time.Duration) (account, error) {
	a, now := account{}, s.Now().UnixNano()
	if length > 0 {
		a.period = now / int64(length) * int64(length)
	}
	begin := a.period
	err := s.w.queryRow("SELECT period, spent, reserved FROM accounts2 WHERE account = $1 AND period >= $2 ORDER BY period DESC LIMIT 1", name, begin).
		Scan(&a.period, &a.spent, &a.reserved)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.w.exec("INSERT INTO accounts2 (account, period, spent, reserved, begun_ns) VALUES ($1, $2, 0, 0, $3)", name, a.period, now)
	}
	if err == nil && begin < a.period && a.period <= now {
		err = s.carry(name, begin, &a)
	}
	return a, err
}

// carry adds to a what was spent in the account's earlier periods from begin on.
func (s *Store) carry(name string, begin int64, a *account) error {
	var earlier int64
	err := s.w.queryRow("SELECT coalesce(sum(spent), 0) FROM accounts2 WHERE account = $1 AND period >= $2 AND period < $3", name, begin, a.period).Scan(&earlier)
	if err != nil || earlier == 0 {
		return err
	}
	a.spent, a.carried = a.spent+earlier, true
	return errors.Join(s.w.exec("UPDATE accounts2 SET spent = 0 WHERE account = $1 AND period >= $2 AND period < $3", name, begin, a.period),
		s.w.exec("UPDATE accounts2 SET spent = $3 WHERE account = $1 AND period = $2", name, a.period, a.spent))
}

func (a *account) until(length time.Duration) time.Time {
	if length <= 0 {
		return time.Time{}
	}
	return time.Unix(0, (a.period/int64(length)+1)*int64(length))
}

// writeReservation reserves an amount, of which returns is given back if it is not settled within ttl.
func (s *Store) writeReservation(id int64, a *account, c *store.Charge, amount, returns int64, ttl time.Duration) error {
	hasRoom, err := s.w.execChanges("UPDATE accounts2 SET reserved = reserved + $3 WHERE account = $1 AND period = $2 AND ($4 = 0 OR spent + reserved + $3 <= $4)",
		c.Account, a.period, amount, c.Cap)
	if err != nil {
		return err
	}
	if !hasRoom {
		if a.carried {
			err = errCarried
		}
		full := &store.RefusedError{Account: c.Account, Left: c.Cap - a.spent - a.reserved, Asked: amount}
		if until := a.until(c.Period); !until.IsZero() {
			full.Wait = until.Sub(s.Now())
		}
		return errors.Join(err, full)
	}
	return s.w.exec("INSERT INTO holds (id, account, period, amount, returns, until_ns) VALUES ($1, $2, $3, $4, $5, $6)",
		id, c.Account, a.period, amount, returns, s.Now().Add(ttl).UnixNano())
}

func (s *Store) isReserved(id int64) (bool, error) {
	var there bool
	err := s.w.queryRow("SELECT EXISTS (SELECT 1 FROM holds WHERE id = $1)", id).Scan(&there)
	return there, err
}

// Reserve implements [store.Accounts].
func (s *Store) Reserve(ctx context.Context, id int64, charges []store.Charge, ttl time.Duration) error {
	err := s.write(ctx, func(sqlstore.Tx) error {
		if err := s.expire(); err != nil {
			return err
		}
		if there, err := s.isReserved(id); err != nil || there {
			return err
		}
		for i := range charges {
			c, returns := &charges[i], int64(0)
			if c.Returns {
				returns = c.Amount
			}
			a, err := s.find(c.Account, c.Period)
			if err != nil {
				return err
			}
			if err := s.writeReservation(id, &a, c, c.Amount, returns, ttl); err != nil {
				return err
			}
		}
		return nil
	})
	return s.reservationError(ctx, err, charges...)
}

// reservationError wraps an error of reserving, after carrying again what a refusal rolled back.
func (s *Store) reservationError(ctx context.Context, err error, charges ...store.Charge) error {
	if full, ok := errors.AsType[*store.RefusedError](err); ok && errors.Is(err, errCarried) {
		err = full
		i := slices.IndexFunc(charges, func(c store.Charge) bool { return c.Account == full.Account })
		_ = s.write(ctx, func(sqlstore.Tx) error { // fails only together with the next reservation
			_, err := s.find(full.Account, charges[i].Period)
			return err
		})
	}
	return sqlstore.Reserving(err)
}

// Lease implements [store.Accounts].
func (s *Store) Lease(ctx context.Context, id int64, c store.Charge, least int64, ttl time.Duration) (amount int64, until time.Time, err error) {
	err = s.write(ctx, func(sqlstore.Tx) error {
		if err := s.expire(); err != nil {
			return err
		}
		a, err := s.find(c.Account, c.Period)
		if err != nil {
			return err
		}
		amount, until = c.Amount, a.until(c.Period)
		if c.Cap > 0 {
			amount = max(least, min(amount, (c.Cap-a.spent-a.reserved)/store.LeaseShare))
		}
		return s.writeReservation(id, &a, &c, amount, amount-store.HandedOut(amount, least), ttl)
	})
	return amount, until, s.reservationError(ctx, err, c)
}

// Settle implements [store.Accounts].
func (s *Store) Settle(ctx context.Context, id int64, spent map[string]int64) error {
	amounts, err := json.Marshal(spent)
	if err == nil {
		err = s.write(context.WithoutCancel(ctx), func(sqlstore.Tx) error {
			// In an expired reservation, everything that does not return already counts as spent.
			return errors.Join(s.w.exec(`UPDATE accounts2 SET spent = spent + coalesce((SELECT value FROM json_each($2) WHERE key = h.account), 0) - iif(expired, amount - returns, 0),
				reserved = reserved - iif(expired, 0, amount) FROM holds AS h WHERE h.id = $1 AND accounts2.account = h.account AND accounts2.period = h.period`, id, string(amounts)),
				s.w.exec("DELETE FROM holds WHERE id = $1", id))
		})
	}
	if err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	return nil
}

// Extend implements [store.Accounts].
func (s *Store) Extend(ctx context.Context, leases map[int64]store.LeaseState, ttl time.Duration) (ended []int64, err error) {
	err = s.write(ctx, func(sqlstore.Tx) error {
		ended = nil
		if err := s.expire(); err != nil {
			return err
		}
		for id, l := range leases {
			isLive, err := s.w.execChanges("UPDATE holds SET until_ns = $2, returns = amount - $3, settled = $4 WHERE id = $1 AND expired = 0",
				id, s.Now().Add(ttl).UnixNano(), l.HandedOut, l.Settled)
			if err != nil {
				return err
			}
			if !isLive {
				ended = append(ended, id)
			}
		}
		return nil
	})
	return ended, err
}

// unsettledFor is how long an account remembers which part of its spend was never settled.
const unsettledFor = 90 * 24 * time.Hour

// expire ends overdue reservations: what does not return counts as spent.
func (s *Store) expire() error {
	now := s.Now().UnixNano()
	var some bool
	if err := s.w.queryRow("SELECT EXISTS (SELECT 1 FROM holds WHERE expired = 0 AND until_ns < $1)", now).Scan(&some); err != nil || !some {
		return err
	}
	return errors.Join(s.w.exec(`UPDATE accounts2 SET reserved = reserved - h.amount, spent = spent + h.spends
		FROM (SELECT account, period, sum(amount) AS amount, sum(amount - returns) AS spends FROM holds WHERE expired = 0 AND until_ns < $1 GROUP BY account, period) AS h
		WHERE accounts2.account = h.account AND accounts2.period = h.period`, now),
		s.w.exec("UPDATE holds SET expired = 1 WHERE expired = 0 AND until_ns < $1", now),
		s.w.exec("DELETE FROM holds WHERE expired = 1 AND until_ns < $1", now-int64(unsettledFor)))
}

// Release implements [store.Accounts].
func (s *Store) Release(ctx context.Context, account string) error {
	return s.write(ctx, func(tx sqlstore.Tx) error { return errors.Join(s.expire(), s.DB.Release(ctx, tx, account)) })
}

// Balances implements [store.Accounts].
func (s *Store) Balances(ctx context.Context, prefix string, most int) ([]store.Balance, error) {
	if err := s.write(ctx, func(sqlstore.Tx) error { return s.expire() }); err != nil {
		return nil, err
	}
	return s.DB.Balances(ctx, prefix, most)
}
