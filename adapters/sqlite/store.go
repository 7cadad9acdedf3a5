package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the driver
)

// schemaVersion is the version of the tables; it is kept in the file.
const schemaVersion = 1

const schema = `
CREATE TABLE traces (
	id          TEXT PRIMARY KEY,
	start_ns    INTEGER NOT NULL,
	session     TEXT NOT NULL,
	run         TEXT NOT NULL,
	tenant      TEXT NOT NULL,
	strategy    TEXT NOT NULL,
	chosen      TEXT NOT NULL,
	stop        TEXT NOT NULL,
	error       TEXT NOT NULL,
	cost_usd    REAL NOT NULL,
	duration_ns INTEGER NOT NULL,
	calls       INTEGER NOT NULL,
	body        TEXT NOT NULL
) STRICT;
CREATE INDEX traces_by_start ON traces (start_ns);
CREATE INDEX traces_by_run ON traces (run, start_ns);
CREATE TABLE accounts (
	name          TEXT PRIMARY KEY,
	spent_nanousd INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE reservations (
	id       INTEGER NOT NULL,
	account  TEXT NOT NULL,
	nanousd  INTEGER NOT NULL,
	lease_ns INTEGER NOT NULL,
	PRIMARY KEY (id, account)
) STRICT;
CREATE INDEX reservations_by_account ON reservations (account);
`

// ErrSchema is returned for a file whose tables are of another version.
var ErrSchema = errors.New("the file's tables are of another version")

// Store is a SQLite file of traces and ledgers.
type Store struct {
	db *sql.DB
}

// Open opens the file, and makes it when it does not exist.
func Open(ctx context.Context, path string) (*Store, error) {
	pragmas := url.Values{"_pragma": {"journal_mode(WAL)", "busy_timeout(10000)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: pragmas.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	db.SetMaxOpenConns(4)
	s := &Store{db: db}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), db.Close())
	}
	return s, nil
}

// migrate makes the tables in a new file and refuses a file of another version.
func (s *Store) migrate(ctx context.Context) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		switch version {
		case schemaVersion:
			return nil
		case 0:
			if _, err := tx.ExecContext(ctx, schema); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
			return err
		}
		return fmt.Errorf("%w: it has %d, this program needs %d", ErrSchema, version, schemaVersion)
	})
}

// write runs do in a transaction that no other writer interleaves with.
func (s *Store) write(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Close closes the file. What was recorded is on disk.
func (s *Store) Close() error { return s.db.Close() }
