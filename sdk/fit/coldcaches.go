package fit

import (
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// coldCost is the mean cost of a model's calls whose prompts were cached less than in the fit. A model that is asked in
// every step, as in the mode shadow, finds the steps before in its cache; one that others answered for must read them first.
type coldCost struct {
	// Of names the cost as a [Drift] does.
	Of       string  `json:"of"`
	Expected float64 `json:"expected"`
	Observed float64 `json:"observed"`
	// Warm is what these calls would have cost had the model answered the steps before them too.
	Warm float64 `json:"warm"`
}

// stepsBefore returns the step before each step of a run.
func stepsBefore(traces []*sdk.Trace) map[*sdk.Trace]*sdk.Trace {
	before, last := map[*sdk.Trace]*sdk.Trace{}, map[[2]string]*sdk.Trace{}
	for _, t := range traces {
		if run := [2]string{t.Tenant, t.Run}; t.Run != "" && sdk.HasChoice(t.Mode) && t.Mode != "shadow_alternative" {
			before[t], last[run] = last[run], t
		}
	}
	return before
}

// coldUSD returns how much less a call would have cost had its model answered the step before: it would have found that
// step's prompt in its cache. Models without a cache read none in any step, and have none of it cached.
func coldUSD(t *sdk.Trace, c *sdk.Call, before *sdk.Trace) float64 {
	belief := t.Belief(c.Model)
	answered := func(b sdk.Call) bool { return b.Model == c.Model && b.Error == "" }
	if before == nil || before.InputTokens > t.InputTokens || slices.ContainsFunc(before.Calls, answered) || belief == nil || belief.Price == nil || c.Usage.CachedInputTokens == 0 || t.InputTokens <= 0 {
		return 0
	}
	warm := c.Usage
	prompt := warm.InputTokens + warm.CachedInputTokens + warm.CacheWriteTokens
	missing := min(prompt, prompt*before.InputTokens/t.InputTokens) - warm.CachedInputTokens
	written := min(max(missing, 0), warm.CacheWriteTokens)
	read := min(max(missing, 0)-written, warm.InputTokens)
	warm.CacheWriteTokens, warm.InputTokens, warm.CachedInputTokens = warm.CacheWriteTokens-written, warm.InputTokens-read, warm.CachedInputTokens+written+read
	return belief.Price.CostUSD(c.Usage) - belief.Price.CostUSD(warm)
}
