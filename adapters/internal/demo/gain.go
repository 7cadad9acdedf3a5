package demo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/figure"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Gain is the advantage of a strategy over the others, on tasks that it was not fitted to.
type Gain struct {
	Strategy string `json:"strategy"`
	// ShareAtBest is the cost of solving as many tasks as the best single model, as a share of that model's cost,
	// with an interval of two standard deviations; nil where the strategy never solves as many, or the interval is
	// unknown.
	ShareAtBest *float64 `json:"share_at_best,omitempty"`
	ShareLow    *float64 `json:"share_low,omitempty"`
	ShareHigh   *float64 `json:"share_high,omitempty"`
	// Mean is the mean share of solved tasks over all budgets from the cost of the cheapest model to that of the most
	// expensive one.
	Mean float64 `json:"mean"`
	// Over is Mean minus that of the threshold cascade, with an interval of two standard deviations from Low to High.
	Over     float64 `json:"over_threshold"`
	OverLow  float64 `json:"over_threshold_low"`
	OverHigh float64 `json:"over_threshold_high"`
}

// Mixed is the name of the gain of mixing single models at random.
const Mixed = "single models, mixed"

// resamples is the number of resamples of the tasks for intervals.
const resamples = 1000

func (r *Report) compare(ctx context.Context, singles *outcome.Table) error {
	var players []*eval.Player
	var samples []*eval.Sample
	for _, row := range r.Rows {
		if row.Single || len(row.Points) == 0 {
			continue
		}
		s := eval.NewSample(make([]float64, len(row.Points)), r.Tasks)
		for l, p := range row.Points {
			for q, t := range p.Traces {
				s.Cost[l][q], s.Quality[l][q], s.Steps[l][q] = t.CostUSD, quality(IsSolved(t)), float64(len(t.Calls))
			}
		}
		players, samples = append(players, &eval.Player{Name: row.Strategy}), append(samples, s)
	}
	c, err := eval.Measure(ctx, singles, players, samples, eval.Options{
		Bootstrap: resamples, Seed: 1, Reference: kinds[0].name, Baselines: []string{"linear_interpolation"},
	})
	if err != nil {
		return err
	}
	best := c.Frame.Models[c.Frame.Best].Cost
	for _, row := range c.Rows {
		g := Gain{Strategy: row.Name, Mean: row.AUC, Over: row.Difference.Value, OverLow: row.Difference.Low, OverHigh: row.Difference.High}
		if row.Name == "linear_interpolation" {
			g.Strategy = Mixed
		}
		g.ShareAtBest = share(row.CostAtBest, best)
		// Resamples that do not reach it have no cost to count.
		if row.Reached > 0.95 {
			g.ShareLow, g.ShareHigh = share(row.CostAtBestInterval.Low, best), share(row.CostAtBestInterval.High, best)
		}
		r.Gains = append(r.Gains, g)
	}
	return nil
}

func quality(solved bool) float64 {
	if solved {
		return 1
	}
	return 0
}

func share(cost, of float64) *float64 {
	if math.IsNaN(cost) || of == 0 {
		return nil
	}
	cost /= of
	return &cost
}

// Summary describes the gain over thresholds and over always asking the best model.
func (r *Report) Summary() string {
	singles := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return !row.Single })
	best := slices.MaxFunc(singles, func(a, b Row) int { return cmp.Compare(a.Points[0].Solved, b.Points[0].Solved) })
	var costs, means []string
	over := ""
	for _, g := range r.Gains {
		if g.Strategy != Mixed {
			costs = append(costs, g.Strategy+" "+g.costAtBest())
		}
		means = append(means, fmt.Sprintf("%s solves %.1f %%", g.Strategy, 100*g.Mean))
		if g.Strategy == kinds[len(kinds)-1].name {
			over = g.overThreshold(r.Tasks)
		}
	}
	return fmt.Sprintf("At the best operating point, chosen with hindsight, solving as many tasks as %s (%d of %d) costs %s of its cost.\nOver all budgets between the cheapest and the most expensive model, %s of the tasks on average%s.\n"+
		"In brackets: two standard deviations on either side, by bootstrap over the tasks.",
		best.Strategy, best.Points[0].Solved, r.Tasks, strings.Join(costs, ", "), strings.Join(means, ", "), over)
}

func (g *Gain) costAtBest() string {
	switch {
	case g.ShareAtBest == nil:
		return "more than any budget tried"
	case g.ShareLow == nil:
		return fmt.Sprintf("%.0f %%", 100**g.ShareAtBest)
	}
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100**g.ShareAtBest, 100*max(0, *g.ShareLow), 100**g.ShareHigh)
}

// overThreshold describes how far the strategy is above or below the threshold cascade.
func (g *Gain) overThreshold(tasks int) string {
	side, doubt := "above", ""
	if g.Over < 0 {
		side = "below"
	}
	if g.OverLow <= 0 && g.OverHigh >= 0 {
		doubt = fmt.Sprintf(", not significant with %d tasks", tasks)
	}
	return fmt.Sprintf(":\n%s is %s the threshold cascade by %.1f points (%.1f to %.1f)%s", g.Strategy, side, 100*math.Abs(g.Over), 100*g.OverLow, 100*g.OverHigh, doubt)
}

// Figure draws tasks solved over cost, one curve per strategy over its budgets, and the line between the single
// models.
func (r *Report) Figure() (*figure.Figure, error) {
	var labels []figure.Label
	var curves []figure.Series
	line := figure.Series{Name: "one model, mixed"}
	for _, row := range r.Rows {
		points := make([]eval.Point, len(row.Points))
		for i, p := range row.Points {
			points[i] = eval.Point{Cost: 100 * p.CostUSD / float64(max(r.Tasks, 1)), Quality: 100 * float64(p.Solved) / float64(max(r.Tasks, 1))}
		}
		if row.Single {
			line.X, line.Y = append(line.X, points[0].Cost), append(line.Y, points[0].Quality)
			labels = append(labels, figure.Label{Name: row.Strategy, X: points[0].Cost, Y: points[0].Quality})
			continue
		}
		curve := figure.Series{Name: row.Strategy}
		for _, p := range eval.NewCurve(points) {
			curve.X, curve.Y = append(curve.X, p.Cost), append(curve.Y, p.Quality)
		}
		curves = append(curves, curve)
	}
	return figure.Lines("cost-quality", figure.Axes{
		Title: "Repair tasks: what is solved, and what it costs", X: "cost per task (US cents)", Y: "tasks solved (%)", Percent: true,
	}, append([]figure.Series{line}, curves...), labels)
}
