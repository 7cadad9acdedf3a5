package paper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// families returns the sets of those names of which the table has every model, and
// where it has none the sets by number of models.
func families(d *Data, names ...string) []modelSet {
	var out []modelSet
	for _, name := range names {
		models := outcome.Sets()[name]
		if !slices.ContainsFunc(models, func(m string) bool { return d.Table.Index(m) < 0 }) {
			out = append(out, modelSet{name, models})
		}
	}
	if len(out) == 0 {
		return sets(d.Table, paperSizes...)
	}
	return out
}

func (e *Env) questionData() *Data {
	if len(e.Own) > 0 {
		return e.Own[0]
	}
	return e.Questions
}

// featureSets are the paper's, by the kind of answers.
var featureSets = map[string][]string{
	"classification": {"group", "classes", "agreement"},
	"open_form":      {"group", "tokens", "log_probs", "agreement"},
	"math_code":      {"group", "length", "tokens", "agreement"},
	"swe_bench":      {"group", "length", "verdict"},
}

// features compares the rows on real features per model set, with a table per set
// that has a column for each of the groups.
func (e *Env) features(ctx context.Context, p *Page, d *Data, list []modelSet, features string) error {
	share := e.share(0.5)
	p.printf("Estimates of the independent rows (cascade_route and above it) are the paper's up to five models: a logistic regression for each model and set of models that have run. " +
		"With more they are those of the latent ease of the query, and the dependent rows (cascade_route_dependent, index) have the better of the two on the train half.\n\n")
	p.printf("Data: %s. Mean of %d random splits, train share %.0f %%, %d paired resamples each. "+
		"Columns of single benchmarks measure on their queries alone what was learnt on all.\n", d, e.splits(), 100*share, e.Bootstrap)
	sets := &grid{}
	for _, set := range list {
		e.startingf("%s: models %s", p.Name, set.name)
		t, err := d.Table.Select(set.models...)
		if err != nil {
			return err
		}
		whole, err := e.groupGrid(ctx, t, share, featureSets[features])
		if err != nil {
			return fmt.Errorf("models %s: %w", set.name, err)
		}
		sets.heads, sets.cells = append(sets.heads, set.name), append(sets.cells, whole.cells[0])
		p.section("Models: " + set.name)
		p.table(whole.aucs())
	}
	p.section("Paired differences to cascade_route")
	p.table(sets.gaps("AUC points"))
	return nil
}

// groupGrid runs the studies of a table and measures them on all test queries and on
// each group's.
func (e *Env) groupGrid(ctx context.Context, t *outcome.Table, share float64, features []string) (*grid, error) {
	whole := &cell{}
	byGroup := map[string]*cell{}
	for i := range e.splits() {
		h, err := halves(t, share, e.Seed+uint64(i))
		if err != nil {
			return nil, err
		}
		s := &eval.Study{Halves: h, Signals: eval.SignalsFeatures, Features: features, Strategies: rows, Bootstrap: e.Bootstrap, Seed: e.Seed + uint64(i)}
		all, groups, err := s.RunGroups(ctx)
		if err != nil {
			return nil, err
		}
		whole.comparisons = append(whole.comparisons, all)
		for name, c := range groups {
			if byGroup[name] == nil {
				byGroup[name] = &cell{}
			}
			byGroup[name].comparisons = append(byGroup[name].comparisons, c)
		}
	}
	g := &grid{[]string{"all"}, []*cell{whole}}
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		g.heads, g.cells = append(g.heads, name), append(g.cells, byGroup[name])
	}
	return g, nil
}

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
	if err := e.features(ctx, p, d, families(d, "llama", "gemma"), "classification"); err != nil || len(e.Own) > 0 {
		return p, err
	}
	open, err := e.open(ctx, "mmlu_pro_open.csv.gz", outcome.Options{})
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	var list []column
	for _, name := range []string{"Llama", "Mistral"} {
		words := map[string][]string{"Llama": {"Llama"}, "Mistral": {"istral", "Mixtral", "mathstral"}}[name]
		t, err := family(4, words...)(open.Table, 0)
		if err != nil {
			return nil, err
		}
		list = append(list, column{fmt.Sprintf("%s, %d models", name, len(t.Models)), t, func(s *eval.Study) { s.Signals, s.Strategies = eval.SignalsFeatures, rows }})
	}
	g, err := e.columns(ctx, p.Name, e.share(0.5), e.splits(), list)
	if err != nil {
		return nil, err
	}
	p.section("Classification: MMLU-Pro by model family")
	p.printf("Data: %s, one question in four; AUC per cent, mean of %d random splits. The letter that a model chose is known, and its category; the probabilities of the options are not recorded, "+
		"so that the Jensen-Shannon divergence, which the estimators take where classes have probabilities, is here whether letters agree. "+
		"Costs are derived: parameters that a token meets times characters over four. Of the Gemma family the files have one model (gemma-7b), and so no table.\n\n", open, e.splits())
	p.table(g.aucs())
	p.table(g.gaps("difference to cascade_route"))
	return p, nil
}

func openform(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("openform", "Open-form answers")
	d := e.questionData()
	p.printf("The same families when answers cannot be compared, as with open-form text: lengths and groups only. " +
		"The paper's features from log-probabilities are read from the columns of an own table (`--outcomes`) when it has them.\n\n")
	table := *d.Table
	table.Answers = nil
	return p, e.features(ctx, p, d.of(&table, ""), families(d, "llama", "gemma"), "open_form")
}

func ablation(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("ablation", "Ablation: pruning, looking ahead, expecting")
	data, share := e.simulate()
	p.printf("Variants of cascade routing: slow (no pruning), greedy (one model ahead), no_expect (estimates taken as certain), at most three models, "+
		"and deviations scaled by a fitted number. Medium noise; train share %.0f %%. Data: %s. "+
		"Decision times are those of this machine while it computed the table on all cores.\n\n", 100*share, data[0])
	noise, err := eval.ParseNoise("medium")
	if err != nil {
		return nil, err
	}
	variants := []string{
		cascade.NameCascadeRoute, cascade.NameCascadeRouteSlow, cascade.NameCascadeRouteGreedy, cascade.NameCascadeRouteNoExpect,
		"cascade_route_depth3", "cascade_route_scaled", "index_independent", "cascade_route_published",
	}
	var list []column
	for _, set := range sets(data[0].Table, paperSizes...) {
		t, err := data[0].Table.Select(set.models...)
		if err != nil {
			return nil, err
		}
		wanted := variants
		if len(set.models) > 5 {
			wanted = slices.DeleteFunc(slices.Clone(variants), func(v string) bool { return v == cascade.NameCascadeRouteSlow })
		}
		list = append(list, column{set.name + " models", t, noisy(*noise, 0, wanted...)})
	}
	g, err := e.columns(ctx, p.Name, share, 1, list)
	if err != nil {
		return nil, err
	}
	t := &eval.Table{Header: []string{"variant"}}
	for _, head := range g.heads {
		t.Header = append(t.Header, head+": AUC %", "difference", "time of a decision")
	}
	for _, v := range variants {
		line := []string{v}
		for _, c := range g.cells {
			if slices.Contains(c.names(), v) {
				line = append(line, c.text(v), c.gap(v), fmt.Sprintf("%.2f µs", c.decision(v)))
			} else {
				line = append(line, "-", "-", "-")
			}
		}
		t.Cells = append(t.Cells, line)
	}
	p.table(t)
	p.printf("Slow looks at every supermodel; above five models see the [times](runtime.md).\n\n" +
		"**The opposite of the paper's ablation**: there, expecting what a further answer will show (E[max]) is what cascade routing lives by, and taking estimates as certain loses. " +
		"Where a row of no_expect stands above cascade_route here, it is so because [models fail together](../theory.md#when-models-fail-together): independent estimates expect too much. " +
		"The published code (cascade_route_published) hides it by a slip that scales the deviations down; a fitted scale does the same on purpose.\n")
	return p, nil
}
