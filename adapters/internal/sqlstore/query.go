package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// maxSuffix, appended to a text, makes it sort after all texts with that prefix.
const maxSuffix = "\U0010FFFF"

// conditions builds a WHERE clause.
type conditions struct {
	where []string
	args  []any
}

func (c *conditions) add(condition string, value any) {
	if s, ok := value.(string); ok {
		value = text(s) // text that an engine cannot hold was changed when it was written
	}
	c.args = append(c.args, value)
	c.where = append(c.where, strings.ReplaceAll(condition, "$", fmt.Sprintf("$%d", len(c.args))))
}

func (c *conditions) addIf(needed bool, condition string, value any) {
	if needed {
		c.add(condition, value)
	}
}

func (c *conditions) equal(column, value string) {
	if value != "" {
		c.add(column+" = $", name(value))
	}
}

// addIndexed is equal for a column with a partial index on non-empty values: the condition lets the planner use it.
func (c *conditions) addIndexed(column, value string) {
	if value != "" {
		c.equal(column, value)
		c.where = append(c.where, column+" <> ''")
	}
}

func (c *conditions) sql() string {
	if len(c.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.where, " AND ")
}

// Trace implements [store.Traces].
func (d *DB) Trace(ctx context.Context, id string) (*sdk.Trace, error) {
	if id = text(id); id == "" {
		return nil, fmt.Errorf("a trace without an id: %w", store.ErrNotFound)
	}
	type trace struct{ id, body string }
	query := "SELECT id, body FROM @steps JOIN @bodies USING (seq) WHERE id >= $1 AND id < $2 ORDER BY id LIMIT 2"
	found, err := read(ctx, d, "reading trace "+id, query, []any{id, id + maxSuffix}, func(rows *sql.Rows) (t trace, err error) {
		err = rows.Scan(&t.id, &t.body)
		return t, err
	})
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("trace %s: %w", id, store.ErrNotFound)
	case len(found) > 1 && found[0].id != id:
		return nil, fmt.Errorf("several traces begin with %s: give more of the id", id)
	}
	t := new(sdk.Trace)
	if err := json.Unmarshal([]byte(found[0].body), t); err != nil {
		return nil, fmt.Errorf("reading trace %s: %w", found[0].id, err)
	}
	return t, nil
}

// Whole implements [store.Traces].
func (d *DB) Whole(ctx context.Context, ids []string) (found []*sdk.Trace, err error) {
	const most = 500 // ids in one query
	for some := range slices.Chunk(ids, most) {
		var c conditions
		for _, id := range some {
			c.add("$", id)
		}
		query := "SELECT body FROM @steps JOIN @bodies USING (seq) WHERE id IN (" + strings.Join(c.where, ", ") + ")"
		traces, err := read(ctx, d, "reading traces", query, c.args, func(rows *sql.Rows) (*sdk.Trace, error) {
			t := new(sdk.Trace)
			return t, scanJSON(rows, t)
		})
		if err != nil {
			return nil, err
		}
		found = append(found, traces...)
	}
	return found, nil
}

// Steps implements [store.Traces].
func (d *DB) Steps(ctx context.Context, f store.Filter) ([]store.Step, error) {
	if f.Model != "" {
		if there, err := d.narrow(ctx, &f); err != nil || !there {
			return nil, err
		}
	}
	var c conditions
	c.steps(&f, d.Blind)
	if f.Mode == "" {
		c.where = append(c.where, "mode <> '"+sdk.ModeVerdict+"'") // as sdk.IsStep
	}
	if f.Before != nil {
		c.add("(start_ns, seq) < ($, ", f.Before.Start.UnixNano())
		c.args = append(c.args, f.Before.Seq)
		c.where[len(c.where)-1] += fmt.Sprintf("$%d)", len(c.args))
	}
	return d.steps(ctx, &c, "start_ns DESC, seq DESC", f.Limit)
}

// narrow restricts a filter to the days on which its model was asked, so that a rarely asked model needs no scan of
// all steps. It reports whether there are such days.
func (d *DB) narrow(ctx context.Context, f *store.Filter) (bool, error) {
	var first, last sql.NullInt64
	err := d.read().QueryRowContext(ctx, "SELECT min(day), max(day) FROM @sums WHERE model = $1", name(f.Model)).Scan(&first, &last)
	if err != nil {
		return false, fmt.Errorf("looking for the days of a model: %w", d.fault(err))
	}
	if !first.Valid {
		return false, nil
	}
	since, until := time.Unix(first.Int64*86400, 0), time.Unix((last.Int64+1)*86400, 0)
	if f.Since.Before(since) {
		f.Since = since
	}
	if f.Until.IsZero() || f.Until.After(until) {
		f.Until = until
	}
	return true, nil
}

// Follow implements [store.Traces].
func (d *DB) Follow(ctx context.Context, after int64, f store.Filter) ([]store.Step, error) {
	var c conditions
	c.steps(&f, d.Blind)
	c.add("seq > $", after)
	return d.steps(ctx, &c, "seq", f.Limit)
}

// LastSeq implements [store.Traces].
func (d *DB) LastSeq(ctx context.Context) (seq int64, err error) {
	err = d.read().QueryRowContext(ctx, "SELECT COALESCE(max(seq), 0) FROM @steps").Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("looking for the last step: %w", d.fault(err))
	}
	return seq, nil
}

// steps adds a filter, the most selective condition first. On a blind engine only that one may use an index.
func (c *conditions) steps(f *store.Filter, blind bool) {
	for _, one := range [...]struct {
		column, value string
		partial       bool // the index excludes empty values
	}{
		{"query_id", f.Query, true}, {"run", f.Run, true}, {"session", f.Session, true}, {"key_id", f.Key, true}, {"tenant", f.Tenant, false},
		{"outcome", f.Outcome, true}, {"stop", string(f.Stop), false}, {"chosen", f.Chosen, false}, {"policy", f.Policy, false}, {"mode", f.Mode, false},
	} {
		switch {
		case one.value == "":
		case blind && len(c.where) > 0:
			c.equal("+"+one.column, one.value)
		case one.partial:
			c.addIndexed(one.column, one.value)
		default:
			c.equal(one.column, one.value)
		}
	}
	// Written as a numeric comparison, which the planner assumes to match a third of the rows: it assumes that LIKE
	// matches few, and would sort all steps instead of reading the newest.
	c.addIf(f.Model != "", `CASE WHEN asked LIKE $ ESCAPE '\' THEN 1 ELSE 0 END > 0`, "%\n"+escape(name(f.Model))+"\n%")
	if f.Failed {
		c.where = append(c.where, "chosen = ''") // rare, so no index is needed
	}
	if f.Escalated {
		c.where = append(c.where, "escalated = 1")
	}
	c.addIf(f.Text != "", `(lower(prompt) LIKE $ ESCAPE '\' OR id LIKE $ ESCAPE '\' OR lower(query_id) LIKE $ ESCAPE '\' OR lower(error) LIKE $ ESCAPE '\')`,
		"%"+escape(strings.ToLower(f.Text))+"%")
	c.addIf(!f.Since.IsZero(), "start_ns >= $", f.Since.UnixNano())
	c.addIf(!f.Until.IsZero(), "start_ns < $", f.Until.UnixNano())
}

func escape(s string) string { return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s) }

func (d *DB) steps(ctx context.Context, c *conditions, order string, limit int) ([]store.Step, error) {
	if limit <= 0 {
		limit = 100
	}
	query := "SELECT seq, " + strings.Join(stepColumns[:len(stepColumns)-1], ", ") + " FROM @steps" + c.sql() + " ORDER BY " + order + fmt.Sprintf(" LIMIT %d", limit)
	return read(ctx, d, "listing steps", query, c.args, func(rows *sql.Rows) (s store.Step, err error) {
		var start, nano, duration, overhead int64
		var asked string
		err = rows.Scan(&s.Seq, &s.ID, &start, &s.Policy, &s.Mode, &s.Strategy, &s.Tenant, &s.Key, &s.Run, &s.Session, &s.Query, &asked, &s.Chosen, &s.Stop,
			&s.Outcome, &s.Error, &s.Prompt, &s.Calls, &s.InputTokens, &s.OutputTokens, &nano, &duration, &overhead)
		s.Start, s.CostUSD, s.Duration, s.Overhead = time.Unix(0, start).UTC(), float64(nano)/store.NanoUSD, time.Duration(duration), time.Duration(overhead)
		if asked = strings.Trim(asked, "\n"); asked != "" {
			s.Asked = strings.Split(asked, "\n")
		}
		return s, err
	})
}

// Sums implements [store.Traces].
func (d *DB) Sums(ctx context.Context, by []store.Dimension, f store.Filter) ([]store.Sum, error) {
	table := "sums"
	if f.Tenant+f.Key != "" || slices.Contains(by, store.ByTenant) || slices.Contains(by, store.ByKey) {
		table = "tenant_sums"
	}
	var c conditions
	c.equal("tenant", f.Tenant)
	c.equal("key_id", f.Key)
	c.equal("policy", f.Policy)
	switch {
	case f.Model != "":
		c.equal("model", f.Model)
	case slices.Contains(by, store.ByModel):
		c.where = append(c.where, "model <> ''")
	default:
		c.where = append(c.where, "model = ''")
	}
	c.addIf(!f.Since.IsZero(), "day >= $", f.Since.Unix()/86400)
	c.addIf(!f.Until.IsZero(), "day < $", (f.Until.Unix()+86399)/86400)
	var dims []string
	for _, dim := range by {
		dims = append(dims, dimensionColumns[dim])
	}
	selected := slices.Clone(dims)
	for _, counter := range counterColumns {
		selected = append(selected, "CAST(coalesce(sum("+counter+"), 0) AS bigint)") // PostgreSQL's sums are numeric
	}
	query := "SELECT " + strings.Join(selected, ", ") + " FROM @" + table + c.sql()
	if len(dims) > 0 {
		query += " GROUP BY " + strings.Join(dims, ", ") + " ORDER BY " + strings.Join(dims, ", ")
	}
	return d.sums(ctx, query, c.args, dims)
}

var dimensionColumns = map[store.Dimension]string{
	store.ByDay: "day", store.ByTenant: "tenant", store.ByKey: "key_id", store.ByPolicy: "policy", store.ByModel: "model",
}

// Runs implements [store.Traces].
func (d *DB) Runs(ctx context.Context, f store.Filter) ([]store.Sum, error) {
	var c conditions
	c.equal("tenant", f.Tenant)
	c.equal("run", f.Run)
	c.addIf(!f.Since.IsZero(), "last_ns >= $", f.Since.UnixNano())
	c.addIf(!f.Until.IsZero(), "last_ns < $", f.Until.UnixNano())
	if f.Limit <= 0 {
		f.Limit = 100
	}
	dims := []string{"tenant", "run", "first_ns", "last_ns"}
	query := "SELECT " + strings.Join(append(slices.Clone(dims), counterColumns...), ", ") + " FROM @runs" + c.sql() +
		fmt.Sprintf(" ORDER BY last_ns DESC, run LIMIT %d", f.Limit)
	return d.sums(ctx, query, c.args, dims)
}

func (d *DB) sums(ctx context.Context, query string, args []any, dims []string) ([]store.Sum, error) {
	found, err := read(ctx, d, "reading sums", query, args, func(rows *sql.Rows) (s store.Sum, err error) {
		var date, first, last, nano, duration, overhead int64
		into := make([]any, 0, len(dims)+len(counterColumns))
		for _, dim := range dims {
			into = append(into, map[string]any{
				"day": &date, "tenant": &s.Tenant, "key_id": &s.Key, "policy": &s.Policy, "model": &s.Model, "run": &s.Run, "first_ns": &first, "last_ns": &last,
			}[dim])
		}
		into = append(into, &s.Steps, &s.Failed, &s.Escalated, &s.Calls, &s.Passed, &s.Rejected, &s.Inconclusive, &s.InputTokens, &s.OutputTokens, &nano, &duration, &overhead)
		err = rows.Scan(into...)
		if slices.Contains(dims, "day") {
			s.Day = time.Unix(date*86400, 0).UTC().Format(time.DateOnly)
		}
		if slices.Contains(dims, "run") {
			s.First, s.Last = time.Unix(0, first).UTC(), time.Unix(0, last).UTC()
		}
		s.CostUSD, s.Duration, s.Overhead = float64(nano)/store.NanoUSD, time.Duration(duration), time.Duration(overhead)
		return s, err
	})
	if err == nil && found == nil {
		found = []store.Sum{} // a list in JSON, too
	}
	return found, err
}

func noRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }
