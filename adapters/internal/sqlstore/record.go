package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// promptBytes is how much of a prompt lists show.
const promptBytes = 400

// nameBytes bounds each indexed text; an index has several columns.
const nameBytes = 400

// day is the period of the sums.
const day = 24 * time.Hour

// Record implements [store.Traces].
func (d *DB) Record(ctx context.Context, entries []store.Entry) error {
	var rows []*row
	out := new(store.LeftOutError)
	seen := map[string]bool{}
	for _, e := range entries {
		r, err := rowOf(e)
		if err != nil {
			out.Reasons = append(out.Reasons, fmt.Errorf("trace %q: %w", e.Trace.ID, err))
			continue
		}
		if !seen[r.ID] {
			seen[r.ID] = true
			rows = append(rows, r)
		}
	}
	if err := d.record(ctx, rows, out); err != nil {
		return fmt.Errorf("recording %d traces: %w", len(rows), d.fault(err))
	}
	if len(out.Reasons) > 0 {
		return out
	}
	return nil
}

// record writes rows. It finds those that the engine refuses by bisection, and adds them to out.
func (d *DB) record(ctx context.Context, rows []*row, out *store.LeftOutError) error {
	if len(rows) == 0 {
		return nil
	}
	err := d.write(ctx, func(tx Tx) error {
		if d.Ordered != "" {
			if _, err := tx.ExecContext(ctx, d.Ordered); err != nil {
				return err
			}
		}
		return d.insertRows(ctx, tx, rows)
	})
	if err == nil || d.Refused == nil || !d.Refused(err) {
		return err
	}
	if len(rows) == 1 {
		out.Reasons = append(out.Reasons, fmt.Errorf("trace %q: %w", rows[0].ID, err))
		return nil
	}
	half := len(rows) / 2
	if err := d.record(ctx, rows[:half], out); err != nil {
		return err
	}
	return d.record(ctx, rows[half:], out)
}

func (d *DB) fault(err error) error {
	if d.Fault == nil || err == nil {
		return err
	}
	return d.Fault(err)
}

func (d *DB) insertRows(ctx context.Context, tx Tx, list []*row) error {
	byID := make(map[string]*row, len(list))
	steps := make(rows, len(list))
	for i, r := range list {
		byID[r.ID], steps[i] = r, r.values()
	}
	source, arg, err := d.source(steps)
	if err != nil {
		return err
	}
	query := "INSERT INTO @steps (" + strings.Join(stepColumns, ", ") + ") " + source + " ON CONFLICT (id) DO NOTHING RETURNING seq, id"
	fresh, err := collect(ctx, tx, query, []any{arg}, func(found *sql.Rows) (*row, error) {
		var seq int64
		var id string
		err := found.Scan(&seq, &id)
		if err == nil {
			byID[id].Seq = seq
		}
		return byID[id], err
	})
	if err != nil || len(fresh) == 0 {
		return err
	}
	sums := sums{}
	for _, r := range fresh {
		sums.add(r)
	}
	if err := d.insertBodies(ctx, tx, fresh); err != nil {
		return err
	}
	return d.writeSums(ctx, tx, sums)
}

// insertBodies writes the bodies of rows. SQLite, which is in the same process, takes one after the other faster than
// all of them in one JSON argument.
func (d *DB) insertBodies(ctx context.Context, tx Tx, list []*row) error {
	const query = "INSERT INTO @bodies (seq, body) "
	bodies := make(rows, len(list))
	for i, r := range list {
		bodies[i] = []any{r.Seq, r.body}
	}
	if d.Blind {
		for _, b := range bodies {
			if _, err := tx.ExecContext(ctx, query+"VALUES ($1, $2)", b...); err != nil {
				return err
			}
		}
		return nil
	}
	source, arg, err := d.source(bodies)
	if err == nil {
		_, err = tx.ExecContext(ctx, query+source, arg)
	}
	return err
}

// row is a step in the form in which it is written.
type row struct {
	store.Step
	body  string
	nano  int64
	calls []callSum
	// counted is the part of the trace that sums count.
	counted   *sdk.Trace
	escalated int64
}

// callSum sums up one model's calls in a step.
type callSum struct {
	model                          string
	calls, failed                  int64
	passed, rejected, inconclusive int64
	in, out, nano, duration        int64
}

func (s *callSum) addVerdict(v *sdk.Verdict) {
	switch {
	case v == nil:
	case v.Outcome == sdk.Passed:
		s.passed++
	case v.Outcome == sdk.Failed:
		s.rejected++
	default:
		s.inconclusive++
	}
}

var stepColumns = []string{
	"id", "start_ns", "policy", "mode", "strategy", "tenant", "key_id", "run", "session", "query_id", "asked", "chosen", "stop",
	"outcome", "error", "prompt", "calls", "input_tokens", "output_tokens", "cost_nanousd", "duration_ns", "overhead_ns", "escalated",
}

func (r *row) values() []any {
	return []any{
		r.ID, r.Start.UnixNano(), r.Policy, r.Mode, r.Strategy, r.Tenant, r.Key, r.Run, r.Session, r.Query, modelList(r.Asked), r.Chosen, string(r.Stop),
		r.Outcome, r.Error, r.Prompt, int64(r.Calls), int64(r.InputTokens), int64(r.OutputTokens), r.nano, int64(r.Duration), int64(r.Overhead), r.escalated,
	}
}

// modelList joins the names of models, each enclosed in newlines.
func modelList(models []string) string {
	if len(models) == 0 {
		return ""
	}
	return "\n" + strings.Join(models, "\n") + "\n"
}

// StepOf returns the list entry of a trace, without Seq and Key, which are known only where it is recorded.
func StepOf(t *sdk.Trace) store.Step {
	s := store.Step{
		ID: text(t.ID), Start: t.Start, Policy: name(t.Policy), Mode: name(t.Mode), Strategy: name(t.Strategy), Tenant: name(t.Tenant),
		Run: name(t.Run), Session: name(t.Session), Query: name(t.QueryID), Chosen: name(t.Chosen), Stop: sdk.StopReason(name(string(t.Stop))),
		Error: text(t.Error), Prompt: promptStart(text(t.Prompt)), Calls: middleware.CallsSent(t), CostUSD: t.CostUSD,
		Duration: time.Duration(count(t.Duration)), Overhead: time.Duration(count(t.Overhead)),
		InputTokens: int(input(&t.Usage)), OutputTokens: int(output(&t.Usage)),
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		if !middleware.IsSent(c) {
			continue
		}
		model := name(c.Model)
		if !slices.Contains(s.Asked, model) {
			s.Asked = append(s.Asked, model)
		}
		if model == s.Chosen && c.Error == "" && c.Verdict != nil {
			s.Outcome = c.Verdict.Outcome.String()
		}
	}
	return s
}

// rowOf returns the row of a trace, or an error if no engine could write it.
func rowOf(e store.Entry) (*row, error) {
	t, key, body := e.Trace, e.Key, e.JSON
	if t.ID == "" {
		return nil, errors.New("it has no id")
	}
	if body == nil {
		var err error
		if body, err = store.Encode(t); err != nil {
			return nil, err
		}
	}
	r := &row{body: strings.ToValidUTF8(string(body), "\uFFFD"), nano: nano(t.CostUSD), Step: StepOf(t), counted: t.ForSums(), escalated: bit(middleware.HasEscalated(t))}
	r.Key = name(key)
	for i := range t.Calls {
		c := &r.counted.Calls[i]
		if !middleware.IsSent(c) {
			continue
		}
		model := name(c.Model)
		at := slices.IndexFunc(r.calls, func(s callSum) bool { return s.model == model })
		if at < 0 {
			at = len(r.calls)
			r.calls = append(r.calls, callSum{model: model})
		}
		s := &r.calls[at]
		s.calls += bit(r.counted == t) // an attempt is not counted as a call
		if c.Failed() {
			s.failed++
		}
		s.addVerdict(c.Verdict)
		s.in += input(&c.Usage)
		s.out += output(&c.Usage)
		s.nano += nano(c.CostUSD)
		s.duration += count(c.Latency)
	}
	return r, nil
}

// maxNumber bounds each number of a trace, so that the sums of thousands of absurd ones still fit an int64: a
// provider can report 2^62 tokens, and a day whose sums overflowed could not be added to any more. In nanoseconds it
// is eleven days, in billionths of a dollar a million dollars.
const maxNumber = 1e15

// count clamps a number to 0 to maxNumber.
func count[T ~int | ~int64](n T) int64 { return min(max(int64(n), 0), maxNumber) }

func input(u *sdk.Usage) int64 {
	return count(u.InputTokens) + count(u.CachedInputTokens) + count(u.CacheWriteTokens)
}

func output(u *sdk.Usage) int64 { return count(u.OutputTokens) + count(u.ReasoningTokens) }

// nano converts US dollars to billionths, rounded to nearest: sums are for display, not for caps.
func nano(usd float64) int64 {
	if !(usd > 0) {
		return 0
	}
	return int64(math.Round(min(usd*store.NanoUSD, maxNumber)))
}

// text removes what PostgreSQL's text type cannot hold: NUL bytes and invalid UTF-8.
func text(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD") }

// name shortens an indexed text, since PostgreSQL rejects long ones. A digest replaces the rest.
func name(s string) string {
	s = text(s)
	if len(s) <= nameBytes {
		return s
	}
	return strings.ToValidUTF8(s[:nameBytes-2*sha256.Size-1], "") + "~" + fmt.Sprintf("%x", sha256.Sum256([]byte(s)))
}

func promptStart(s string) string {
	if len(s) <= promptBytes {
		return s
	}
	return strings.ToValidUTF8(s[:promptBytes], "")
}
