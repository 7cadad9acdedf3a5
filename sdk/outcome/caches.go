package outcome

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// Caches says what prompt caches saved on recorded calls, and what they would save on the same calls if other models had
// answered the steps before. A model reads from its cache what it last read of the run, so one that is asked in every
// step, as the baseline of a shadow, has little to read anew; one that others answered for must first read what was said
// since.
type Caches struct {
	table   *Table
	queries map[string]int
	// read is the length of the longest prompt of the run, up to that of the query, that the model read before, in tokens
	// as the router estimates them; 0 if it had read none.
	read [][]float64
	// first is by model the mean saving on the first call in a run, which is due to what runs have in common, rate that on
	// later calls, per token read before, and most the largest per billed token of the prompt.
	first, rate, most []float64
}

// CachesOf returns what prompt caches saved on the calls of recorded steps, or nil if nothing is known of it.
func CachesOf(traces []*sdk.Trace) *Caches {
	b := newBuilder()
	for _, t := range traces {
		b.addSteps(t) // a step without an id is left out
	}
	if !b.anyCached {
		return nil
	}
	return b.columns().Caches()
}

// Find returns the indexes of a query and a model by their names, if something is known of that model's cache.
func (c *Caches) Find(query, model string) (q, m int, areKnown bool) {
	q, areKnown = c.queries[query]
	m = c.table.Index(model)
	return q, m, areKnown && m >= 0 && max(c.first[m], c.rate[m]) > 0
}

// Caches returns what prompt caches saved, or nil if the table does not know it or has no runs.
func (t *Table) Caches() *Caches {
	if t.CachedUSD == nil || t.Runs == nil {
		return nil
	}
	n := len(t.Models)
	c := &Caches{table: t, queries: map[string]int{}, first: make([]float64, n), rate: make([]float64, n), most: make([]float64, n)}
	c.read = c.readBefore(func(q, m int) bool { return !math.IsNaN(At(t.InputTokens, q, m)) })
	firsts, tokens := make([]float64, n), make([]float64, n)
	for q, row := range t.CachedUSD {
		c.queries[t.Queries[q]] = q
		for m, usd := range row {
			if t.Runs[q] == "" || math.IsNaN(usd) {
				continue
			}
			if prompt := At(t.InputTokens, q, m); prompt > 0 {
				c.most[m] = max(c.most[m], usd/prompt)
			}
			if read := c.read[q][m]; read > 0 {
				c.rate[m], tokens[m] = c.rate[m]+usd, tokens[m]+read
			} else {
				c.first[m], firsts[m] = c.first[m]+usd, firsts[m]+1
			}
		}
	}
	for m := range n {
		c.first[m] /= max(firsts[m], 1)
		c.rate[m] /= max(tokens[m], 1)
	}
	return c
}

// readBefore returns, by query and model, the length of the longest prompt of the run, up to that of the query, that the
// model read before. Further samples of a model share its cache.
func (c *Caches) readBefore(wasAsked func(q, m int) bool) [][]float64 {
	t := c.table
	prompts := map[string][][]float64{}
	families := sdk.Samples(t.Models)
	before := make([][]float64, len(t.Queries))
	for q := range before {
		run, tokens := prompts[t.Runs[q]], float64(t.PromptTokens(q))
		if run == nil || t.Runs[q] == "" {
			run = make([][]float64, len(t.Models))
			prompts[t.Runs[q]] = run
		}
		before[q] = make([]float64, len(t.Models))
		for m := range before[q] {
			before[q][m] = LongestPrompt(run[families[m]], tokens)
		}
		for m := range before[q] {
			if wasAsked(q, m) {
				run[families[m]] = append(run[families[m]], tokens)
			}
		}
	}
	return before
}

// LongestPrompt returns the longest of the prompts that is no longer than one of the given length, or 0 if there is none: a
// provider has at most that much of it cached.
func LongestPrompt(prompts []float64, tokens float64) (longest float64) {
	for _, read := range prompts {
		if read <= tokens {
			longest = max(longest, read)
		}
	}
	return longest
}

// FirstUSD returns what a model's cache saves on the first call in a run, because of what runs have in common.
func (c *Caches) FirstUSD(model int) float64 { return c.first[model] }

// DearerUSD returns how much more a call costs if the longest prompt of the run that the model read before has that many
// tokens, 0 for none: than recorded or, if the model was not asked, than without a cache.
func (c *Caches) DearerUSD(query, model int, read float64) float64 {
	saved, recorded := At(c.table.CachedUSD, query, model), c.read[query][model]
	isKnown := !math.IsNaN(saved)
	if c.table.Runs[query] == "" || !isKnown && !math.IsNaN(At(c.table.CostUSD, query, model)) {
		return 0 // not known of this call
	}
	most := math.Inf(1)
	if prompt := At(c.table.InputTokens, query, model); prompt > 0 {
		most = c.most[model] * prompt
	}
	anew := min(most, max(c.first[model], c.rate[model]*read))
	switch {
	case !isKnown:
		return -anew
	case recorded > 0:
		return saved - min(most, max(saved*read/recorded, min(saved, c.first[model])))
	case read > 0:
		return saved - max(saved, anew)
	}
	return 0
}

// TableIf returns the table with the costs of the recorded calls as if the given models had been asked on each query.
func (c *Caches) TableIf(areAsked func(query, model int) bool) *Table {
	t := *c.table
	t.CostUSD, t.CachedUSD = slices.Clone(t.CostUSD), slices.Clone(t.CachedUSD)
	for q, reads := range c.readBefore(areAsked) {
		t.CostUSD[q], t.CachedUSD[q] = slices.Clone(t.CostUSD[q]), slices.Clone(t.CachedUSD[q])
		for m, read := range reads {
			if dearer := c.DearerUSD(q, m, read); !math.IsNaN(t.CachedUSD[q][m]) {
				t.CostUSD[q][m], t.CachedUSD[q][m] = max(0, t.CostUSD[q][m]+dearer), t.CachedUSD[q][m]-dearer
			}
		}
	}
	return &t
}

// AlwaysUSD returns the mean cost of each model if it is asked on every query.
func (t *Table) AlwaysUSD() []float64 {
	if c := t.Caches(); c != nil {
		t = c.TableIf(func(int, int) bool { return true })
	}
	return t.MeanCosts()
}
