package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk/eval"
)

// swebenchSets are 5 and 10 models spread over the costs, and all.
func swebenchSets(d *Data) []modelSet {
	var out []modelSet
	for _, n := range []int{5, 10} {
		if n < len(d.Table.Models) {
			out = append(out, modelSet{fmt.Sprint(n), spread(d.Table, n)})
		}
	}
	return append(out, modelSet{fmt.Sprint(len(d.Table.Models)), d.Table.Models})
}

func (e *Env) verifiedData() *Data {
	if len(e.Own) > 0 {
		return e.Own[0]
	}
	return e.Verified
}

func swebenchPieces(e *Env) int { return len(swebenchSets(e.verifiedData())) }

func swebench(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("swebench", "SWE-bench: tests that decide")
	d, share := e.verifiedData(), e.share(0.5)
	p.printf("Every patch is judged by the tests; before a model has run, its chance is estimated from the repository (independent rows) "+
		"or from the repository and the difficulty that earlier failures reveal (index, cascade_route_dependent).\n\n"+
		"Data: %s. Mean of %d random splits, train share %.0f %%, %d paired resamples each.\n\n", d, e.splits(), 100*share, e.Bootstrap)
	var heads []string
	var cells []*cell
	for _, set := range swebenchSets(d) {
		e.startingf("swebench: %s models", set.name)
		t, err := d.Table.Select(set.models...)
		if err != nil {
			return nil, err
		}
		c, err := e.run(ctx, t, share, e.splits(), func(s *eval.Study) { s.Signals, s.Strategies = eval.SignalsVerdict, rows })
		if err != nil {
			return nil, fmt.Errorf("%s models: %w", set.name, err)
		}
		heads, cells = append(heads, set.name+" models"), append(cells, c)
	}
	p.section("AUC")
	p.table(aucTable("AUC %", heads, cells))
	p.section("Paired differences to cascade_route")
	p.table(gapTable("AUC points", heads, cells))
	all := cells[len(cells)-1]
	p.section("At the best single model, " + heads[len(heads)-1])
	p.printf("What it costs to resolve as many issues as the best single model of the test half, and how many are resolved for what that model costs. "+
		"The best of %d models on so few issues owes something to luck, and the curves are flat up there. The last two columns are therefore about the model that was best "+
		"on the train half, which is the one that somebody would have used.\n\n", len(all.comparisons[0].Models))
	p.table(all.atBest())
	p.section("Curves")
	f, err := all.comparisons[0].CurvesFigure("swebench", "SWE-bench Verified, first split")
	if err != nil {
		return nil, err
	}
	p.figure(f, "Cost-quality curves on SWE-bench Verified")
	return p, nil
}

// atBest compares the rows at the best single model's quality and at its cost.
func (c *cell) atBest() *eval.Table {
	t := &eval.Table{Header: []string{"strategy", "USD at its quality", "share of its cost", "reached in", "quality % at its cost", "points above it", "2-sigma", "USD at the picked model's quality", "share of its cost"}}
	for _, name := range c.names() {
		cost, n := c.over(name, func(r *eval.Row) float64 { return r.CostAtBest })
		quality, _ := c.over(name, func(r *eval.Row) float64 { return r.QualityAtBestCost })
		half, _ := c.over(name, func(r *eval.Row) float64 {
			return (r.QualityAtBestCostInterval.High - r.QualityAtBestCostInterval.Low) / 2
		})
		share, above := 0.0, 0.0
		for _, result := range c.comparisons {
			best := result.Frame.Models[result.Frame.Best]
			r := result.Row(name)
			above += (r.QualityAtBestCost - best.Quality) / float64(len(c.comparisons))
			if !math.IsNaN(r.CostAtBest) {
				share += r.CostAtBest / best.Cost / float64(n)
			}
		}
		line := []string{name, eval.Dollars(cost), "-", fmt.Sprintf("%d of %d", n, len(c.comparisons)), fmt.Sprintf("%.1f", 100*quality), fmt.Sprintf("%+.1f", 100*above), fmt.Sprintf("± %.1f", 100*half)}
		if n > 0 {
			line[2] = fmt.Sprintf("%.0f %%", 100*share)
		}
		picked, k := c.over(name, func(r *eval.Row) float64 { return r.CostAtPicked })
		pickedShare := 0.0
		for _, result := range c.comparisons {
			if r := result.Row(name); !math.IsNaN(r.CostAtPicked) {
				pickedShare += r.CostAtPicked / result.Frame.Models[result.Picked].Cost / float64(k)
			}
		}
		if k < len(c.comparisons) {
			line = append(line, fmt.Sprintf("%s (%d of %d)", eval.Dollars(picked), k, len(c.comparisons)), "-")
		} else {
			line = append(line, eval.Dollars(picked), fmt.Sprintf("%.0f %%", 100*pickedShare))
		}
		t.Cells = append(t.Cells, line)
	}
	return t
}
