package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/store"
)

// account is a row of accounts2. The period is when it begins, in nanoseconds since the
// Unix epoch, 0 where the account has none.
type account struct{ period, spent, reserved int64 }

// find returns the present period of an account. One that was begun stays the
// present one when the clock goes back.
func (s *Store) find(name string, length time.Duration) (account, error) {
	a := account{}
	if length > 0 {
		a.period = s.now().UnixNano() / int64(length) * int64(length)
	}
	st, err := s.statement("SELECT period, spent, reserved FROM accounts2 WHERE account = $1 AND period >= $2 ORDER BY period DESC LIMIT 1")
	if err != nil {
		return a, err
	}
	err = st.QueryRow(name, a.period).Scan(&a.period, &a.spent, &a.reserved)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.exec("INSERT INTO accounts2 (account, period, spent, reserved) VALUES ($1, $2, 0, 0)", name, a.period)
	}
	return a, err
}

func (a *account) until(length time.Duration) time.Time {
	if length <= 0 {
		return time.Time{}
	}
	return time.Unix(0, a.period+int64(length))
}

// hold sets an amount aside, or refuses.
func (s *Store) hold(id int64, c *store.Charge, amount int64, ttl time.Duration) error {
	a, err := s.find(c.Account, c.Period)
	if err != nil {
		return err
	}
	st, err := s.statement("UPDATE accounts2 SET reserved = reserved + $3 WHERE account = $1 AND period = $2 AND ($4 = 0 OR spent + reserved + $3 <= $4)")
	if err != nil {
		return err
	}
	res, err := st.Exec(c.Account, a.period, amount, c.Cap)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, &store.RefusedError{Account: c.Account, Left: c.Cap - a.spent - a.reserved, Asked: amount, Until: a.until(c.Period)})
	}
	return s.exec("INSERT INTO holds (id, account, period, amount, returns, until_ns) VALUES ($1, $2, $3, $4, $5, $6)",
		id, c.Account, a.period, amount, c.Returns, s.now().Add(ttl).UnixNano())
}

// held says whether the reservation is there already.
func (s *Store) held(id int64) (bool, error) {
	st, err := s.statement("SELECT EXISTS (SELECT 1 FROM holds WHERE id = $1)")
	if err != nil {
		return false, err
	}
	var there bool
	err = st.QueryRow(id).Scan(&there)
	return there, err
}

// Reserve implements [store.Accounts].
func (s *Store) Reserve(ctx context.Context, id int64, charges []store.Charge, ttl time.Duration) error {
	if err := s.same(); err != nil {
		return err
	}
	err := s.write(ctx, func(sqlstore.Tx) error {
		if err := s.expire(); err != nil {
			return err
		}
		if there, err := s.held(id); err != nil || there {
			return err
		}
		for i := range charges {
			if err := s.hold(id, &charges[i], charges[i].Amount, ttl); err != nil {
				return err
			}
		}
		return nil
	})
	return reserving(err)
}

func reserving(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reserving: %w", err)
}

// Lease implements [store.Accounts].
func (s *Store) Lease(ctx context.Context, id int64, c store.Charge, least int64, ttl time.Duration) (amount int64, until time.Time, err error) {
	if err := s.same(); err != nil {
		return 0, time.Time{}, err
	}
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
		return s.hold(id, &c, amount, ttl)
	})
	return amount, until, reserving(err)
}

// Settle implements [store.Accounts].
func (s *Store) Settle(ctx context.Context, id int64, spent map[string]int64) error {
	err := s.write(context.WithoutCancel(ctx), func(sqlstore.Tx) error {
		st, err := s.statement("DELETE FROM holds WHERE id = $1 RETURNING account, period, amount, expired, returns")
		if err != nil {
			return err
		}
		rows, err := st.Query(id)
		if err != nil {
			return err
		}
		defer rows.Close()
		type gone struct {
			account        string
			period, amount int64
			expired, gives bool
		}
		var list []gone
		for rows.Next() {
			var g gone
			if err := rows.Scan(&g.account, &g.period, &g.amount, &g.expired, &g.gives); err != nil {
				return err
			}
			list = append(list, g)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, g := range list {
			more, less := spent[g.account], g.amount
			if g.expired {
				// It counts as spent, or as given back, already.
				less = 0
				if !g.gives {
					more -= g.amount
				}
			}
			if err := s.exec("UPDATE accounts2 SET spent = spent + $3, reserved = reserved - $4 WHERE account = $1 AND period = $2", g.account, g.period, more, less); err != nil {
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

// Extend implements [store.Accounts].
func (s *Store) Extend(ctx context.Context, ids []int64, ttl time.Duration) error {
	return s.write(ctx, func(sqlstore.Tx) error {
		for _, id := range ids {
			if err := s.exec("UPDATE holds SET until_ns = $2 WHERE id = $1 AND expired = 0", id, s.now().Add(ttl).UnixNano()); err != nil {
				return err
			}
		}
		return nil
	})
}

// expire counts the reservations as spent, or as given back, whose time is over.
func (s *Store) expire() error {
	now := s.now().UnixNano()
	st, err := s.statement("UPDATE holds SET expired = 1 WHERE expired = 0 AND until_ns < $1 RETURNING account, period, amount, returns")
	if err != nil {
		return err
	}
	rows, err := st.Query(now)
	if err != nil {
		return err
	}
	defer rows.Close()
	var over [][]any
	for rows.Next() {
		var name string
		var period, amount int64
		var gives bool
		if err := rows.Scan(&name, &period, &amount, &gives); err != nil {
			return err
		}
		spent := amount
		if gives {
			spent = 0
		}
		over = append(over, []any{name, period, amount, spent})
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, args := range over {
		if err := s.exec("UPDATE accounts2 SET reserved = reserved - $3, spent = spent + $4 WHERE account = $1 AND period = $2", args...); err != nil {
			return err
		}
	}
	return nil
}

// Balances implements [store.Accounts].
func (s *Store) Balances(ctx context.Context, prefix string) ([]store.Balance, error) {
	if err := s.same(); err != nil {
		return nil, err
	}
	if err := s.write(ctx, func(sqlstore.Tx) error { return s.expire() }); err != nil {
		return nil, err
	}
	rows, err := s.read.QueryContext(ctx, `SELECT account, spent, reserved FROM accounts2 AS a WHERE account >= ?1 AND account < ?2
		AND period = (SELECT max(period) FROM accounts2 WHERE account = a.account) ORDER BY account`, prefix, prefix+"\U0010FFFF")
	if err != nil {
		return nil, fmt.Errorf("reading balances: %w", err)
	}
	defer rows.Close()
	var list []store.Balance
	for rows.Next() {
		var b store.Balance
		if err := rows.Scan(&b.Account, &b.Spent, &b.Reserved); err != nil {
			return nil, fmt.Errorf("reading balances: %w", err)
		}
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b store.Balance) int { return strings.Compare(a.Account, b.Account) })
	return list, rows.Err()
}
