package paper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// families returns the sets of those names of which the table has every model, and
// where it has none the sets by number of models.
func families(d *Data, names ...string) []modelSet {
	var out []modelSet
	for _, name := range names {
		models := outcome.Sets()[name]
		if slices.ContainsFunc(models, func(m string) bool { return d.Table.Index(m) < 0 }) {
			continue
		}
		out = append(out, modelSet{name, models})
	}
	if len(out) == 0 {
		return sets(d.Table)
	}
	return out
}

func (e *Env) questionData() *Data {
	if len(e.Own) > 0 {
		return e.Own[0]
	}
	return e.Questions
}

// features compares the rows on real features per model set, with a table per set
// that has a column for each of the groups.
func (e *Env) features(ctx context.Context, p *Page, d *Data, list []modelSet, features string) error {
	share := e.share(0.5)
	p.printf("Estimates of the independent rows (cascade_route and above it) are the paper's up to five models: a logistic regression for each model and set of models that have run. " +
		"With more they are those of the latent ease of the query, and the dependent rows (cascade_route_dependent, index) have the better of the two on the train half.\n\n")
	p.printf("Data: %s. Mean of %d random splits, train share %.0f %%, %d paired resamples each. "+
		"Columns of single benchmarks measure on their queries alone what was learnt on all.\n", d, e.splits(), 100*share, e.Bootstrap)
	var heads []string
	var cells []*cell
	for _, set := range list {
		e.startingf("%s: models %s", p.Name, set.name)
		t, err := d.Table.Select(set.models...)
		if err != nil {
			return err
		}
		whole, groups, err := e.grouped(ctx, t, share, estimate.FeatureSets()[features])
		if err != nil {
			return fmt.Errorf("models %s: %w", set.name, err)
		}
		heads, cells = append(heads, set.name), append(cells, whole)
		p.section("Models: " + set.name)
		columns, columnHeads := []*cell{whole}, []string{"all"}
		for _, g := range groups {
			columns, columnHeads = append(columns, g.cell), append(columnHeads, g.name)
		}
		p.table(aucTable("AUC %", columnHeads, columns))
	}
	p.section("Paired differences to cascade_route")
	p.table(gapTable("AUC points", heads, cells))
	return nil
}

// groupCell is a cell measured on the queries of one group.
type groupCell struct {
	name string
	cell *cell
}

// grouped runs the studies of a table and measures them on all test queries and on
// each group's.
func (e *Env) grouped(ctx context.Context, t *outcome.Table, share float64, features []string) (*cell, []groupCell, error) {
	whole := &cell{}
	byGroup := map[string]*cell{}
	for i := range e.splits() {
		h, err := halves(t, share, e.Seed+uint64(i))
		if err != nil {
			return nil, nil, err
		}
		s := &eval.Study{Halves: h, Signals: eval.SignalsFeatures, Features: features, Strategies: rows, Bootstrap: e.Bootstrap, Seed: e.Seed + uint64(i)}
		all, groups, err := s.RunGroups(ctx)
		if err != nil {
			return nil, nil, err
		}
		whole.comparisons = append(whole.comparisons, all)
		for name, c := range groups {
			if byGroup[name] == nil {
				byGroup[name] = &cell{}
			}
			byGroup[name].comparisons = append(byGroup[name].comparisons, c)
		}
	}
	var out []groupCell
	for name, c := range byGroup {
		out = append(out, groupCell{name, c})
	}
	slices.SortFunc(out, func(a, b groupCell) int { return strings.Compare(a.name, b.name) })
	return whole, out, nil
}

func mathcodePieces(e *Env) int {
	return len(families(e.questionData(), "3", "5", "11"))
}

func familyPieces(e *Env) int { return len(families(e.questionData(), "llama", "gemma")) }

func ablationPieces(e *Env) int { return len(sets(e.questionData().Table)) }

func mathcode(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("mathcode", "Mathematics and code")
	p.printf("Mathematics and code with features that a real run has: the benchmark, lengths of prompt and answer, agreement of the parsed answers. " +
		"The paper takes Minerva Math and LiveCodeBench; here GSM8K and MATH stand for mathematics, and CRUXEval for code.\n\n")
	return p, e.features(ctx, p, e.questionData(), families(e.questionData(), "3", "5", "11"), "math_code")
}

func classification(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("classification", "Answers that can be compared")
	d := e.questionData()
	p.printf("The paper's classification tables are per model family on ARC, MMLU and MixEval with the probabilities of the options. " +
		"No such data can be had offline. This table is per family on questions whose parsed answers can be compared, so that agreement is a feature.\n\n")
	return p, e.features(ctx, p, d, families(d, "llama", "gemma"), "classification")
}

func openform(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("openform", "Open-form answers")
	d := e.questionData()
	p.printf("The same families when answers cannot be compared, as with open-form text: lengths and groups only. " +
		"The paper's features from log-probabilities are read from the columns of an own table (`--outcomes`) when it has them.\n\n")
	open := *d
	table := *d.Table
	table.Answers = nil
	open.Table = &table
	return p, e.features(ctx, p, &open, families(d, "llama", "gemma"), "open_form")
}

func ablation(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("ablation", "Ablation: pruning, looking ahead, expecting")
	d, share := e.questionData(), e.share(0.5)
	if len(e.Own) > 0 {
		share = e.share(0.05)
	}
	p.printf("Variants of cascade routing: slow (no pruning), greedy (one model ahead), no_expect (estimates taken as certain), at most three models, "+
		"and deviations scaled by a fitted number. Medium noise; train share %.0f %%. Data: %s. "+
		"Decision times are those of this machine while it computed the table on all cores.\n\n", 100*share, d)
	noise, err := eval.ParseNoise("medium")
	if err != nil {
		return nil, err
	}
	t := &eval.Table{Header: []string{"variant"}}
	variants := []string{
		cascade.NameCascadeRoute, cascade.NameCascadeRouteSlow, cascade.NameCascadeRouteGreedy, cascade.NameCascadeRouteNoExpect,
		eval.CascadeRouteDepth3, eval.CascadeRouteScaled, eval.IndexIndependent,
	}
	var cells []*cell
	for _, set := range sets(d.Table) {
		e.startingf("ablation: %s models", set.name)
		table, err := d.Table.Select(set.models...)
		if err != nil {
			return nil, err
		}
		wanted := variants
		if len(set.models) > 5 {
			wanted = slices.DeleteFunc(slices.Clone(variants), func(v string) bool { return v == cascade.NameCascadeRouteSlow })
		}
		c, err := e.run(ctx, table, share, 1, func(s *eval.Study) { s.Noise, s.Strategies = noise, wanted })
		if err != nil {
			return nil, err
		}
		cells = append(cells, c)
		t.Header = append(t.Header, set.name+" models: AUC %", "difference", "time of a decision")
	}
	for _, v := range variants {
		line := []string{v}
		for _, c := range cells {
			if slices.Contains(c.names(), v) {
				line = append(line, c.text(v), c.gap(v), fmt.Sprintf("%.2f µs", c.decision(v)))
			} else {
				line = append(line, "-", "-", "-")
			}
		}
		t.Cells = append(t.Cells, line)
	}
	p.table(t)
	p.printf("Slow looks at every supermodel; above five models see the [times](runtime.md).\n")
	return p, nil
}
