package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/figure"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

type evalFlags struct {
	outcomeFlags

	outcomes, train, test     string
	estimator, signals, noise string
	strategies                []string
	bootstrap, points         int
	seed                      uint64
	out                       []string
	allowOverlap              bool
}

func newEvalCommand(s Streams) *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval --outcomes FILE | --train FILE --test FILE",
		Short: "Which strategy pays off? Compare all strategies on recorded outcomes",
		Long: `Compare all strategies on recorded outcomes.

Everything is learned on the train half: estimators, thresholds, scales and the lambdas
of each curve. The test half is used only to measure. A single file (--outcomes) is split
at random into two halves, each group evenly.

AUC and qualities are printed in per cent, and written to JSON as numbers from 0 to 1.`,
		Example: `  stepfall dev eval --outcomes outcomes.csv
  stepfall dev eval --outcomes issues.csv --verified
  stepfall dev eval --train train.csv --test test.csv
  stepfall dev eval --train train.csv --test test.csv --models 11 --noise medium --out out.json
  stepfall dev eval --train train.csv --test test.csv --strategies threshold,cascade_route,index --out report.md --out figures/`,
		Args:        cobra.NoArgs,
		Annotations: hasJSON(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.Lookup("models").Usage = "3, 5, 11, llama, gemma, all, or names separated by commas"
	flags.Var(singleFile{&f.outcomes}, "outcomes", "outcomes to split into two halves, instead of --train and --test")
	flags.StringVar(&f.train, "train", "", "outcomes to learn from (long CSV, JSON lines, RouterBench or leaderboard files)")
	flags.StringVar(&f.test, "test", "", "outcomes to measure on")
	flags.StringVar(&f.signals, "signals", "auto", "what is known after a model ran: verdict, features, auto (verdict with --verified)")
	flags.StringVar(&f.estimator, "estimator", "auto", "estimator of quality: "+strings.Join(eval.Estimators(), ", "))
	flags.StringVar(&f.noise, "noise", "", "simulate estimates as the truth plus noise: low, medium, high, or ante,post[,cost ante,cost post]")
	flags.StringSliceVar(&f.strategies, "strategies", nil, "strategies to compare (default: all that can handle the number of models)")
	flags.IntVar(&f.bootstrap, "bootstrap", 500, "bootstrap resamples for the intervals; 0 for none")
	flags.IntVar(&f.points, "points", 40, "points per curve (values of lambda)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of simulations, folds and resamples")
	flags.StringSliceVar(&f.out, "out", nil, "write the results: a .json file, an .md file with the table, or a folder for figures (may be repeated)")
	flags.BoolVar(&f.allowOverlap, "allow-overlap", false, "allow test queries that are also in the train table")
	return cmd
}

func (f *evalFlags) check() error {
	switch {
	case f.outcomes != "" && (f.train != "" || f.test != ""):
		return usage("--outcomes, which is split into halves, cannot be combined with --train or --test")
	case f.outcomes == "" && (f.train == "" || f.test == ""):
		return usage("give --outcomes, or both --train and --test: one table to learn from, one to measure on")
	case f.bootstrap < 0 || f.bootstrap == 1:
		return usage("--bootstrap %d: want 0 or at least 2 resamples", f.bootstrap)
	case f.points < 2:
		return usage("--points %d: a curve needs at least 2", f.points)
	}
	return nil
}

func (f *evalFlags) run(ctx context.Context, s Streams) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.checkWritable(); err != nil {
		return err
	}
	study, err := f.study(s.Err)
	if err != nil {
		return err
	}
	bar := newProgress(s.Err, study.Units(), "evaluating")
	study.Progress = bar.add
	result, err := until(ctx, func() (*eval.Comparison, error) { return study.Run(ctx) })
	bar.finish()
	if err != nil {
		return addResumeHint(ctx, err, "nothing is written; run the same command to start over")
	}
	return f.write(s, study, result)
}

// checkWritable checks the files of --out before anything is computed.
func (f *evalFlags) checkWritable() error {
	for _, path := range f.out {
		if evalWriters[filepath.Ext(path)] == nil {
			if filepath.Ext(path) == ".html" {
				return usage("--out %s: want a name that ends in .json or .md, or a folder", path)
			}
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := writable(path); err != nil {
			return err
		}
	}
	return nil
}

func (f *evalFlags) tables() (train, test *outcome.Table, err error) {
	if f.outcomes != "" {
		all, err := f.open(f.outcomes, nil)
		if err != nil {
			return nil, nil, err
		}
		train, test = all.Split(0.5, f.seed)
		return train, test, nil
	}
	if train, err = f.open(f.train, nil); err != nil {
		return nil, nil, err
	}
	test, err = f.open(f.test, nil)
	return train, test, err
}

func (f *evalFlags) study(warn io.Writer) (*eval.Study, error) {
	train, test, err := f.tables()
	if err != nil {
		return nil, err
	}
	halves, err := eval.NewHalves(train, test, f.allowOverlap)
	if _, overlaps := errors.AsType[*eval.OverlapError](err); overlaps {
		return nil, fmt.Errorf("%w\nSplit the table, or allow it with --allow-overlap", err)
	}
	if err != nil {
		return nil, err
	}
	if dropped := halves.DroppedTrain + halves.DroppedTest; dropped > 0 {
		fmt.Fprintf(warn, "stepfall: skipped %d queries without a quality and a cost of every model\n", dropped)
	}
	noise, err := eval.ParseNoise(f.noise)
	if err != nil {
		return nil, usage("--noise: %w", err)
	}
	study := &eval.Study{
		Halves: halves, Signals: eval.Signals(f.signals), Estimator: f.estimator, Noise: noise,
		Strategies: f.strategies, Points: f.points, Bootstrap: f.bootstrap, Seed: f.seed,
	}
	if err := study.Validate(); err != nil {
		return nil, &exitError{Code: exitUsage, Err: err}
	}
	if f.verified && study.Signals == eval.SignalsFeatures {
		return nil, usage("--verified and --signals features are mutually exclusive")
	}
	return study, nil
}

func (f *evalFlags) print(p *printer, study *eval.Study, c *eval.Comparison) {
	p.f("%d models, %d train and %d test queries; %s\n",
		len(c.Models), len(study.Halves.Train.Queries), c.Queries, c.Setup["estimates"])
	table := c.Table()
	columns := make([]column, len(table.Header))
	for i, name := range table.Header {
		columns[i] = column{name: name, number: i > 0}
	}
	out := p.table(columns...)
	for _, cells := range table.Cells {
		row := make([]any, len(cells))
		for i, cell := range cells {
			row[i] = cell
		}
		out.row(row...)
	}
	out.print()
	p.f("best single model: %s, quality %.2f %%, %s USD per query. A star marks differences beyond two sigma (%d paired resamples).\n",
		gist(c.Models[c.Frame.Best]), 100*c.Frame.Models[c.Frame.Best].Quality, eval.Dollars(c.Frame.Models[c.Frame.Best].Cost), c.Resamples)
}

// evalWriters writes an evaluation to a file, by file extension.
var evalWriters = map[string]func(w io.Writer, c *eval.Comparison, doc *eval.Document) error{
	".json": func(w io.Writer, _ *eval.Comparison, doc *eval.Document) error { return doc.Write(w) },
	".md": func(w io.Writer, c *eval.Comparison, _ *eval.Document) error {
		_, err := io.WriteString(w, c.Table().Markdown())
		return err
	},
}

func (f *evalFlags) write(s Streams, study *eval.Study, c *eval.Comparison) error {
	doc := c.Document()
	if err := s.render(doc, func(p *printer) { f.print(p, study, c) }); err != nil {
		return err
	}
	for _, path := range f.out {
		if write := evalWriters[filepath.Ext(path)]; write != nil {
			if err := writeFile(path, func(w io.Writer) error { return write(w, c, doc) }); err != nil {
				return err
			}
			continue
		}
		drawing, err := figure.Curves(c, "curves", "Cost and quality")
		if err != nil {
			return err
		}
		if err := drawing.Save(path); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(path string, value any) error {
	return writeFile(path, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	})
}

// writeFile creates a file and its folder, and calls write.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// Not for reading, too: a pipe that its own writer can read never breaks when the reader ends.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, file.Close()) }()
	return write(file)
}
