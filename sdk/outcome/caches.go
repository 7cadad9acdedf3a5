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
	// on has the savings on queries with tools and without.
	on map[bool]*cacheSavings
}

// cacheSavings are by model the mean saving on the first call in a run, which is due to what runs have in common (first),
// that on later calls, per token read before (rate), and the largest per billed token of the prompt (most). firsts and
// tokens are the numbers of first calls and of tokens read before.
type cacheSavings struct{ first, rate, most, firsts, tokens []float64 }

func newCacheSavings(models int) *cacheSavings {
	var s cacheSavings
	for _, list := range []*[]float64{&s.first, &s.rate, &s.most, &s.firsts, &s.tokens} {
		*list = make([]float64, models)
	}
	return &s
}

// complete takes the sums of other queries for models without calls on these.
func (s *cacheSavings) complete(other *cacheSavings) {
	for m := range s.first {
		if s.firsts[m]+s.tokens[m] == 0 {
			s.first[m], s.rate[m], s.most[m], s.firsts[m], s.tokens[m] = other.first[m], other.rate[m], other.most[m], other.firsts[m], other.tokens[m]
		}
	}
}

// finish turns sums into means.
func (s *cacheSavings) finish() {
	for m := range s.first {
		s.first[m] /= max(s.firsts[m], 1)
		s.rate[m] /= max(s.tokens[m], 1)
	}
}

func (s *cacheSavings) add(m int, usd, prompt, read float64) {
	if prompt > 0 {
		s.most[m] = max(s.most[m], usd/prompt)
	}
	if read > 0 {
		s.rate[m], s.tokens[m] = s.rate[m]+usd, s.tokens[m]+read
	} else {
		s.first[m], s.firsts[m] = s.first[m]+usd, s.firsts[m]+1
	}
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
	return q, m, areKnown && m >= 0 && max(c.on[true].first[m], c.on[true].rate[m], c.on[false].first[m], c.on[false].rate[m]) > 0
}

// Caches returns what prompt caches saved, or nil if the table does not know it or has no runs.
func (t *Table) Caches() *Caches {
	if t.CachedUSD == nil || t.Runs == nil {
		return nil
	}
	c := &Caches{table: t, queries: map[string]int{}, on: map[bool]*cacheSavings{true: newCacheSavings(len(t.Models)), false: newCacheSavings(len(t.Models))}}
	c.read = c.readBefore(func(q, m int) bool { return !math.IsNaN(At(t.InputTokens, q, m)) })
	for q, row := range t.CachedUSD {
		c.queries[t.Queries[q]] = q
		for m, usd := range row {
			if t.Runs[q] != "" && !math.IsNaN(usd) {
				c.on[t.HasTools(q)].add(m, usd, At(t.InputTokens, q, m), c.read[q][m])
			}
		}
	}
	c.on[true].complete(c.on[false])
	c.on[false].complete(c.on[true])
	c.on[true].finish()
	c.on[false].finish()
	return c
}

// HasTools reports whether a query is known to have offered tools.
func (t *Table) HasTools(query int) bool { return query < len(t.Tools) && t.Tools[query] != "" }

// readBefore returns, by query and model, the length of the longest prompt of the run, up to that of the query, that the
// model read before. Further samples of a model share its cache.
func (c *Caches) readBefore(wasAsked func(q, m int) bool) [][]float64 {
	t := c.table
	type prefix struct {
		run      string
		hasTools bool // they come before the conversation
	}
	prompts := map[prefix][][]float64{}
	families := sdk.Samples(t.Models)
	before := make([][]float64, len(t.Queries))
	for q := range before {
		of := prefix{t.Runs[q], t.HasTools(q)}
		run, tokens := prompts[of], float64(t.PromptTokens(q))
		if run == nil || t.Runs[q] == "" {
			run = make([][]float64, len(t.Models))
			prompts[of] = run
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

// FirstUSD returns what a model's cache saves on the first call with tools in a run, because of what runs have in common.
func (c *Caches) FirstUSD(model int) float64 { return c.on[true].first[model] }

// DearerUSD returns how much more a call costs if the longest prompt of the run that the model read before has that many
// tokens, 0 for none: than recorded or, if the model was not asked, than without a cache.
func (c *Caches) DearerUSD(query, model int, read float64) float64 {
	saved, recorded := At(c.table.CachedUSD, query, model), c.read[query][model]
	known := c.on[c.table.HasTools(query)]
	isKnown := !math.IsNaN(saved)
	if c.table.Runs[query] == "" || !isKnown && !math.IsNaN(At(c.table.CostUSD, query, model)) {
		return 0 // not known of this call
	}
	most := math.Inf(1)
	if prompt := At(c.table.InputTokens, query, model); prompt > 0 {
		most = known.most[model] * prompt
	}
	anew := min(most, max(known.first[model], known.rate[model]*read))
	switch {
	case !isKnown:
		return -anew
	case recorded > 0:
		return saved - min(most, max(saved*read/recorded, min(saved, known.first[model])))
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
