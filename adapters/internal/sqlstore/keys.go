package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// PutKey implements [store.Keys].
func (d *DB) PutKey(ctx context.Context, k *store.Key, digest []byte, earlierUntil time.Time) error {
	body, err := json.Marshal(k)
	if err != nil {
		return err
	}
	err = d.write(ctx, func(tx Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO @gateway_keys (id, body) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = excluded.body", k.ID, string(body)); err != nil {
			return err
		}
		if len(digest) == 0 {
			return nil
		}
		if _, err := tx.ExecContext(ctx, "UPDATE @key_digests SET until_ns = $2 WHERE key_id = $1 AND (until_ns = 0 OR until_ns > $2) AND digest <> $3", k.ID, earlierUntil.UnixNano(), digest); err != nil {
			return err
		}
		// Only an earlier try of this transaction can have inserted it.
		_, err := tx.ExecContext(ctx, "INSERT INTO @key_digests (digest, key_id, until_ns) VALUES ($1, $2, 0) ON CONFLICT (digest) DO NOTHING", digest, k.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing key %s: %w", k.ID, d.fault(err))
	}
	return nil
}

// KeyByDigest implements [store.Keys].
func (d *DB) KeyByDigest(ctx context.Context, digest []byte) (*store.Key, error) {
	var body string
	var until int64
	err := d.read().QueryRowContext(ctx, "SELECT body, until_ns FROM @key_digests JOIN @gateway_keys ON id = key_id WHERE digest = $1", digest).Scan(&body, &until)
	if noRows(err) {
		return nil, fmt.Errorf("this key: %w", store.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", d.fault(err))
	}
	k := new(store.Key)
	if err := json.Unmarshal([]byte(body), k); err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	if end := time.Unix(0, until); until != 0 && (k.Expires.IsZero() || end.Before(k.Expires)) {
		k.Expires = end
	}
	return k, nil
}

// ListKeys implements [store.Keys].
func (d *DB) ListKeys(ctx context.Context, id string) ([]store.Key, error) {
	var c conditions
	c.equal("id", id)
	return read(ctx, d, "listing keys", "SELECT body FROM @gateway_keys"+c.sql()+" ORDER BY id", c.args, func(rows *sql.Rows) (k store.Key, err error) {
		err = scanJSON(rows, &k)
		return k, err
	})
}

// scanJSON decodes the only column of a row.
func scanJSON(rows *sql.Rows, into any) error {
	var body sql.RawBytes
	if err := rows.Scan(&body); err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}
