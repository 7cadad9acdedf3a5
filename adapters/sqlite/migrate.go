package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// schemaVersion is the version of the tables; it is kept in the file.
const schemaVersion = 3

// oldestProgram is the oldest schemaVersion of a program that can work with these
// tables. It is kept in the file for programs that are older than it.
const oldestProgram = 3

const ledgerSchema = `
CREATE TABLE accounts2 (
	account  TEXT NOT NULL,
	period   INTEGER NOT NULL,
	spent    INTEGER NOT NULL,
	reserved INTEGER NOT NULL,
	begun_ns INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (account, period)
) WITHOUT ROWID;
CREATE INDEX accounts_by_begun ON accounts2 (begun_ns);
CREATE TABLE holds (
	id       INTEGER NOT NULL,
	account  TEXT NOT NULL,
	period   INTEGER NOT NULL,
	amount   INTEGER NOT NULL,
	returns  INTEGER NOT NULL,
	expired  INTEGER NOT NULL DEFAULT 0,
	until_ns INTEGER NOT NULL,
	PRIMARY KEY (id, account)
) WITHOUT ROWID;
CREATE INDEX holds_by_until ON holds (until_ns) WHERE expired = 0;
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) WITHOUT ROWID;
`

// fromVersion2 states when accounts were begun, and how much of a reservation returns.
const fromVersion2 = `
ALTER TABLE accounts2 ADD COLUMN begun_ns INTEGER NOT NULL DEFAULT 0;
CREATE INDEX accounts_by_begun ON accounts2 (begun_ns);
UPDATE accounts2 SET begun_ns = unixepoch() * 1000000000;
UPDATE holds SET returns = amount WHERE returns <> 0;
UPDATE meta SET value = 3 WHERE name = 'oldest_program';
PRAGMA user_version = 3;
`

// schema returns the statements that make the tables of this version.
func schema() string {
	return ledgerSchema + strings.NewReplacer("SEQ PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT", "BYTES", "BLOB", "COUNTERS", sqlstore.Counters, "@", "").
		Replace(sqlstore.Schema+sqlstore.SchemaShared)
}

// migrate makes the tables in a new file, brings an older file to this version, and
// refuses one that this program is too old for.
func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := migrateTx(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func migrateTx(ctx context.Context, tx *sql.Tx) error {
	var version, tables int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	switch {
	case version == schemaVersion:
		return nil
	case version > schemaVersion:
		var oldest int
		if err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'oldest_program'").Scan(&oldest); err != nil || oldest > schemaVersion {
			return fmt.Errorf("%w: it has %d, this program knows %d", store.ErrVersion, version, schemaVersion)
		}
		return nil
	case version == 0 && tables > 0:
		return fmt.Errorf("%w: it is the database of another program", store.ErrVersion)
	case version == 2:
		_, err := tx.ExecContext(ctx, fromVersion2)
		return err
	}
	if _, err := tx.ExecContext(ctx, schema()); err != nil {
		return err
	}
	if version == 1 {
		if err := fromVersion1(ctx, tx); err != nil {
			return fmt.Errorf("bringing the file from version 1: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('oldest_program', ?)", oldestProgram); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
	return err
}

// fromVersion1 takes over what a file of version 1 holds. There, runs were not told
// apart by tenant, and a period was part of a tenant's name: where it is not known
// what an account is now, all that it may be have what was spent.
func fromVersion1(ctx context.Context, tx *sql.Tx) error {
	type entry struct {
		account string
		period  int64
	}
	names := map[string][]entry{}
	rows, err := tx.QueryContext(ctx, `SELECT name, '' FROM accounts UNION SELECT account, '' FROM reservations
		UNION SELECT 'run ' || run, tenant FROM traces WHERE run <> ''`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var old, tenant string
		if err := rows.Scan(&old, &tenant); err != nil {
			return err
		}
		if run, ok := strings.CutPrefix(old, "run "); ok {
			names[old] = append(names[old], entry{store.RunAccount(tenant, run), 0})
			continue
		}
		names[old] = append(names[old], entry{old, 0})
		if quoted, ok := strings.CutPrefix(old, "tenant "); ok {
			name, _ := strconv.Unquote(quoted)
			if at := strings.LastIndexByte(name, '@'); at >= 0 {
				if index, err := strconv.ParseInt(name[at+1:], 10, 64); err == nil {
					names[old] = append(names[old], entry{store.TenantAccount(name[:at]), beginOf(index, time.Now())})
				}
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for old, list := range names {
		for _, e := range list {
			if _, err := tx.ExecContext(ctx, `INSERT INTO accounts2 (account, period, spent, reserved, begun_ns) VALUES (?1, ?2,
				coalesce((SELECT spent_nanousd FROM accounts WHERE name = ?3), 0), coalesce((SELECT sum(nanousd) FROM reservations WHERE account = ?3), 0), unixepoch() * 1000000000)
				ON CONFLICT DO NOTHING`, e.account, e.period, old); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO holds (id, account, period, amount, returns, until_ns)
				SELECT id, ?1, ?2, nanousd, 0, lease_ns FROM reservations WHERE account = ?3 ON CONFLICT DO NOTHING`, e.account, e.period, old); err != nil {
				return err
			}
		}
	}
	if err := tracesFromVersion1(ctx, tx); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DROP TABLE accounts; DROP TABLE reservations; DROP TABLE traces")
	return err
}

// beginOf returns when a period began that version 1 knew by its number since the
// epoch, not by its length: it is one of the usual lengths if that makes it the
// present one. One that is over does not matter.
func beginOf(index int64, now time.Time) int64 {
	const day = 24 * time.Hour
	for _, length := range [...]time.Duration{time.Minute, time.Hour, day, 7 * day, 28 * day, 30 * day, 31 * day, 365 * day} {
		if now.UnixNano()/int64(length) == index {
			return index * int64(length)
		}
	}
	return 0
}

func tracesFromVersion1(ctx context.Context, tx *sql.Tx) error {
	db := sqlstore.DB{Rows: 1, Write: func(_ context.Context, do func(sqlstore.Tx) error) error { return do(tx) }}
	for last := int64(0); ; {
		rows, err := tx.QueryContext(ctx, "SELECT rowid, body FROM traces WHERE rowid > ? ORDER BY rowid LIMIT 500", last)
		if err != nil {
			return err
		}
		var batch []store.Entry
		for rows.Next() {
			var body string
			if err := rows.Scan(&last, &body); err != nil {
				return errors.Join(err, rows.Close())
			}
			t := new(sdk.Trace)
			if err := json.Unmarshal([]byte(body), t); err != nil {
				return errors.Join(err, rows.Close())
			}
			batch = append(batch, store.Entry{Trace: t})
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil
		}
		err = db.Record(ctx, batch)
		if _, some := errors.AsType[*store.LeftOutError](err); err != nil && !some {
			return err
		}
	}
}
