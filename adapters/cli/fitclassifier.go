package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/sdk/estimate/classifier"
	"github.com/stepfall/stepfall/sdk/outcome"
)

func newFitClassifierCommand(s Streams) *cobra.Command {
	var outcomes, out string
	var options classifier.Options
	cmd := &cobra.Command{
		Use:   "classifier --outcomes FILE --out FILE",
		Short: "Train the classifier of answers that estimator-logprob reads",
		Long: `Train the classifier of answers that estimator-logprob reads.

The outcomes are traces of steps that were judged, or a table with one column for
each signal: the features of the tokens' log-probabilities, those of the arguments of
tool calls with args_ before their names, and agreement with earlier answers. A
model with fewer than 50 answers is served by one regression for all, named *.

What is printed was measured on answers to queries that were left out.`,
		Example: `  stepfall fit classifier --outcomes traces.jsonl --out classifier.json
  stepfall fit classifier --outcomes runs.csv --signals mean_log_prob,args_min_log_prob --out classifier.json`,
		Args:        cobra.NoArgs,
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return trainClassifier(cmd.Context(), s, outcomes, out, options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&outcomes, "outcomes", "", "outcomes or traces to train on")
	flags.StringVar(&out, "out", "", "write the classifier to this file")
	flags.StringSliceVar(&options.Signals, "signals", nil, "signals to use (default all of the outcomes)")
	flags.Float64Var(&options.Ridge, "ridge", 1, "penalty on squared weights, in answers")
	return cmd
}

func trainClassifier(ctx context.Context, s Streams, from, to string, o classifier.Options) error {
	switch {
	case from == "":
		return usage("--outcomes is needed: the file of traces or outcomes to train on")
	case to == "":
		return usage("--out is needed: the file to write the classifier to")
	case !(o.Ridge > 0) || math.IsInf(o.Ridge, 0):
		return usage("--ridge %v: want a positive number", o.Ridge)
	}
	if err := writable(to); err != nil {
		return err
	}
	table, err := openTable(ctx, from, outcome.Options{LeftOut: leftOut(s.Err)})
	if err != nil {
		return err
	}
	c, err := classifier.Train(table, o)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("writing classifier: %w", err)
	}
	if err := os.WriteFile(to, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing classifier: %w", err)
	}
	return s.render(c, func(p *printer) { reportClassifier(p, c, to) })
}

// reportClassifier prints how good a classifier is and what it goes by.
func reportClassifier(p *printer, c *classifier.Classifier, path string) {
	p.f("%s: on answers to queries that were left out\n", path)
	table := p.table(column{name: "model"}, column{"answers", true}, column{"Brier", true}, column{"by the mean alone", true}, column{"AUC", true}, column{name: "strongest signals"})
	models := slices.Sorted(maps.Keys(c.Models))
	for _, name := range models {
		r := c.Models[name]
		table.row(name, r.Rows, fmt.Sprintf("%.4f", r.Brier), fmt.Sprintf("%.4f", r.BaseBrier), fmt.Sprintf("%.3f", r.AUC), strongest(r))
	}
	table.print()
	bins := p.table(column{name: "model"}, column{"predicted %", true}, column{"quality %", true}, column{"answers", true})
	for _, name := range models {
		for _, b := range c.Models[name].Reliability {
			bins.row(name, percent(b.Predicted), percent(b.Quality), b.Count)
		}
	}
	bins.print()
}

// strongest names the signals of greatest weight, for one deviation of each.
func strongest(r *classifier.Regression) string {
	signals := slices.Clone(r.Signals)
	slices.SortStableFunc(signals, func(a, b classifier.Signal) int {
		return cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight))
	})
	var names []string
	for _, signal := range signals[:min(3, len(signals))] {
		names = append(names, fmt.Sprintf("%s %+.2f", signal.Name, signal.Weight))
	}
	return strings.Join(names, ", ")
}
