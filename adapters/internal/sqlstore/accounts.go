package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// Reserving wraps err with the operation, or returns nil.
func Reserving(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reserving: %w", err)
}

// Release implements [store.Accounts], once the caller has marked expired reservations.
func (d *DB) Release(ctx context.Context, tx Tx, account string) error {
	var faults []error
	for _, query := range [...]string{
		"UPDATE " + d.Accounts + ` AS a SET spent = a.spent - h.spends FROM (SELECT period, sum(amount - returns - settled) AS spends FROM @holds
			WHERE account = $1 AND expired GROUP BY period) AS h WHERE a.account = $1 AND a.period = h.period`,
		"UPDATE @holds SET returns = amount - settled WHERE account = $1",
	} {
		_, err := namedStatement{tx, d.Prefix}.ExecContext(ctx, query, account)
		faults = append(faults, err)
	}
	return d.fault(errors.Join(faults...))
}

// Prune implements [store.Store].
func (d *DB) Prune(ctx context.Context, r store.Retention, most int) (n store.PruneCounts, err error) {
	now := time.Now()
	for _, one := range [...]struct {
		keep    time.Duration
		count   *int64
		queries []string
	}{
		{r.Traces, &n.Traces, []string{
			"DELETE FROM @bodies WHERE seq IN (SELECT seq FROM @steps WHERE start_ns < $1 ORDER BY start_ns, seq LIMIT $2)",
			"DELETE FROM @steps WHERE seq IN (SELECT seq FROM @steps WHERE start_ns < $1 ORDER BY start_ns, seq LIMIT $2)",
		}},
		// The latest period of an account is kept, since it may not be over, and so are runs that continue and
		// accounts with reservations, which are settled sooner or later.
		{r.Accounts, &n.Accounts, []string{
			strings.ReplaceAll(`DELETE FROM # WHERE (account, period) IN (SELECT account, period FROM # AS a WHERE begun_ns < $1
				AND (account LIKE 'run %' AND period = 0 OR EXISTS (SELECT 1 FROM # AS n WHERE n.account = a.account AND n.period > a.period))
				AND (account, period) NOT IN (SELECT account, period FROM @holds)
				AND account NOT IN (SELECT 'run "' || tenant || '" "' || run || '"' FROM @runs WHERE last_ns >= $1) LIMIT $2)`, "#", d.Accounts),
			"DELETE FROM @runs WHERE (tenant, run) IN (SELECT tenant, run FROM @runs WHERE last_ns < $1 ORDER BY last_ns, run LIMIT $2)",
		}},
		{r.Sessions, &n.Sessions, []string{"DELETE FROM @notes WHERE (kind, name) IN (SELECT kind, name FROM @notes WHERE until_ns < $1 LIMIT $2)"}},
	} {
		if one.keep <= 0 {
			continue
		}
		err := d.write(ctx, func(tx Tx) error {
			*one.count = 0
			for _, query := range one.queries {
				result, err := tx.ExecContext(ctx, query, now.Add(-one.keep).UnixNano(), most)
				if err != nil {
					return err
				}
				rows, err := result.RowsAffected()
				if err != nil {
					return err
				}
				*one.count = max(*one.count, rows)
			}
			return nil
		})
		if err != nil {
			return n, fmt.Errorf("pruning: %w", d.fault(err))
		}
	}
	return n, nil
}

// Balances implements [store.Accounts], once the caller has marked expired reservations.
func (d *DB) Balances(ctx context.Context, prefix string, most int) ([]store.Balance, error) {
	order, arguments := "a.account", []any{prefix, prefix + maxSuffix}
	if most > 0 {
		order, arguments = "spent + reserved DESC, a.account LIMIT $3", append(arguments, most)
	}
	query := `SELECT a.account, spent, reserved, coalesce(unsettled, 0), coalesce(until_ns, 0) FROM # AS a
		LEFT JOIN (SELECT account, period, CAST(sum(CASE WHEN expired THEN amount - returns - settled ELSE 0 END) AS bigint) AS unsettled, min(CASE WHEN expired THEN NULL ELSE until_ns END) AS until_ns
			FROM @holds WHERE account >= $1 AND account < $2 GROUP BY account, period) AS h
			ON h.account = a.account AND h.period = a.period
		WHERE a.account >= $1 AND a.account < $2 AND a.period = (SELECT max(period) FROM # AS n WHERE n.account = a.account) ORDER BY `
	return read(ctx, d, "reading balances", strings.ReplaceAll(query, "#", d.Accounts)+order, arguments, func(rows *sql.Rows) (b store.Balance, err error) {
		var until int64
		err = rows.Scan(&b.Account, &b.Spent, &b.Reserved, &b.Unsettled, &until)
		if until > 0 {
			b.Until = time.Unix(0, until)
		}
		return b, err
	})
}
