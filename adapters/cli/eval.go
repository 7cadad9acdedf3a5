package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// evalFlags are the flags of stepfall eval.
type evalFlags struct {
	outcomes             string
	train, test, prompts string
	models, estimator    string
	signals, noise       string
	strategies           []string
	bootstrap, points    int
	seed                 uint64
	json, figures, html  string
	markdown             string
	allowOverlap         bool
	verified             bool
}

// evalToStdout stands for --json without a file.
const evalToStdout = "-"

func newEvalCommand(s Streams) *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval --outcomes FILE | --train FILE --test FILE",
		Short: "Compare all strategies on recorded outcomes",
		Long: `Compare all strategies on recorded outcomes.

Everything is learnt on the train half: estimators, thresholds, scales and the
lambdas of each curve. The test half is only measured on. One file (--outcomes)
is split at random into two halves, each group evenly.

AUC and qualities are printed in per cent and written to JSON in [0, 1].`,
		Example: `  stepfall eval --outcomes outcomes.csv
  stepfall eval --outcomes issues.csv --verified
  stepfall eval --train train.csv --test test.csv
  stepfall eval --train train.csv --test test.csv --models 11 --noise medium --json out.json
  stepfall eval --train train.csv --test test.csv --strategies threshold,cascade_route,index --html report.html`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			// --json FILE: a flag whose value may be left out leaves the word after it alone.
			switch {
			case len(args) == 1 && f.json == evalToStdout:
				f.json = args[0]
			case len(args) == 1:
				return usage("%q: eval takes flags only\nSee '%s --help'", args[0], cmd.CommandPath())
			}
			return f.run(cmd.Context(), s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.outcomes, "outcomes", "", "outcomes to be split in two halves, in place of --train and --test")
	flags.StringVar(&f.train, "train", "", "outcomes to learn from (long CSV, JSON lines, RouterBench or leaderboard files)")
	flags.StringVar(&f.test, "test", "", "outcomes to measure on")
	flags.StringVar(&f.prompts, "prompts", "", "JSON lines with query_id and prompt, for tables without prompts")
	flags.StringVar(&f.models, "models", "all", "3, 5, 11, llama, gemma, all, or names separated by commas")
	flags.StringVar(&f.signals, "signals", "auto", "what is seen after a model ran: verdict, features, auto (verdict with --verified)")
	flags.BoolVar(&f.verified, "verified", false, "qualities are verdicts of a check that will be there in use, such as unit tests")
	flags.StringVar(&f.estimator, "estimator", "auto", "the dependent estimate: "+strings.Join(eval.Estimators(), ", "))
	flags.StringVar(&f.noise, "noise", "", "simulate estimates as the truth plus noise: low, medium, high, or ante,post[,cost ante,cost post]")
	flags.StringSliceVar(&f.strategies, "strategies", nil, "rows to compute (default: all that suit the number of models)")
	flags.IntVar(&f.bootstrap, "bootstrap", 500, "resamples for the intervals; 0 for none")
	flags.IntVar(&f.points, "points", 40, "lambdas per curve")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of simulations, folds and resamples")
	flags.StringVar(&f.json, "json", "", "print the results as JSON, or write them to this file")
	flags.Lookup("json").NoOptDefVal = evalToStdout
	flags.StringVar(&f.figures, "figures", "", "write the figures to this folder, as PNG and SVG")
	flags.StringVar(&f.html, "html", "", "write a single-file report")
	flags.StringVar(&f.markdown, "markdown", "", "write the table in Markdown")
	flags.BoolVar(&f.allowOverlap, "allow-overlap", false, "measure on queries that were learnt from")
	return cmd
}

func (f *evalFlags) check() error {
	switch {
	case f.outcomes != "" && (f.train != "" || f.test != ""):
		return usage("--outcomes is split into halves by itself: it goes without --train and --test")
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
	if err := f.writable(); err != nil {
		return err
	}
	study, err := f.study(ctx, s.Err)
	if err != nil {
		return err
	}
	bar := newProgress(s.Err, study.Units(), "evaluating")
	study.Progress = bar.add
	result, err := until(ctx, func() (*eval.Comparison, error) { return study.Run(ctx) })
	bar.finish()
	if err != nil {
		return kept(ctx, err, "nothing is written; the same command begins anew")
	}
	return f.write(s, study, result)
}

// writable tries what is to be written before anything is computed.
func (f *evalFlags) writable() error {
	for _, path := range []string{f.json, f.html, f.markdown} {
		if path == "" || path == evalToStdout {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := writable(path); err != nil {
			return err
		}
	}
	if f.figures == "" {
		return nil
	}
	return os.MkdirAll(f.figures, 0o755)
}

type evalInput struct{ flag, path string }

// inputs returns the files of outcomes and the flags that named them.
func (f *evalFlags) inputs() []evalInput {
	if f.outcomes != "" {
		return []evalInput{{"outcomes", f.outcomes}}
	}
	return []evalInput{{"train", f.train}, {"test", f.test}}
}

// tables reads the table to learn from and the one to measure on.
func (f *evalFlags) tables(ctx context.Context, warn io.Writer) (train, test *outcome.Table, err error) {
	if f.outcomes != "" {
		all, err := f.open(ctx, f.outcomes, warn)
		if err != nil {
			return nil, nil, err
		}
		train, test = all.Split(0.5, f.seed)
		return train, test, nil
	}
	if train, err = f.open(ctx, f.train, warn); err != nil {
		return nil, nil, err
	}
	test, err = f.open(ctx, f.test, warn)
	return train, test, err
}

// study reads the tables and sets up the comparison.
func (f *evalFlags) study(ctx context.Context, warn io.Writer) (*eval.Study, error) {
	train, test, err := f.tables(ctx, warn)
	if err != nil {
		return nil, err
	}
	halves, err := eval.NewHalves(train, test, f.allowOverlap)
	if err != nil {
		overlapError := &eval.OverlapError{}
		if errors.As(err, &overlapError) {
			return nil, fmt.Errorf("%w\nSplit the table, or give --allow-overlap to measure all the same", err)
		}
		return nil, err
	}
	dropped := []int{halves.DroppedTrain, halves.DroppedTest}
	inputs := f.inputs()
	if len(inputs) == 1 {
		dropped = []int{halves.DroppedTrain + halves.DroppedTest}
	}
	for i, in := range inputs {
		if dropped[i] > 0 {
			fmt.Fprintf(warn, "stepfall: %s: left out %d queries on which not every model has a quality and a cost\n", in.path, dropped[i])
		}
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
		return nil, &ExitError{Code: ExitUsage, Err: err}
	}
	if f.verified && study.Signals == eval.SignalsFeatures {
		return nil, usage("--verified says that a check judges answers, --signals features that none does")
	}
	return study, nil
}

func (f *evalFlags) open(ctx context.Context, path string, warn io.Writer) (*outcome.Table, error) {
	t, err := openTable(ctx, path, outcome.Options{Prompts: f.prompts, Verified: f.verified, LeftOut: leftOut(warn)})
	if err != nil {
		return nil, err
	}
	t, err = t.Subset(f.models)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// print prints the table.
func (f *evalFlags) print(s Streams, study *eval.Study, c *eval.Comparison) {
	fmt.Fprintf(s.Out, "%d models, %d train and %d test queries; %s\n",
		len(c.Models), len(study.Halves.Train.Queries), c.Queries, study.Setup()["estimates"])
	table := c.Table()
	columns := make([]column, len(table.Header))
	for i, name := range table.Header {
		columns[i] = column{name: name, number: i > 0}
	}
	out := newTable(s.Out, columns...)
	for _, cells := range table.Cells {
		row := make([]any, len(cells))
		for i, cell := range cells {
			row[i] = cell
		}
		out.row(row...)
	}
	out.print()
	p := &printer{w: s.Out}
	p.f("best single model: %s, quality %.2f %%, %s USD per query. A star marks differences beyond two sigma (%d paired resamples).\n",
		gist(c.Models[c.Frame.Best]), 100*c.Frame.Models[c.Frame.Best].Quality, eval.Dollars(c.Frame.Models[c.Frame.Best].Cost), c.Resamples)
}

// write prints the table and writes the files that were asked for.
func (f *evalFlags) write(s Streams, study *eval.Study, c *eval.Comparison) error {
	if f.json != evalToStdout {
		f.print(s, study, c)
	}
	data := map[string]string{}
	for _, in := range f.inputs() {
		sum, err := fileHash(in.path)
		if err != nil {
			return err
		}
		data[in.flag] = filepath.Base(in.path) + " sha256:" + sum
	}
	doc := c.Document()
	doc.Command, doc.Data, doc.Setup = f.commandLine(), data, study.Setup()
	switch f.json {
	case "":
	case evalToStdout:
		if err := doc.Write(s.Out); err != nil {
			return err
		}
	default:
		if err := writeFile(f.json, doc.Write); err != nil {
			return err
		}
	}
	if f.markdown != "" {
		if err := writeFile(f.markdown, func(w io.Writer) error {
			_, err := io.WriteString(w, c.Table().Markdown())
			return err
		}); err != nil {
			return err
		}
	}
	if f.figures != "" {
		figures, err := c.Figures("curves", "Cost and quality")
		if err != nil {
			return err
		}
		for _, figure := range figures {
			if err := figure.Save(f.figures); err != nil {
				return err
			}
		}
	}
	if f.html == "" {
		return nil
	}
	return writeFile(f.html, func(w io.Writer) error {
		return view.WriteReport(w, view.Report{Name: filepath.Base(f.html), Document: doc})
	})
}

// commandLine returns the command with the flags that decide the result; of paths,
// the file names only.
func (f *evalFlags) commandLine() string {
	parts := []string{"stepfall eval"}
	for _, in := range f.inputs() {
		parts = append(parts, "--"+in.flag, filepath.Base(in.path))
	}
	parts = append(parts, "--models", f.models, "--signals", f.signals, "--estimator", f.estimator)
	if f.verified {
		parts = append(parts, "--verified")
	}
	if f.noise != "" {
		parts = append(parts, "--noise", f.noise)
	}
	if len(f.strategies) > 0 {
		parts = append(parts, "--strategies", strings.Join(f.strategies, ","))
	}
	return strings.Join(append(parts, fmt.Sprintf("--points %d --bootstrap %d --seed %d", f.points, f.bootstrap, f.seed)), " ")
}

func fileHash(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeFile writes a file by the function, making its folder.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	return write(file)
}
