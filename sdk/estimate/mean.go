package estimate

import (
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// mean is the mean quality by group, shrunk towards the mean over all groups if a
// group has few outcomes.
type mean struct {
	Overall []float64            `json:"overall"`
	Groups  map[string][]float64 `json:"groups,omitempty"`
	// Verified: a check judges the answers.
	Verified bool `json:"verified,omitempty"`
}

// groupWeight is the number of outcomes that the overall mean is worth in that of a group.
const groupWeight = 4

func (e *mean) fit(t *outcome.Table, _ Options) error {
	e.Overall, e.Groups, e.Verified = t.MeanQualities(), map[string][]float64{}, t.Judged()
	counts := map[string][]float64{}
	for q, row := range t.Quality {
		g := t.Group(q)
		if g == "" {
			continue
		}
		if e.Groups[g] == nil {
			e.Groups[g], counts[g] = make([]float64, len(row)), make([]float64, len(row))
		}
		for m, v := range row {
			if !math.IsNaN(v) {
				e.Groups[g][m] += v
				counts[g][m]++
			}
		}
	}
	for g, sums := range e.Groups {
		for m := range sums {
			sums[m] = (sums[m] + groupWeight*e.Overall[m]) / (counts[g][m] + groupWeight)
		}
	}
	return nil
}

func (e *mean) Kind() string      { return KindMean }
func (e *mean) Signals() []string { return nil }
func (e *mean) Cursor() qualityCursor {
	return &meanCursor{mean: e, now: make([]cascade.Belief, len(e.Overall))}
}

func (e *mean) check(models int) error {
	if len(e.Overall) != models {
		return fmt.Errorf("%d means for %d models", len(e.Overall), models)
	}
	for g, means := range e.Groups {
		if len(means) != models {
			return fmt.Errorf("group %q: %d means for %d models", g, len(means), models)
		}
	}
	return nil
}

type meanCursor struct {
	*mean
	now []cascade.Belief
}

func (c *meanCursor) Begin(q *queryFacts) {
	means, known := c.Groups[q.Group]
	if !known {
		means = c.Overall
	}
	for m, v := range means {
		c.now[m] = cascade.Belief{Mean: v, Bernoulli: c.Verified}
	}
}

func (c *meanCursor) Observe(model int, r *runFacts) {
	if !math.IsNaN(r.Verdict) {
		c.now[model] = cascade.Belief{Mean: r.Verdict}
	}
}

func (c *meanCursor) Beliefs(dst []cascade.Belief) { copy(dst, c.now) }

type costMean struct {
	CostUSD []float64 `json:"cost_usd"`
}

func (e *costMean) fit(t *outcome.Table) { e.CostUSD = meanCosts(t) }

func (e *costMean) Kind() string { return KindCostMean }
func (e *costMean) Cursor() costCursor {
	return &costMeanCursor{e, make([]float64, len(e.CostUSD))}
}

func (e *costMean) check(models int) error {
	if len(e.CostUSD) != models {
		return fmt.Errorf("%d costs for %d models", len(e.CostUSD), models)
	}
	return nil
}

type costMeanCursor struct {
	*costMean
	now []float64
}

func (c *costMeanCursor) Begin(*queryFacts) { copy(c.now, c.CostUSD) }

func (c *costMeanCursor) Observe(model int, r *runFacts) {
	if !math.IsNaN(r.CostUSD) {
		c.now[model] = r.CostUSD
	}
}

func (c *costMeanCursor) Costs(dst []float64) { copy(dst, c.now) }
