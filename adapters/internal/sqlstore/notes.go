package sqlstore

import (
	"context"
	crand "crypto/rand"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"
)

// Post implements [store.Notes].
func (d *DB) Post(ctx context.Context, kind, name string, note []byte, ttl time.Duration) error {
	err := d.write(ctx, func(tx Tx) error {
		_, err := d.putNote(ctx, tx, "", kind, name, note, ttl.Nanoseconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("posting %s %s: %w", kind, name, d.fault(err))
	}
	return nil
}

// Claim implements [store.Notes].
func (d *DB) Claim(ctx context.Context, kind, name string, note []byte, ttl time.Duration) (bool, error) {
	var until, mine int64 // mine is the expiry that this claim wrote, if its transaction is retried after it has committed
	err := d.write(ctx, func(tx Tx) (err error) {
		until, err = d.putNote(ctx, tx, " WHERE notes.until_ns <= "+d.Now+" OR notes.until_ns = $5", kind, name, note, ttl.Nanoseconds(), mine)
		mine = until
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claiming %s %s: %w", kind, name, d.fault(err))
	}
	return until != 0, nil
}

// putNote writes a note, replacing an existing one only if that meets the condition, and returns its expiry, or 0 if it
// was not written. Expiries are read and written by the store's clock, since those of processes differ. args are the
// kind, the name, the note, its duration in nanoseconds, and those of the condition.
func (d *DB) putNote(ctx context.Context, tx Tx, condition string, args ...any) (until int64, err error) {
	if rand.IntN(64) == 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM @notes WHERE kind = $1 AND until_ns < "+d.Now+" - 60000000000", args[0]); err != nil {
			return 0, err
		}
	}
	err = tx.QueryRowContext(ctx, "INSERT INTO @notes (kind, name, note, until_ns) VALUES ($1, $2, $3, "+d.Now+` + $4)
		ON CONFLICT (kind, name) DO UPDATE SET note = excluded.note, until_ns = excluded.until_ns`+condition+" RETURNING until_ns", args...).Scan(&until)
	if noRows(err) {
		err = nil
	}
	return until, err
}

// Note implements [store.Notes].
func (d *DB) Note(ctx context.Context, kind, name string) ([]byte, error) {
	var note []byte
	err := d.read().QueryRowContext(ctx, "SELECT note FROM @notes WHERE kind = $1 AND name = $2 AND until_ns > "+d.Now, kind, name).Scan(&note)
	if noRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, name, d.fault(err))
	}
	return note, nil
}

// Notes implements [store.Notes].
func (d *DB) Notes(ctx context.Context, kind string) (map[string]time.Duration, error) {
	notes := map[string]time.Duration{}
	query := "SELECT name, until_ns - " + d.Now + " FROM @notes WHERE kind = $1 AND until_ns > " + d.Now
	_, err := read(ctx, d, "reading "+kind, query, []any{kind}, func(rows *sql.Rows) (left time.Duration, err error) {
		var name string
		err = rows.Scan(&name, &left)
		notes[name] = left
		return left, err
	})
	return notes, err
}

// Add implements [store.Notes].
func (d *DB) Add(ctx context.Context, kind, name string, delta []float64) ([]float64, error) {
	var sums []float64
	id := crand.Text()
	err := d.write(ctx, func(tx Tx) (err error) {
		if len(delta) > 0 { // not twice, if the transaction is retried after it has committed
			if until, err := d.putNote(ctx, tx, " WHERE notes.until_ns <= "+d.Now, "added", id, []byte{}, time.Minute.Nanoseconds()); err != nil {
				return err
			} else if until == 0 {
				delta = nil
			}
		}
		for i, x := range delta {
			if _, err := tx.ExecContext(ctx, `INSERT INTO @numbers (kind, name, i, value) VALUES ($1, $2, $3, $4)
				ON CONFLICT (kind, name, i) DO UPDATE SET value = numbers.value + excluded.value`, kind, name, i, x); err != nil {
				return err
			}
		}
		sums, err = collect(ctx, tx, "SELECT value FROM @numbers WHERE kind = $1 AND name = $2 ORDER BY i", []any{kind, name}, func(rows *sql.Rows) (x float64, err error) {
			err = rows.Scan(&x)
			return x, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("adding to %s %s: %w", kind, name, d.fault(err))
	}
	return sums, nil
}
