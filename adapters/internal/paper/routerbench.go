package paper

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/figure"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// rows are the paper's rows and ours, without the variants of the ablation.
var rows = []string{
	"linear_interpolation", "best_single", "random",
	cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute,
	"cascade_route_scaled", "cascade_route_dependent", cascade.NameIndex, "oracle",
}

// publishedRows are rows plus those of the published code.
var publishedRows = append(slices.Clone(rows), "cascade_published", "cascade_best", "cascade_route_published")

var levels = []string{"low", "medium", "high"}

// modelSet is a named selection of models.
type modelSet struct {
	name   string
	models []string
}

// sets returns sets of models of these sizes, and of all models: the project's named sets if the table has their
// models, or else models evenly spaced by cost.
func sets(t *outcome.Table, sizes ...int) []modelSet {
	var out []modelSet
	for _, n := range sizes {
		if n > len(t.Models) {
			continue
		}
		name := fmt.Sprint(n)
		models := outcome.Sets()[name]
		if models == nil || slices.ContainsFunc(models, func(m string) bool { return t.Index(m) < 0 }) {
			models = evenlyByCost(t, n)
		}
		out = append(out, modelSet{name, models})
	}
	if len(out) == 0 || len(t.Models) > len(out[len(out)-1].models) {
		out = append(out, modelSet{fmt.Sprint(len(t.Models)), t.Models})
	}
	return out
}

// paperSizes are the numbers of models of the paper's tables.
var paperSizes = []int{3, 5, 11}

// evenlyByCost returns n models evenly spaced in the order of mean cost.
func evenlyByCost(t *outcome.Table, n int) []string {
	costs := t.MeanCosts()
	sorted := slices.Clone(t.Models)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(costs[t.Index(a)], costs[t.Index(b)]) })
	models := make([]string, n)
	for i := range models {
		models[i] = sorted[i*(len(sorted)-1)/(n-1)]
	}
	return models
}

// simulate returns the tables for simulated estimates and their train share: the user's own, or questions.
func (e *Env) simulate() ([]*Data, float64) {
	if len(e.Own) > 0 {
		return e.Own, e.share(0.05)
	}
	return questions.data(e), e.share(0.5)
}

func noiseOf(level string) *estimate.Noise {
	n := estimate.NoiseLevels()[level]
	return &n
}

func routerbench(ctx context.Context, e *Env, p *Page) error {
	p.printf("The paper's main table: AUC in per cent when the quality of each answer is estimated as the truth plus Gaussian noise " +
		"(before and after the model has run: low 0.6 and 0.3, medium 1.6 and 0.8, high 2.4 and 1.2), mapped by a straight line. " +
		"The best row of each column is bold, the oracle left out. `cascade_published` is algorithm 2 as its code has it, over all models with the last answer, `cascade_best` the same with the best answer; " +
		"`cascade_route_published` is algorithm 3 with [the slip](../theory.md#when-models-fail-together) of the published code.\n\n")
	data, share := e.simulate()
	if len(e.Own) == 0 {
		p.printf("RouterBench itself is not bundled and cannot be had offline: this table is of the ZeroEval outcomes. " +
			"With a copy of its published files, `stepfall dev paper routerbench --outcomes routerbench_0shot.csv --outcomes routerbench_5shot.csv` " +
			"prints the 0-shot table and its 5-shot twin, at the paper's split of 5 %% and 95 %%.\n\n")
	}
	for _, d := range data {
		var list []column
		for _, set := range sets(d.Table, paperSizes...) {
			for _, level := range levels {
				list = append(list, column{set.name + " models, " + level + " noise", d.Table, set.models, eval.Study{Noise: noiseOf(level), Strategies: publishedRows}})
			}
		}
		g, err := e.columns(ctx, p.Name, share, 1, list)
		if err != nil {
			return err
		}
		for i, head := range g.heads {
			g.heads[i] = strings.NewReplacer(" models,", "", " noise", "").Replace(head)
		}
		p.section("AUC on " + d.Name)
		p.printf("Data: %s. Train share %.0f %%, %d paired bootstrap resamples.\n\n", d, 100*share, e.Bootstrap)
		p.table(g.aucs())
		p.section("Paired differences to cascade_route on " + d.Name)
		p.printf("AUC points with two-sigma half-widths; a star marks differences beyond them.\n\n")
		p.table(g.gaps("difference"))
		last := len(g.cells) - 2
		f, err := figure.Curves(g.cells[last].comparisons[0], "routerbench-"+strings.TrimSuffix(d.Name, ".csv"), g.heads[last]+" noise")
		if err != nil {
			return err
		}
		p.figure(f, "Cost-quality curves at "+g.heads[last]+" noise")
		if err := e.costNoise(ctx, p, d, share); err != nil {
			return err
		}
	}
	return nil
}

// costNoise shows the effect of noise on predicted costs, at medium noise on the quality.
func (e *Env) costNoise(ctx context.Context, p *Page, d *Data, share float64) error {
	all := sets(d.Table, paperSizes...)
	models := all[min(2, len(all)-1)].models
	costs, mean := d.Table.MeanCosts(), 0.0
	for _, m := range models {
		mean += costs[d.Table.Index(m)] / float64(len(models))
	}
	var list []column
	for _, of := range []float64{0, 0.25, 0.5, 1, 2} {
		list = append(list, column{fmt.Sprintf("noise on costs %.2g", of), d.Table, models, eval.Study{Noise: &estimate.Noise{Ante: 1.6, Post: 0.8, CostAnte: of * mean}, Strategies: publishedRows}})
	}
	g, err := e.columns(ctx, p.Name, share, 1, list)
	if err != nil {
		return err
	}
	p.section("Noise on the costs on " + d.Name)
	p.printf("%d models, medium noise on the quality, and Gaussian noise on the predicted cost of each answer: deviations as shares of the mean cost of all models. "+
		"What is seen is drawn back to the model's mean as far as the noise hides the differences; without noise (0), costs are predicted by the fitted estimator, and not known.\n\n", len(models))
	p.table(g.aucs())
	return nil
}

// heatMaps are the differences between the AUCs of two rows, by noise.
var heatMaps = []struct{ key, title, caption, row, less string }{
	{"routing", "cascade routing minus routing", "Cascade routing minus routing", cascade.NameCascadeRoute, cascade.NameRoute},
	{"cascading", "cascade routing minus cascading", "Cascade routing minus cascading", cascade.NameCascadeRoute, cascade.NameCascade},
	{"index", "index (latent ease) minus cascade routing", "Index on the latent estimate minus cascade routing", cascade.NameIndex, cascade.NameCascadeRoute},
}

func heatmap(ctx context.Context, e *Env, p *Page) error {
	data, share := e.simulate()
	d := data[0]
	all := sets(d.Table, paperSizes...)
	panels := slices.Compact([]int{min(2, len(all)-1), min(1, len(all)-1)})
	p.printf("How much cascade routing gains over routing and over cascading as estimates get worse, before (sigma ante) and after (sigma post) a model has run. "+
		"AUC points on %s, train share %.0f %%.\n\n", d, 100*share)
	quick := *e
	quick.Bootstrap = 0
	// Noise before and after a model has run.
	antes, posts := []float64{0.2, 0.6, 1.2, 1.8, 2.4, 3.2}, []float64{0.1, 0.3, 0.6, 0.9, 1.2, 1.6}
	contestants := []string{cascade.NameRoute, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex}
	maps := make([][]*figure.HeatMap, len(heatMaps))
	for panel, k := range panels {
		for i, m := range heatMaps {
			h := &figure.HeatMap{
				Name: "heatmap-" + m.key, Title: m.title, X: "sigma ante: noise before a model has run", Y: "sigma post: noise after it has run",
				Scale: "AUC points", FractionalDigits: 1,
			}
			if panel > 0 {
				h.Name, h.Title = h.Name+"-"+all[k].name, h.Title+", "+all[k].name+" models"
			}
			for _, v := range antes {
				h.XTicks = append(h.XTicks, fmt.Sprint(v))
			}
			maps[i] = append(maps[i], h)
		}
		for _, post := range posts {
			var list []column
			for _, ante := range antes {
				list = append(list, column{
					fmt.Sprintf("%s models, sigma ante %v, post %v", all[k].name, ante, post), d.Table, all[k].models,
					eval.Study{Noise: &estimate.Noise{Ante: ante, Post: post}, Points: 20, Strategies: contestants},
				})
			}
			g, err := quick.columns(ctx, p.Name, share, 1, list)
			if err != nil {
				return err
			}
			for i, m := range heatMaps {
				var line []float64
				for _, c := range g.cells {
					line = append(line, 100*(c.auc(m.row)-c.auc(m.less)))
				}
				h := maps[i][panel]
				h.YTicks, h.Values = append(h.YTicks, fmt.Sprint(post)), append(h.Values, line)
			}
		}
	}
	for i, m := range heatMaps {
		p.section(m.caption)
		for panel, h := range maps[i] {
			p.figure(h.Figure(), fmt.Sprintf("%s, %s models", m.caption, all[panels[panel]].name))
		}
	}
	return nil
}

// curves draws all rows with their bands.
func curves(ctx context.Context, e *Env, p *Page) error {
	p.printf("One split, halves, all models. Bands are two sigma on either side, by %d resamples of the queries.\n", e.Bootstrap)
	type drawing struct {
		name, title string
		data        *Data
		study       eval.Study
	}
	list := []drawing{{"swebench", "SWE-bench Verified, tests decide", e.Verified, eval.Study{Signals: eval.SignalsVerdict, Strategies: rows}}}
	for _, level := range levels {
		list = append(list, drawing{"zeroeval-" + level, "ZeroEval, all models, " + level + " noise", e.Questions, eval.Study{Noise: noiseOf(level), Strategies: rows}})
	}
	for _, d := range list {
		if d.data == nil {
			continue
		}
		g, err := e.columns(ctx, p.Name, e.share(0.5), 1, []column{{d.title, d.data.Table, nil, d.study}})
		if err != nil {
			return err
		}
		c := g.cells[0].comparisons[0]
		f, err := figure.Curves(c, "curves-"+d.name, d.title)
		if err != nil {
			return err
		}
		p.section(d.title)
		p.printf("Data: %s.\n\n", d.data)
		p.figure(f, d.title)
		p.table(c.Table())
	}
	return nil
}
