package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/sdk"
)

// sumKey identifies a row of sums by day, or by run.
type sumKey struct {
	table                      string
	day                        int64
	tenant, key, policy, model string // model holds the run in table "runs"
}

// counters has the order of counterColumns.
type counters [12]int64

var counterColumns = []string{
	"steps", "failed", "escalated", "calls", "passed", "rejected", "inconclusive", "input_tokens", "output_tokens", "cost_nanousd", "duration_ns", "overhead_ns",
}

// Indexes into counters.
const callCounter, costCounter = 3, 9

type sums map[sumKey]*sumRow

type sumRow struct {
	counters
	first, last int64
}

func (s sums) add(r *row) {
	own := counters{
		bit(sdk.IsStep(r.Mode)), bit(r.Chosen == "" && sdk.IsStep(r.Mode)), r.escalated, 0,
		bit(r.Outcome == sdk.Passed.String()), bit(r.Outcome == sdk.Failed.String()), bit(r.Outcome == sdk.Inconclusive.String()),
		input(&r.counted.Usage), output(&r.counted.Usage), nano(r.counted.CostUSD), int64(r.Duration), int64(r.Overhead),
	}
	at := r.Start.UnixNano()
	date := at / int64(day)
	if at%int64(day) < 0 {
		date--
	}
	rest := own[costCounter]
	for _, c := range r.calls {
		rest -= c.nano
		own[callCounter] += c.calls
		part := counters{bit(c.model == r.Chosen), c.failed, 0, c.calls, c.passed, c.rejected, c.inconclusive, c.in, c.out, c.nano, c.duration, 0}
		s.put(sumKey{"sums", date, "", "", r.Policy, c.model}, part, at)
		s.put(sumKey{"tenant_sums", date, r.Tenant, r.Key, r.Policy, c.model}, part, at)
	}
	if rest > int64(r.Calls) { // more than rounding errors
		s.put(sumKey{"sums", date, "", "", r.Policy, say.Verdicts}, counters{costCounter: rest}, at)
		s.put(sumKey{"tenant_sums", date, r.Tenant, r.Key, r.Policy, say.Verdicts}, counters{costCounter: rest}, at)
	}
	s.put(sumKey{"sums", date, "", "", r.Policy, ""}, own, at)
	s.put(sumKey{"tenant_sums", date, r.Tenant, r.Key, r.Policy, ""}, own, at)
	if r.Run != "" {
		s.put(sumKey{"runs", 0, r.Tenant, "", "", r.Run}, own, at)
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (s sums) put(k sumKey, c counters, at int64) {
	have := s[k]
	if have == nil {
		have = &sumRow{first: at, last: at}
		s[k] = have
	}
	for i := range c {
		have.counters[i] += c[i]
	}
	have.first, have.last = min(have.first, at), max(have.last, at)
}

// sumTables lists the key columns of each table of sums.
var sumTables = map[string][]string{
	"sums":        {"day", "policy", "model"},
	"tenant_sums": {"day", "tenant", "key_id", "policy", "model"},
	"runs":        {"tenant", "run"},
}

// writeSums adds the sums to the tables, in a fixed order, which avoids deadlocks.
func (d *DB) writeSums(ctx context.Context, tx Tx, s sums) error {
	keys := slices.SortedFunc(maps.Keys(s), func(a, b sumKey) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.day, b.day), cmp.Compare(a.tenant, b.tenant),
			cmp.Compare(a.key, b.key), cmp.Compare(a.policy, b.policy), cmp.Compare(a.model, b.model))
	})
	for len(keys) > 0 {
		n := 0
		for n < len(keys) && keys[n].table == keys[0].table {
			n++
		}
		if err := d.writeTable(ctx, tx, s, keys[:n]); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

func (d *DB) writeTable(ctx context.Context, tx Tx, s sums, keys []sumKey) error {
	table := keys[0].table
	identity := sumTables[table]
	columns := append(slices.Clone(identity), counterColumns...)
	if table == "runs" {
		columns = append(columns, "first_ns", "last_ns")
	}
	written := make(rows, len(keys))
	for i, k := range keys {
		values := map[string]any{"day": k.day, "tenant": k.tenant, "key_id": k.key, "policy": k.policy, "model": k.model, "run": k.model}
		for _, column := range identity {
			written[i] = append(written[i], values[column])
		}
		have := s[k]
		for _, c := range have.counters {
			written[i] = append(written[i], c)
		}
		if table == "runs" {
			written[i] = append(written[i], have.first, have.last)
		}
	}
	var set []string
	for _, c := range counterColumns {
		set = append(set, fmt.Sprintf("%[1]s = %[2]s.%[1]s + excluded.%[1]s", c, table))
	}
	if table == "runs" {
		set = append(set, "first_ns = CASE WHEN excluded.first_ns < runs.first_ns THEN excluded.first_ns ELSE runs.first_ns END",
			"last_ns = CASE WHEN excluded.last_ns > runs.last_ns THEN excluded.last_ns ELSE runs.last_ns END")
	}
	source, arg, err := d.source(written)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO @"+table+" ("+strings.Join(columns, ", ")+") "+source+
		" ON CONFLICT ("+strings.Join(identity, ", ")+") DO UPDATE SET "+strings.Join(set, ", "), arg)
	return err
}
