package paper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/adapters/internal/figure"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// judgedSizes are the numbers of models on SWE-bench, besides all.
var judgedSizes = []int{5, 10}

func swebench(ctx context.Context, e *Env, p *Page) error {
	d, share := verified.data(e)[0], e.share(0.5)
	p.printf("Every patch is judged by the tests; before a model has run, its chance is estimated from the repository (independent rows) "+
		"or from the repository and the difficulty that earlier failures reveal (index, cascade_route_dependent).\n\n"+
		"Data: %s. Mean of %d random splits, train share %.0f %%, %d paired resamples each.\n\n", d, e.splits(), 100*share, e.Bootstrap)
	var list []column
	for _, set := range sets(d.Table, judgedSizes...) {
		list = append(list, column{set.name + " models", d.Table, set.models, eval.Study{Signals: eval.SignalsVerdict, Strategies: rows}})
	}
	g, err := e.columns(ctx, p.Name, share, e.splits(), list)
	if err != nil {
		return err
	}
	p.section("AUC")
	p.table(g.aucs())
	p.section("Paired differences to cascade_route")
	p.table(g.gaps("AUC points"))
	last := len(g.cells) - 1
	all := g.cells[last]
	p.section("At the best single model, " + g.heads[last])
	p.printf("What it costs to resolve as many issues as the best single model of the test half, and how many are resolved for what that model costs. "+
		"The best of %d models on so few issues owes something to luck, and the curves are flat up there. The last two columns are therefore about the model that was best "+
		"on the train half, which is the one that somebody would have used.\n\n", len(all.comparisons[0].Models))
	p.table(all.atBest())
	p.section("Curves")
	f, err := figure.Curves(all.comparisons[0], "swebench", "SWE-bench Verified, first split")
	if err != nil {
		return err
	}
	p.figure(f, "Cost-quality curves on SWE-bench Verified")
	if len(e.Own) > 0 {
		return nil
	}
	return e.submissions(ctx, p)
}

func (e *Env) submissions(ctx context.Context, p *Page) error {
	d, err := e.open(ctx, "swebench_verified_2024_submissions.csv", outcome.Options{Verified: true})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var ten []string
	for m, name := range d.Table.Models {
		if d.Table.Signals["in_paper"][0][m] == 1 {
			ten = append(ten, name)
		}
	}
	t, err := d.Table.Select(ten...)
	if err != nil {
		return err
	}
	t.Signals, t.CostUSD = nil, nil
	for range t.Queries {
		t.CostUSD = append(t.CostUSD, slices.Repeat([]float64{1}, len(ten)))
	}
	e.startingf("swebench: %d submissions", len(ten))
	results, err := overSplits(ctx, 4*e.splits(), func(ctx context.Context, i int) ([]eval.Point, error) {
		return attempts(ctx, t, e.Seed+uint64(i))
	})
	if err != nil {
		return err
	}
	p.section("The paper's ten submissions, by attempts")
	p.printf("Data: %s. The paper's table 2 is of ten submissions of 2024; what they cost it took from trajectories that cannot be had, so that here every attempt costs the same. "+
		"Tests judge every attempt; resolved issues in per cent, and the attempts used, means over %d random halves.\n\n", d.of(t, ""), len(results))
	out := &eval.Table{Header: []string{"attempts at most"}}
	for _, name := range attemptOrders {
		out.Header = append(out.Header, name, "used")
	}
	for k := range mostAttempts {
		line := []string{fmt.Sprint(k + 1)}
		for way := range attemptOrders {
			var quality, used []float64
			for _, points := range results {
				point := points[way*mostAttempts+k]
				quality, used = append(quality, 100*point.Quality), append(used, point.Cost)
			}
			line = append(line, fmt.Sprintf("%.1f", stat.Mean(quality, nil)), fmt.Sprintf("%.2f", stat.Mean(used, nil)))
		}
		out.Cells = append(out.Cells, line)
	}
	p.table(out)
	return nil
}

const mostAttempts = 5

var attemptOrders = []string{"best on train first", "most of what is left first", "index"}

// attempts returns the results of several attempts in each order on one half.
func attempts(ctx context.Context, t *outcome.Table, seed uint64) ([]eval.Point, error) {
	train, test := t.Split(0.5, seed)
	fitted, err := estimate.Fit(train, estimate.Options{Quality: estimate.KindLatent, Seed: seed})
	if err != nil {
		return nil, err
	}
	beliefs, err := fitted.On(test)
	if err != nil {
		return nil, err
	}
	player := &eval.Player{Source: beliefs.Source()}
	for _, order := range [][]int{mostPasses(train, false), mostPasses(train, true), nil} {
		for k := range mostAttempts {
			name, params := cascade.NameIndex, cascade.Params{Lambdas: []float64{0.01}, MaxDepth: k + 1}
			if order != nil {
				name, params = cascade.NameThreshold, cascade.Params{Order: order, Thresholds: []float64{0.5}, MaxDepth: k + 1}
			}
			s, err := cascade.New(name, params)
			if err != nil {
				return nil, err
			}
			player.Lambdas, player.Strategies = append(player.Lambdas, 0), append(player.Strategies, s)
		}
	}
	return play(ctx, test, player)
}

// passesLeft returns the number of a model's passes on queries that are not done.
func passesLeft(t *outcome.Table, model int, done []bool) (passes float64) {
	for q, row := range t.Quality {
		if !done[q] {
			passes += row[model]
		}
	}
	return passes
}

// mostPasses orders models by the number of passes on all queries or, with left, on those that the models before them
// did not pass.
func mostPasses(t *outcome.Table, left bool) []int {
	var order []int
	done := make([]bool, len(t.Queries))
	for range t.Models {
		best, most := -1, -1.0
		for m := range t.Models {
			if passes := passesLeft(t, m, done); passes > most && !slices.Contains(order, m) {
				best, most = m, passes
			}
		}
		order = append(order, best)
		for q, row := range t.Quality {
			done[q] = done[q] || left && row[best] >= 0.5
		}
	}
	return order
}

// atBest compares the rows at the best single model's quality and at its cost.
func (c *cell) atBest() *eval.Table {
	t := &eval.Table{Header: []string{"strategy", "USD at its quality", "share of its cost", "reached in", "quality % at its cost", "points above it", "2-sigma", "USD at the picked model's quality", "share of its cost"}}
	best := func(c *eval.Comparison) eval.Point { return c.Frame.Models[c.Frame.Best] }
	for _, r := range c.comparisons[0].Rows {
		cost, n := c.mean(r.Name, func(_ *eval.Comparison, r *eval.Row) float64 { return r.CostAtBest })
		share, _ := c.mean(r.Name, func(c *eval.Comparison, r *eval.Row) float64 { return r.CostAtBest / best(c).Cost })
		quality, _ := c.mean(r.Name, func(_ *eval.Comparison, r *eval.Row) float64 { return r.QualityAtBestCost })
		half, _ := c.mean(r.Name, func(_ *eval.Comparison, r *eval.Row) float64 {
			return (r.QualityAtBestCostInterval.High - r.QualityAtBestCostInterval.Low) / 2
		})
		above, _ := c.mean(r.Name, func(c *eval.Comparison, r *eval.Row) float64 { return r.QualityAtBestCost - best(c).Quality })
		line := []string{r.Name, eval.Dollars(cost), "-", fmt.Sprintf("%d of %d", n, len(c.comparisons)), fmt.Sprintf("%.1f", 100*quality), fmt.Sprintf("%+.1f", 100*above), fmt.Sprintf("± %.1f", 100*half)}
		if n > 0 {
			line[2] = fmt.Sprintf("%.0f %%", 100*share)
		}
		picked, k := c.mean(r.Name, func(_ *eval.Comparison, r *eval.Row) float64 { return r.CostAtPicked })
		pickedShare, _ := c.mean(r.Name, func(c *eval.Comparison, r *eval.Row) float64 { return r.CostAtPicked / c.Frame.Models[c.Picked].Cost })
		if k < len(c.comparisons) {
			line = append(line, fmt.Sprintf("%s (%d of %d)", eval.Dollars(picked), k, len(c.comparisons)), "-")
		} else {
			line = append(line, eval.Dollars(picked), fmt.Sprintf("%.0f %%", 100*pickedShare))
		}
		t.Cells = append(t.Cells, line)
	}
	return t
}
