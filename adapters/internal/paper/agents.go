package paper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
)

// agentRows are the rows of the page, plain methods first.
var agentRows = []string{
	eval.LinearInterpolation, eval.PickedSingle, cascade.NameRoute, eval.RouteDependent, eval.Pairs,
	cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex, eval.Oracle,
}

func (e *Env) agentData() []*Data {
	if len(e.Own) > 0 {
		return e.Own
	}
	return e.Agents
}

// agentSplits is over how many random halves the tables of agents are measured: 20
// unless Env.Splits says otherwise.
func (e *Env) agentSplits() int { return 4 * e.splits() }

func agentsPieces(e *Env) int { return len(e.agentData()) }

// agents measures strategies on runs of agents whose results a check judges.
func agents(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("agents", "Agents judged by tests")
	p.printf("Every model ran as an agent on every issue, and tests judged what it did: here a cascade knows of each answer whether it is right before it pays for another. "+
		"Everything is learnt on one half of the issues and measured on the other: means over %d random halves. "+
		"The rows above `threshold` are plain: coin tosses between models (chosen with hindsight), the model that was best on the train half, a router before the call on the group alone and on all that is known before the call, "+
		"and the upper envelope of all cascades of two models.\n\n", e.agentSplits())
	for _, d := range e.agentData() {
		e.startingf("agents: %s", d.Name)
		c, err := e.run(ctx, d.Table, e.share(0.5), e.agentSplits(), func(s *eval.Study) {
			s.Signals, s.Strategies, s.Bootstrap = eval.SignalsVerdict, agentRows, 0
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		p.section(d.Name)
		p.printf("Data: %s. Each half has %d issues.\n\n", d, c.comparisons[0].Queries)
		p.table(c.agentTable())
		p.printf("%s\n\n", c.tied())
	}
	p.section("How to read it")
	p.printf("AUC is the mean quality between the costs of the cheapest and of the dearest model. Intervals are two standard deviations over the halves: the halves share their issues, so this is what another half shows, not a standard error. " +
		"Differences are paired within each half. The last columns are medians over the halves: the lowest cost at which a row resolves as many issues as the best single model of the test half, as a share of what that model costs " +
		"(a row that never does counts as above 100 %%), and with the quarter and three-quarter quantiles.\n")
	return p, nil
}

// spreadOf is the mean and twice the standard deviation over the splits.
func spreadOf(values []float64) (mean, two float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		two += (v - mean) * (v - mean)
	}
	return mean, 2 * math.Sqrt(two/float64(max(len(values)-1, 1)))
}

// per is a value of a row on each split.
func (c *cell) per(name string, value func(*eval.Comparison, *eval.Row) float64) []float64 {
	var out []float64
	for _, result := range c.comparisons {
		out = append(out, value(result, result.Row(name)))
	}
	return out
}

func areaOf(_ *eval.Comparison, r *eval.Row) float64 { return r.AUC }

// shareAtBest is the cost at the best single model's quality as a share of that
// model's, infinite where the quality is not reached.
func shareAtBest(c *eval.Comparison, r *eval.Row) float64 {
	if math.IsNaN(r.CostAtBest) {
		return math.Inf(1)
	}
	return r.CostAtBest / c.Frame.Models[c.Frame.Best].Cost
}

// ahead are the differences in AUC to index.
func (c *cell) ahead(name string) []float64 {
	return c.per(name, func(result *eval.Comparison, r *eval.Row) float64 {
		return r.AUC - result.Row(cascade.NameIndex).AUC
	})
}

func (c *cell) agentTable() *eval.Table {
	t := &eval.Table{Header: []string{"strategy", "AUC %", "to index, points", "above index in", "cost at the best model's quality, median", "quartiles"}}
	for _, name := range c.names() {
		mean, two := spreadOf(c.per(name, areaOf))
		line := []string{name, fmt.Sprintf("%.1f ± %.1f", 100*mean, 100*two), "-", "-"}
		if name != cascade.NameIndex {
			gaps := c.ahead(name)
			gap, of := spreadOf(gaps)
			above := 0
			for _, g := range gaps {
				if g > 0 {
					above++
				}
			}
			line[2], line[3] = fmt.Sprintf("%+.2f ± %.2f", 100*gap, 100*of), fmt.Sprintf("%d of %d", above, len(gaps))
		}
		shares := c.per(name, shareAtBest)
		slices.Sort(shares)
		quantile := func(p float64) string { return sharePercent(shares[int(p*float64(len(shares)-1)+0.5)]) }
		t.Cells = append(t.Cells, append(line, quantile(0.5), quantile(0.25)+" to "+quantile(0.75)))
	}
	return t
}

func sharePercent(share float64) string {
	if math.IsInf(share, 1) {
		return "not reached"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// tied says which plain methods are level with index or above it.
func (c *cell) tied() string {
	var level []string
	for _, name := range c.names() {
		if name == cascade.NameIndex || name == eval.Oracle {
			continue
		}
		if gap, two := spreadOf(c.ahead(name)); gap+two >= 0 {
			level = append(level, fmt.Sprintf("`%s` (%+.2f ± %.2f)", name, 100*gap, 100*two))
		}
	}
	if len(level) == 0 {
		return "`index` is above every other row by more than two standard deviations."
	}
	return "Not told apart from `index` by two standard deviations: " + strings.Join(level, ", ") + "."
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
