package sqlstore

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// A run has a dozen steps, a model or a stop reason a million: SQLite alone might use the latter's index.
func TestStepsAreLookedUpByWhatFewHave(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "steps.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	schema := strings.NewReplacer("SEQ", "INTEGER", "COUNTERS", Counters, "@", "").Replace(Schema)
	if _, err := db.ExecContext(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		filter store.Filter
		index  string
	}{
		{store.Filter{Run: "r", Chosen: "large", Stop: "final", Policy: "p", Outcome: "passed"}, "steps_by_run"},
		{store.Filter{Session: "s", Tenant: "blue", Chosen: "large"}, "steps_by_session"},
		{store.Filter{Query: "q", Run: "r", Tenant: "blue"}, "steps_by_query"},
		{store.Filter{Key: "k", Tenant: "blue", Stop: "final"}, "steps_by_key"},
		{store.Filter{Tenant: "blue", Stop: "final", Policy: "p", Escalated: true}, "steps_by_tenant"},
		{store.Filter{Outcome: "failed", Chosen: "large"}, "steps_by_outcome"},
		{store.Filter{Chosen: "large", Policy: "p"}, "steps_by_chosen"},
		{store.Filter{Escalated: true}, "steps_by_start"},
	} {
		var c conditions
		c.steps(&one.filter, true)
		var id, parent, unused int
		var plan string
		row := db.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN SELECT seq, id, prompt FROM steps"+c.sql()+" ORDER BY start_ns DESC, seq DESC LIMIT 20", c.args...)
		if err := row.Scan(&id, &parent, &unused, &plan); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, " "+one.index) {
			t.Errorf("%+v: %s, want %s", one.filter, plan, one.index)
		}
	}
}
