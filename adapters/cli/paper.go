package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/paper"
)

type paperFlags struct {
	data, out         string
	outcomes          []string
	bootstrap, splits int
	seed              uint64
	trainShare        float64
	keep              bool
}

func newPaperCommand(s Streams) *cobra.Command {
	var f paperFlags
	var list strings.Builder
	for _, p := range paper.Presets() {
		fmt.Fprintf(&list, "  %-15s %s\n", p.Name, p.Title)
	}
	cmd := &cobra.Command{
		Use:   "paper EXPERIMENT...",
		Short: "Reproduce the paper's tables and figures on recorded outcomes",
		Long: "Reproduce the tables and figures of the cascade routing paper on recorded outcomes.\n\n" +
			"Experiments:\n" + list.String() + "  all             every experiment that needs no table of yours\n\n" +
			"Each writes a Markdown page with its figures that names the data it used: your own\n" +
			"tables (--outcomes), or those in the folder --data.",
		Example: "  stepfall dev paper swebench\n  stepfall dev paper routerbench --outcomes routerbench_0shot.csv --outcomes routerbench_5shot.csv",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", filepath.Join("..", "shared", "data"), "folder with swebench_verified.csv, openhands_swe.csv, openhands_swt.csv and zeroeval.csv")
	flags.StringSliceVar(&f.outcomes, "outcomes", nil, "your own outcome tables, instead of those in --data")
	flags.StringVar(&f.out, "out", filepath.Join("docs", "results"), "folder to write to")
	flags.IntVar(&f.bootstrap, "bootstrap", 500, "bootstrap resamples for the intervals")
	flags.IntVar(&f.splits, "splits", 5, "number of random splits to average over, for small tables")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of splits, noise and resamples")
	flags.Float64Var(&f.trainShare, "train-share", 0, "share of the train half (default: the paper's)")
	flags.BoolVar(&f.keep, "keep", false, "skip experiments whose page was written from the same data with the same settings")
	return cmd
}

func (f *paperFlags) run(ctx context.Context, s Streams, names []string) error {
	presets, err := selectPresets(names)
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	if f.trainShare < 0 || f.trainShare >= 1 {
		return usage("--train-share %v: want a share between 0 and 1", f.trainShare)
	}
	env := &paper.Env{
		Folders: paper.Folders{Data: f.data, Shipped: filepath.Join(f.out, "data")}, TrainShare: f.trainShare, Splits: f.splits, Bootstrap: f.bootstrap, Seed: f.seed,
	}
	if err := env.Read(ctx, f.outcomes); err != nil {
		return err
	}
	for _, p := range presets {
		if err := p.Check(env); err != nil {
			return err
		}
	}
	stamp := env.Stamp()
	presets = slices.DeleteFunc(presets, func(p paper.Preset) bool {
		if f.keep && paper.IsCurrent(f.out, p.Name, stamp) {
			fmt.Fprintf(s.Out, "%s: up to date\n", p.Name)
			return true
		}
		return false
	})
	bar := newProgress(s.Err, len(presets), "paper")
	defer bar.finish()
	env.Progress = func(label string) { bar.describef("%s", label) }
	for _, p := range presets {
		start := time.Now()
		page, err := p.Run(ctx, env)
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s: %w; earlier pages are written; continue with --keep", p.Name, err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if err := page.Write(f.out, stamp); err != nil {
			return err
		}
		bar.add(1)
		fmt.Fprintf(s.Out, "%s: %s (%.0f s)\n", p.Name, filepath.Join(f.out, page.Name+".md"), time.Since(start).Seconds())
	}
	return nil
}

// selectPresets returns the presets with these names; "all" stands for those that need no table of the user's.
func selectPresets(names []string) ([]paper.Preset, error) {
	var out []paper.Preset
	for _, name := range names {
		if name == "all" {
			// Presets that need the user's own table must be named explicitly.
			out = append(out, slices.DeleteFunc(paper.Presets(), func(p paper.Preset) bool { return p.Apart })...)
			continue
		}
		p, err := paper.Find(name)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
