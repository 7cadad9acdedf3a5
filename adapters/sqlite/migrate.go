package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

// schemaVersion is the version of the tables; it is stored in the file.
const schemaVersion = 4

// oldestProgram is the oldest schemaVersion of a program that can use these tables. It is stored in the file for
// programs that are older than the file.
const oldestProgram = 4

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
	settled  INTEGER NOT NULL DEFAULT 0,
	until_ns INTEGER NOT NULL,
	PRIMARY KEY (id, account)
) WITHOUT ROWID;
CREATE INDEX holds_by_until ON holds (until_ns) WHERE expired = 0;
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) WITHOUT ROWID;
`

// schema returns the statements that create the tables of this version.
func schema() string {
	return ledgerSchema + strings.NewReplacer("SEQ PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT", "BYTES", "BLOB", "COUNTERS", sqlstore.Counters, "@", "").
		Replace(sqlstore.Schema+sqlstore.SchemaShared)
}

// migrate creates the tables in a new file. It returns store.ErrVersion for a file that is too new or too old.
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
	if err := tx.QueryRowContext(ctx, "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version").Scan(&version, &tables); err != nil {
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
	case version > 0:
		return fmt.Errorf("%w: it has %d, of a program before v0.1.0; move it away to begin with a new one", store.ErrVersion, version)
	}
	_, err := tx.ExecContext(ctx, schema()+fmt.Sprintf("; INSERT INTO meta (name, value) VALUES ('oldest_program', %d); PRAGMA user_version = %d", oldestProgram, schemaVersion))
	return err
}
