package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

// Reserve implements [store.Accounts].
func (s *Store) Reserve(ctx context.Context, id int64, charges []store.Charge, ttl time.Duration) error {
	n := len(charges)
	accounts, amounts, caps, periods, returns := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]bool, n)
	for i := range charges {
		c := &charges[i]
		accounts[i], amounts[i], caps[i], periods[i], returns[i] = c.Account, c.Amount, c.Cap, int64(c.Period), c.Returns
	}
	var refused, left, until, now int64
	err := s.retry(ctx, func(ctx context.Context) error {
		err := s.pool.QueryRow(ctx, "SELECT refused, remains, until_ns, stepfall.now_ns() FROM stepfall.reserve($1, $2, $3, $4, $5, $6, $7, $8)",
			s.id, id, accounts, amounts, caps, periods, returns, int64(ttl)).Scan(&refused, &left, &until, &now)
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23505" {
			return nil // it was in flight and has been made
		}
		return err
	})
	if err == nil && refused > 0 {
		c := &charges[refused-1]
		err = &store.RefusedError{Account: c.Account, Left: left, Asked: c.Amount, Wait: restOfPeriod(c, until, now)}
	}
	return sqlstore.Reserving(err)
}

// restOfPeriod returns how long the charge's period lasts from now on; 0 without periods.
func restOfPeriod(c *store.Charge, until, now int64) time.Duration {
	if c.Period <= 0 {
		return 0
	}
	return time.Duration(until - until%int64(c.Period) - now)
}

// Lease implements [store.Accounts].
func (s *Store) Lease(ctx context.Context, id int64, c store.Charge, least int64, ttl time.Duration) (amount int64, until time.Time, err error) {
	var refused, left, end, now int64
	var asked time.Time
	err = s.retry(ctx, func(ctx context.Context) error {
		asked = time.Now()
		return s.pool.QueryRow(ctx, "SELECT refused, remains, until_ns, granted, now_ns FROM stepfall.lease_part($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			s.id, id, c.Account, c.Amount, least, c.Cap, int64(c.Period), int64(store.LeaseShare), int64(ttl)).Scan(&refused, &left, &end, &amount, &now)
	})
	rest := restOfPeriod(&c, end, now)
	if err == nil && refused > 0 {
		err = &store.RefusedError{Account: c.Account, Left: left, Asked: least, Wait: rest}
	}
	if c.Period > 0 {
		until = asked.Add(rest) // this machine's clock can be wrong, but runs at the same speed
	}
	return amount, until, sqlstore.Reserving(err)
}

// Settle implements [store.Accounts].
func (s *Store) Settle(ctx context.Context, id int64, spent map[string]int64) error {
	accounts, amounts := make([]string, 0, len(spent)), make([]int64, 0, len(spent))
	for name, amount := range spent {
		accounts, amounts = append(accounts, name), append(amounts, amount)
	}
	err := s.retry(context.WithoutCancel(ctx), func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, "SELECT stepfall.settle($1, $2, $3)", id, accounts, amounts)
		return err
	})
	if err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	return nil
}

// Extend implements [store.Accounts].
func (s *Store) Extend(ctx context.Context, leases map[int64]store.LeaseState, ttl time.Duration) (ended []int64, err error) {
	var ids, handedOut, settled []int64
	for id, l := range leases {
		ids, handedOut, settled = append(ids, id), append(handedOut, l.HandedOut), append(settled, l.Settled)
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, "SELECT stepfall.extend($1, $2, $3, $4)", ids, handedOut, settled, int64(ttl))
		if err == nil {
			ended, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	return ended, err
}

// Release implements [store.Accounts].
func (s *Store) Release(ctx context.Context, account string) error {
	if err := s.retry(ctx, s.expire); err != nil {
		return err
	}
	return s.write(ctx, func(tx sqlstore.Tx) error { return s.DB.Release(ctx, tx, account) })
}

// Balances implements [store.Accounts].
func (s *Store) Balances(ctx context.Context, prefix string, most int) ([]store.Balance, error) {
	if err := s.retry(ctx, s.expire); err != nil {
		return nil, fmt.Errorf("reading balances: %w", err)
	}
	return s.DB.Balances(ctx, prefix, most)
}

// expire ends overdue reservations: what does not return counts as spent.
func (s *Store) expire(ctx context.Context) error {
	for more := true; more; {
		if err := s.pool.QueryRow(ctx, "SELECT stepfall.expire()").Scan(&more); err != nil {
			return err
		}
	}
	return nil
}

// sweep expires reservations every five to ten seconds, until Close. Delays are harmless: only limits on streams
// depend on it.
func (s *Store) sweep() {
	for {
		timer := time.NewTimer(5*time.Second + rand.N(5*time.Second))
		select {
		case <-s.closed:
			timer.Stop()
			return
		case <-timer.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_ = s.expire(ctx) // retried by the next sweep
		cancel()
	}
}
