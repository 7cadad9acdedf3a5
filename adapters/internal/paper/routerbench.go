package paper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// rows are the paper's rows and ours, without the variants of the ablation.
var rows = []string{
	eval.LinearInterpolation, eval.BestSingle, eval.Random,
	cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute,
	eval.CascadeRouteScaled, eval.CascadeRouteDependent, cascade.NameIndex, eval.Oracle,
}

var levels = []string{"low", "medium", "high"}

// modelSet is a named selection of models.
type modelSet struct {
	name   string
	models []string
}

// sets returns the sets of 3, 5 and 11 models and all: by name where the table has
// the models of the project's sets, elsewhere spread evenly over the models sorted
// by cost, the dearest included.
func sets(t *outcome.Table) []modelSet {
	var out []modelSet
	known := outcome.Sets()
	for _, n := range []int{3, 5, 11} {
		if n > len(t.Models) {
			continue
		}
		name := fmt.Sprint(n)
		models := known[name]
		if slices.ContainsFunc(models, func(m string) bool { return t.Index(m) < 0 }) {
			models = spread(t, n)
		}
		out = append(out, modelSet{name, models})
	}
	if len(out) == 0 || len(t.Models) > len(out[len(out)-1].models) {
		out = append(out, modelSet{fmt.Sprint(len(t.Models)), t.Models})
	}
	return out
}

// spread returns n models at even distances in the order of mean cost.
func spread(t *outcome.Table, n int) []string {
	costs := t.MeanCosts()
	order := make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case costs[a] < costs[b]:
			return -1
		case costs[a] > costs[b]:
			return 1
		}
		return 0
	})
	models := make([]string, n)
	for i := range models {
		models[i] = t.Models[order[i*(len(order)-1)/(n-1)]]
	}
	return models
}

// routerbenchData are the tables and the train share of the RouterBench experiment.
func (e *Env) routerbenchData() ([]*Data, float64) {
	if len(e.Own) > 0 {
		return e.Own, e.share(0.05)
	}
	return []*Data{e.Questions}, e.share(0.5)
}

func routerbenchPieces(e *Env) int {
	data, _ := e.routerbenchData()
	n := 0
	for _, d := range data {
		n += len(levels) * len(sets(d.Table))
	}
	return n
}

func routerbench(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("routerbench", "RouterBench: models and noise")
	p.printf("The paper's main table: AUC in per cent when the quality of each answer is estimated as the truth plus Gaussian noise " +
		"(before and after the model has run: low 0.6 and 0.3, medium 1.6 and 0.8, high 2.4 and 1.2), mapped by a straight line. " +
		"The best row of each column is bold, the oracle left out.\n\n")
	data, share := e.routerbenchData()
	if len(e.Own) == 0 {
		p.printf("RouterBench itself is not bundled and cannot be had offline: this table is of the ZeroEval outcomes. " +
			"With a copy of its published files, `stepfall dev paper routerbench --outcomes routerbench_0shot.csv --outcomes routerbench_5shot.csv` " +
			"prints the 0-shot table and its 5-shot twin, at the paper's split of 5 %% and 95 %%.\n\n")
	}
	for _, d := range data {
		p.section("AUC on " + d.Name)
		p.printf("Data: %s. Train share %.0f %%, %d paired bootstrap resamples.\n\n", d, 100*share, e.Bootstrap)
		var heads []string
		var cells []*cell
		for _, set := range sets(d.Table) {
			t, err := d.Table.Select(set.models...)
			if err != nil {
				return nil, err
			}
			for _, level := range levels {
				e.startingf("routerbench: %s, %s models, %s noise", d.Name, set.name, level)
				noise, err := eval.ParseNoise(level)
				if err != nil {
					return nil, err
				}
				c, err := e.run(ctx, t, share, 1, func(s *eval.Study) { s.Noise, s.Strategies = noise, rows })
				if err != nil {
					return nil, fmt.Errorf("%s models, %s noise: %w", set.name, level, err)
				}
				heads, cells = append(heads, set.name+" "+level), append(cells, c)
			}
		}
		p.table(aucTable("AUC %", heads, cells))
		p.section("Paired differences to cascade_route on " + d.Name)
		p.printf("AUC points with two-sigma half-widths; a star marks differences beyond them.\n\n")
		p.table(gapTable("difference", heads, cells))
		last := cells[len(cells)-2]
		name := "routerbench-" + strings.TrimSuffix(d.Name, ".csv")
		f, err := last.comparisons[0].CurvesFigure(name, heads[len(cells)-2]+" noise")
		if err != nil {
			return nil, err
		}
		p.figure(f, "Cost-quality curves at "+heads[len(cells)-2]+" noise")
	}
	return p, nil
}

// The noises of the heat maps, before and after a model has run.
func heatmapNoise() (antes, posts []float64) {
	return []float64{0.2, 0.6, 1.2, 1.8, 2.4, 3.2}, []float64{0.1, 0.3, 0.6, 0.9, 1.2, 1.6}
}

func heatmapPieces(*Env) int {
	antes, posts := heatmapNoise()
	return len(antes) * len(posts)
}

func heatmap(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("heatmap", "Noise heat maps")
	d, share := e.Questions, e.share(0.5)
	if len(e.Own) > 0 {
		d, share = e.Own[0], e.share(0.05)
	}
	all := sets(d.Table)
	set := all[min(2, len(all)-1)]
	t, err := d.Table.Select(set.models...)
	if err != nil {
		return nil, err
	}
	p.printf("How much cascade routing gains over routing and over cascading as estimates get worse, before (sigma ante) and after (sigma post) a model has run. "+
		"AUC points on %s, %s models, train share %.0f %%.\n\n", d, set.name, 100*share)
	antes, posts := heatmapNoise()
	wanted := []string{cascade.NameRoute, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex}
	grids := map[string][][]float64{}
	quick := *e
	quick.Bootstrap = 0
	for _, post := range posts {
		line := map[string][]float64{}
		for _, ante := range antes {
			e.startingf("heatmap: sigma ante %v, post %v", ante, post)
			c, err := quick.run(ctx, t, share, 1, func(s *eval.Study) {
				s.Noise, s.Strategies, s.Points = &eval.Noise{Ante: ante, Post: post}, wanted, 20
			})
			if err != nil {
				return nil, err
			}
			ours := c.auc(cascade.NameCascadeRoute)
			line["routing"] = append(line["routing"], 100*(ours-c.auc(cascade.NameRoute)))
			line["cascading"] = append(line["cascading"], 100*(ours-c.auc(cascade.NameCascade)))
			line["index"] = append(line["index"], 100*(c.auc(cascade.NameIndex)-ours))
		}
		for name, values := range line {
			grids[name] = append(grids[name], values)
		}
	}
	for _, m := range []struct{ key, title, caption string }{
		{"routing", "cascade routing minus routing", "Cascade routing minus routing"},
		{"cascading", "cascade routing minus cascading", "Cascade routing minus cascading"},
		{"index", "index (latent ease) minus cascade routing", "Index on the latent estimate minus cascade routing"},
	} {
		h := &eval.HeatMap{
			Name: "heatmap-" + m.key, Title: m.title, X: "sigma ante: noise before a model has run", Y: "sigma post: noise after it has run",
			Scale: "AUC points", Values: grids[m.key], FractionalDigits: 1,
		}
		for _, v := range antes {
			h.XTicks = append(h.XTicks, fmt.Sprint(v))
		}
		for _, v := range posts {
			h.YTicks = append(h.YTicks, fmt.Sprint(v))
		}
		p.section(m.caption)
		p.figure(h.Figure(), m.caption)
	}
	return p, nil
}
