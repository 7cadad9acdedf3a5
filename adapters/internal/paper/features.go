package paper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// families returns the named sets of models that the table has completely or, if there is none, sets by number of
// models.
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

// featurePage is a page about estimates from features that are available in use.
type featurePage struct {
	about    string
	families []string
	features []string
	// hidesAnswers reports that answers cannot be compared.
	hidesAnswers bool
}

var (
	mathcode = featurePage{
		about: "Mathematics and code with features that a real run has: the benchmark, lengths of prompt and answer, agreement of the parsed answers. " +
			"The paper takes Minerva Math and LiveCodeBench; here GSM8K and MATH stand for mathematics, and CRUXEval for code.",
		families: []string{"3", "5", "11"},
		features: []string{"group", "length", "tokens", "agreement"},
	}
	comparable = featurePage{
		about: "The paper's classification tables are per model family on ARC, MMLU and MixEval with the probabilities of the options. " +
			"No such data can be had offline. This table is per family on questions whose parsed answers can be compared, so that agreement is a feature.",
		families: []string{"llama", "gemma"},
		features: []string{"group", "classes", "agreement"},
	}
	openform = featurePage{
		about: "The same families when answers cannot be compared, as with open-form text: lengths and groups only. " +
			"The paper's features from log-probabilities are read from the columns of an own table (`--outcomes`) when it has them.",
		families:     []string{"llama", "gemma"},
		features:     []string{"group", "tokens", "log_probs", "agreement"},
		hidesAnswers: true,
	}
)

// write compares the rows per model set, with a table per set that has a column for each of the groups.
func (f *featurePage) write(ctx context.Context, e *Env, p *Page) error {
	d, share := questions.data(e)[0], e.share(0.5)
	table := *d.Table
	if f.hidesAnswers {
		table.Answers = nil
	}
	p.printf("%s\n\n", f.about)
	p.printf("Estimates of the independent rows (cascade_route and above it) are the paper's up to five models: a logistic regression for each model and set of models that have run. " +
		"With more they are those of the latent ease of the query, and the dependent rows (cascade_route_dependent, index) have the better of the two on the train half.\n\n")
	p.printf("Data: %s. Mean of %d random splits, train share %.0f %%, %d paired resamples each. "+
		"Columns of single benchmarks measure on their queries alone what was learnt on all.\n", d, e.splits(), 100*share, e.Bootstrap)
	sets := &grid{}
	for _, set := range families(d, f.families...) {
		study := eval.Study{Signals: eval.SignalsFeatures, Features: f.features, Strategies: rows}
		whole, err := e.groups(ctx, p.Name, share, e.splits(), column{"models " + set.name, &table, set.models, study})
		if err != nil {
			return err
		}
		sets.add(set.name, whole.cells[0])
		p.section("Models: " + set.name)
		p.table(whole.aucs())
	}
	p.section("Paired differences to cascade_route")
	p.table(sets.gaps("AUC points"))
	return nil
}

// classification writes the page about answers that can be compared, with another table of model families if there
// are outcomes of MMLU-Pro.
func classification(ctx context.Context, e *Env, p *Page) error {
	if err := comparable.write(ctx, e, p); err != nil || len(e.Own) > 0 {
		return err
	}
	open, err := e.open(ctx, "mmlu_pro_open.csv.gz", outcome.Options{})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var list []column
	for _, f := range []struct {
		name  string
		words []string
	}{{"Llama", []string{"Llama"}}, {"Mistral", mistrals}} {
		t, err := family(4, f.words...)(open.Table, 0)
		if err != nil {
			return err
		}
		list = append(list, column{fmt.Sprintf("%s, %d models", f.name, len(t.Models)), t, nil, eval.Study{Signals: eval.SignalsFeatures, Strategies: rows}})
	}
	g, err := e.columns(ctx, p.Name, e.share(0.5), e.splits(), list)
	if err != nil {
		return err
	}
	p.section("Classification: MMLU-Pro by model family")
	p.printf("Data: %s, one question in four; AUC per cent, mean of %d random splits. The letter that a model chose is known, and its category; the probabilities of the options are not recorded, "+
		"so that the Jensen-Shannon divergence, which the estimators take where classes have probabilities, is here whether letters agree. "+
		"Costs are derived: parameters that a token meets times characters over four. Of the Gemma family the files have one model (gemma-7b), and so no table.\n\n", open, e.splits())
	p.table(g.aucs())
	p.table(g.gaps("difference to cascade_route"))
	return nil
}

func ablation(ctx context.Context, e *Env, p *Page) error {
	data, share := e.simulate()
	p.printf("Variants of cascade routing: slow (no pruning), greedy (one model ahead), no_expect (estimates taken as certain), at most three models, "+
		"and deviations scaled by a fitted number. Medium noise; train share %.0f %%. Data: %s. "+
		"Decision times are those of this machine while it computed the table on all cores.\n\n", 100*share, data[0])
	variants := []string{
		cascade.NameCascadeRoute, cascade.NameCascadeRouteSlow, cascade.NameCascadeRouteGreedy, cascade.NameCascadeRouteNoExpect,
		"cascade_route_depth3", "cascade_route_scaled", "index_independent", "cascade_route_published",
	}
	var list []column
	for _, set := range sets(data[0].Table, paperSizes...) {
		wanted := variants
		if len(set.models) > 5 {
			wanted = slices.DeleteFunc(slices.Clone(variants), func(v string) bool { return v == cascade.NameCascadeRouteSlow })
		}
		list = append(list, column{set.name + " models", data[0].Table, set.models, eval.Study{Noise: noiseOf("medium"), Strategies: wanted}})
	}
	g, err := e.columns(ctx, p.Name, share, 1, list)
	if err != nil {
		return err
	}
	t := &eval.Table{Header: []string{"variant"}}
	for _, head := range g.heads {
		t.Header = append(t.Header, head+": AUC %", "difference", "time of a decision")
	}
	for _, v := range variants {
		line := []string{v}
		for _, c := range g.cells {
			if r := c.comparisons[0].Row(v); r != nil {
				line = append(line, c.text(v), c.gap(v), fmt.Sprintf("%.2f µs", float64(r.DecisionTime.Nanoseconds())/1e3))
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
	return nil
}
