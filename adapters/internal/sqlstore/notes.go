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
	_, err := d.put(ctx, kind, name, note, ttl, "")
	return err
}

// Claim implements [store.Notes].
func (d *DB) Claim(ctx context.Context, kind, name string, note []byte, ttl time.Duration) (bool, error) {
	// A note with the same expiry, to the nanosecond, is this one: the transaction was retried after it had
	// committed.
	return d.put(ctx, kind, name, note, ttl, " WHERE notes.until_ns <= $5 OR notes.until_ns = excluded.until_ns")
}

// put writes a note, replacing an existing one only if that meets the condition, and reports whether it did.
func (d *DB) put(ctx context.Context, kind, name string, note []byte, ttl time.Duration, condition string) (written bool, err error) {
	now := time.Now()
	err = d.write(ctx, func(tx Tx) (err error) {
		written, err = putNote(ctx, tx, kind, name, note, now, ttl, condition)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("posting %s %s: %w", kind, name, d.fault(err))
	}
	return written, nil
}

func putNote(ctx context.Context, tx Tx, kind, name string, note []byte, now time.Time, ttl time.Duration, condition string) (written bool, err error) {
	if rand.IntN(64) == 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM @notes WHERE kind = $1 AND until_ns < $2", kind, now.Add(-time.Minute).UnixNano()); err != nil {
			return false, err
		}
	}
	args := []any{kind, name, note, now.Add(ttl).UnixNano()}
	if condition != "" {
		args = append(args, now.UnixNano())
	}
	result, err := tx.ExecContext(ctx, `INSERT INTO @notes (kind, name, note, until_ns) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, name) DO UPDATE SET note = excluded.note, until_ns = excluded.until_ns`+condition, args...)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}

// Note implements [store.Notes].
func (d *DB) Note(ctx context.Context, kind, name string) ([]byte, error) {
	var note []byte
	err := d.read().QueryRowContext(ctx, "SELECT note FROM @notes WHERE kind = $1 AND name = $2 AND until_ns > $3", kind, name, time.Now().UnixNano()).Scan(&note)
	if noRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, name, d.fault(err))
	}
	return note, nil
}

// Notes implements [store.Notes].
func (d *DB) Notes(ctx context.Context, kind string) (map[string][]byte, error) {
	notes := map[string][]byte{}
	current := []any{kind, time.Now().UnixNano()}
	_, err := read(ctx, d, "reading "+kind, "SELECT name, note FROM @notes WHERE kind = $1 AND until_ns > $2", current, func(rows *sql.Rows) (note []byte, err error) {
		var name string
		err = rows.Scan(&name, &note)
		notes[name] = note
		return note, err
	})
	return notes, err
}

// Add implements [store.Notes].
func (d *DB) Add(ctx context.Context, kind, name string, delta []float64) ([]float64, error) {
	var sums []float64
	id, now := crand.Text(), time.Now()
	err := d.write(ctx, func(tx Tx) (err error) {
		if len(delta) > 0 { // not twice, if the transaction is retried after it has committed
			if isNew, err := putNote(ctx, tx, "added", id, []byte{}, now, time.Minute, " WHERE notes.until_ns <= $5"); err != nil {
				return err
			} else if !isNew {
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
