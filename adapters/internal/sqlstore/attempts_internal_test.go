package sqlstore

import (
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// Sums count the cost and tokens of an attempt's calls once, although the attempt is listed too.
func TestSumsCountTheCallsOfAnAttemptOnce(t *testing.T) {
	all := sums{}
	for _, trace := range []*sdk.Trace{
		{ID: "1", Mode: sdk.ModeAttemptCall, Chosen: "small", CostUSD: 0.25, Usage: sdk.Usage{InputTokens: 7}, Calls: []sdk.Call{{Model: "small", CostUSD: 0.25, Usage: sdk.Usage{InputTokens: 7}}}},
		{ID: "2", Mode: sdk.ModeAttempt, Chosen: "small", CostUSD: 0.75, Usage: sdk.Usage{InputTokens: 7}, Calls: []sdk.Call{{Model: "small", CostUSD: 0.25, Usage: sdk.Usage{InputTokens: 7}, Verdict: &sdk.Verdict{Outcome: sdk.Passed, CostUSD: 0.5}}}},
	} {
		r, err := rowOf(store.Entry{Trace: trace})
		if err != nil {
			t.Fatal(err)
		}
		if r.nano != nano(trace.CostUSD) {
			t.Errorf("%s is listed with %d", trace.ID, r.nano)
		}
		all.add(r)
	}
	for model, want := range map[string]int64{"": nano(0.75), "small": nano(0.25), say.Verdicts: nano(0.5)} {
		found := false
		for key, row := range all {
			if key.table == "sums" && key.model == model {
				found = true
				if row.counters[costCounter] != want || model != say.Verdicts && (row.counters[callCounter] != 1 || row.counters[7] != 7) {
					t.Errorf("%q: %v, want %d and one call of 7 tokens", model, row.counters, want)
				}
			}
		}
		if !found {
			t.Errorf("no sums of %q", model)
		}
	}
}
