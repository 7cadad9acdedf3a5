package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// ErrNoTrace is returned for a trace that the file does not hold.
var ErrNoTrace = errors.New("no such trace")

// Record writes a trace, over an earlier one of the same id. It does not keep t.
func (s *Store) Record(ctx context.Context, t *sdk.Trace) error {
	body, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("recording trace %s: %w", t.ID, err)
	}
	_, err = s.db.ExecContext(ctx, `INSERT OR REPLACE INTO traces
		(id, start_ns, session, run, tenant, strategy, chosen, stop, error, cost_usd, duration_ns, calls, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, t.Start.UnixNano(), t.Session, t.Run, t.Tenant, t.Strategy, t.Chosen, string(t.Stop), t.Error,
		t.CostUSD, int64(t.Duration), len(t.Calls), string(body))
	if err != nil {
		return fmt.Errorf("recording trace %s: %w", t.ID, err)
	}
	return nil
}

// Get returns the trace of that id, or an error that is ErrNoTrace.
func (s *Store) Get(ctx context.Context, id string) (*sdk.Trace, error) {
	var body string
	err := s.db.QueryRowContext(ctx, "SELECT body FROM traces WHERE id = ?", id).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: %s", ErrNoTrace, id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading trace %s: %w", id, err)
	}
	return decode(body)
}

// Filter selects traces; zero fields select all.
type Filter struct {
	Run, Session, Tenant, Chosen string
	Since, Until                 time.Time
	// Limit is the most to return; 0 means 100.
	Limit int
}

// List returns the newest traces that the filter selects, newest first.
func (s *Store) List(ctx context.Context, f Filter) ([]*sdk.Trace, error) {
	var where []string
	var args []any
	add := func(condition string, value any) {
		where, args = append(where, condition), append(args, value)
	}
	for column, value := range map[string]string{"run": f.Run, "session": f.Session, "tenant": f.Tenant, "chosen": f.Chosen} {
		if value != "" {
			add(column+" = ?", value)
		}
	}
	if !f.Since.IsZero() {
		add("start_ns >= ?", f.Since.UnixNano())
	}
	if !f.Until.IsZero() {
		add("start_ns < ?", f.Until.UnixNano())
	}
	query := "SELECT body FROM traces"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	rows, err := s.db.QueryContext(ctx, query+" ORDER BY start_ns DESC, id LIMIT ?", append(args, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("listing traces: %w", err)
	}
	defer rows.Close()
	var found []*sdk.Trace
	for rows.Next() {
		var body string
		if err := rows.Scan(&body); err != nil {
			return nil, fmt.Errorf("listing traces: %w", err)
		}
		t, err := decode(body)
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	return found, rows.Err()
}

// Prune deletes the traces that began before a time and returns how many.
func (s *Store) Prune(ctx context.Context, before time.Time) (int64, error) {
	res, err := s.db.ExecContext(ctx, "DELETE FROM traces WHERE start_ns < ?", before.UnixNano())
	if err != nil {
		return 0, fmt.Errorf("pruning traces: %w", err)
	}
	return res.RowsAffected()
}

func decode(body string) (*sdk.Trace, error) {
	t := new(sdk.Trace)
	if err := json.Unmarshal([]byte(body), t); err != nil {
		return nil, fmt.Errorf("reading a trace: %w", err)
	}
	return t, nil
}
