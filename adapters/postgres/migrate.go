package postgres

import (
	"context"
	_ "embed" // for migrations
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

var (
	//go:embed accounts.sql
	accountsSQL string
	//go:embed leases.sql
	leasesSQL string
	//go:embed settled.sql
	settledSQL string
	//go:embed periods.sql
	periodsSQL string
)

// migration migrates the tables from one version to the next.
type migration struct {
	sql string
	// oldest is the version of the oldest program that works with the migrated tables.
	oldest int
}

// migrations must only be appended to.
var migrations = []migration{
	{accountsSQL + tables(sqlstore.Schema), 1},
	{tables(sqlstore.SchemaShared), 1},
	{compressionSQL, 1},
	{leasesSQL, 1},
	{settledSQL, 1},
	{periodsSQL, 1},
}

// compressionSQL makes the server compress traces with LZ4, which is faster, unless it is older than PostgreSQL 14 or
// built without it.
const compressionSQL = `DO $$ BEGIN
	EXECUTE 'ALTER TABLE stepfall.bodies ALTER COLUMN body SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error THEN NULL;
END $$`

// tables translates the common schema to PostgreSQL.
func tables(schema string) string {
	return strings.NewReplacer("SEQ PRIMARY KEY", "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "TEXT", `text COLLATE "C"`,
		"BYTES", "bytea", "COUNTERS", sqlstore.Counters, "@", "stepfall.").Replace(schema)
}

const versionQuery = "SELECT version, oldest_program FROM stepfall.migrations ORDER BY version DESC LIMIT 1"

// migrate updates the tables to the known version. Concurrent programs wait for one another.
func migrate(ctx context.Context, pool *pgxpool.Pool, known int) error {
	var there bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass('stepfall.migrations') IS NOT NULL").Scan(&there); err != nil {
		return fault(err)
	}
	if there {
		var version, oldest int
		if err := pool.QueryRow(ctx, versionQuery).Scan(&version, &oldest); err != nil {
			return fault(err)
		}
		if version >= known {
			return checkVersion(version, oldest, known)
		}
	}
	return fault(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return migrateTx(ctx, tx, known) }))
}

// checkVersion returns an error if the tables are too new for the program.
func checkVersion(version, oldest, known int) error {
	if oldest > known {
		return fmt.Errorf("%w: they have %d, this program knows %d", store.ErrVersion, version, known)
	}
	return nil
}

func migrateTx(ctx context.Context, tx pgx.Tx, known int) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7316053)"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS stepfall;
		CREATE TABLE IF NOT EXISTS stepfall.migrations (version int PRIMARY KEY, oldest_program int NOT NULL, at timestamptz NOT NULL DEFAULT now())`,
		pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	version, oldest := 0, 0
	if err := tx.QueryRow(ctx, versionQuery).Scan(&version, &oldest); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	for ; version < known; version++ {
		m := &migrations[version]
		if _, err := tx.Exec(ctx, m.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("migration %d: %w", version+1, err)
		}
		oldest = max(oldest, m.oldest)
		if _, err := tx.Exec(ctx, "INSERT INTO stepfall.migrations (version, oldest_program) VALUES ($1, $2)", version+1, oldest); err != nil {
			return err
		}
	}
	return checkVersion(version, oldest, known)
}
