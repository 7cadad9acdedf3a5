package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepfall/stepfall/adapters/store"
)

// Reserving adds to an error what was under way.
func Reserving(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reserving: %w", err)
}

// Release is Release of [store.Accounts], where what is over has been marked so.
func (d *DB) Release(ctx context.Context, tx Tx, account string) error {
	var faults []error
	for _, query := range [...]string{
		"UPDATE " + d.Accounts + ` AS a SET spent = a.spent - h.spends FROM (SELECT period, sum(amount - returns) AS spends FROM @holds
			WHERE account = $1 AND expired GROUP BY period) AS h WHERE a.account = $1 AND a.period = h.period`,
		"UPDATE @holds SET returns = amount WHERE account = $1",
	} {
		_, err := named{tx, d.Prefix}.ExecContext(ctx, query, account)
		faults = append(faults, err)
	}
	return d.fault(errors.Join(faults...))
}

// Balances implements [store.Accounts], where what is over has been marked so.
func (d *DB) Balances(ctx context.Context, prefix string) ([]store.Balance, error) {
	rows, err := d.read().QueryContext(ctx, "SELECT account, spent, reserved FROM "+d.Accounts+` AS a WHERE account >= $1 AND account < $2
		AND period = (SELECT max(period) FROM `+d.Accounts+" AS n WHERE n.account = a.account) ORDER BY account", prefix, prefix+above)
	if err != nil {
		return nil, fmt.Errorf("reading balances: %w", d.fault(err))
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
	return list, d.fault(rows.Err())
}
