package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// heldOut is the share of the traces, the newest, on which two profiles are compared.
const heldOut = 0.3

// fitCheckFlags are the flags of stepfall fit check.
type fitCheckFlags struct {
	profile, traces, out string
}

func newFitCheckCommand(s Streams) *cobra.Command {
	var f fitCheckFlags
	cmd := &cobra.Command{
		Use:   "check --profile FILE --traces FILE [--out FILE]",
		Short: "Does a profile still hold? Compare its estimates with the steps that it decided",
		Long: `Does a profile still hold? Compares its estimates with the steps that it decided.

What was believed of each model just before it ran is compared with what came: the
Brier score with the one that estimates expect of themselves, and the mean quality and
cost of every model, the quality in every group and the share of queries of new groups
with how far estimates were off in the fit. A drift is told with a chance of 1 % that
there is none. When there is one, the command says so and exits with 1.

With --out, a profile is fitted to the older traces and compared with the one in use on
the newest. Only when it tells those better, by more than two standard errors, is one
fitted to all traces and written. The traces must hold what was asked by chance: set
explore in the policy's trace block.`,
		Example: `  stepfall fit check --profile profile.json --traces traces.jsonl
  stepfall fit check --profile profile.json --traces traces.jsonl --out new.json`,
		Args:        cobra.NoArgs,
		Annotations: hasJSON(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "", "the profile in use")
	flags.StringVar(&f.traces, "traces", "", "traces of the steps that it decided, as JSON lines, the oldest first")
	flags.StringVar(&f.out, "out", "", "write a profile fitted anew to this file, if it is better")
	return cmd
}

func (f *fitCheckFlags) run(ctx context.Context, s Streams) error {
	switch {
	case f.profile == "":
		return usage("--profile is needed: the profile in use")
	case f.traces == "":
		return usage("--traces is needed: the file that the policy's trace block names")
	}
	if err := writable(f.out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	p, err := fit.Load(f.profile, nil)
	if err != nil {
		return err
	}
	src, err := openTraces(ctx, s, f.traces)
	if err != nil {
		return err
	}
	var traces []*sdk.Trace
	err = view.Each(ctx, src.Traces, store.Filter{}, func(t *sdk.Trace) { traces = append(traces, t) })
	if err := errors.Join(err, src.close()); err != nil {
		return err
	}
	a, err := fit.Assess(p, traces)
	if err != nil {
		return fmt.Errorf("%s: %w", f.traces, err)
	}
	if err := s.render(a, func(w *printer) { reportAssessment(w, a) }); err != nil {
		return err
	}
	if f.out != "" {
		return f.anew(ctx, s, p, traces)
	}
	if !a.Holds() {
		return errors.New("the estimates no longer hold: fit anew, or let --out do it where that is better")
	}
	return nil
}

func reportAssessment(w *printer, a *fit.Assessment) {
	w.f("%d judged calls in %d traces: Brier score %.4f, and %.4f if estimates came true\n",
		a.Calls, a.Traces, a.Quality.Brier, a.Quality.Reference)
	bins := w.table(column{name: "estimate"}, column{"calls", true}, column{"quality %", true})
	for i, b := range a.Quality.Bins {
		bins.row(fmt.Sprintf("%.1f to %.1f", float64(i)/10, float64(i+1)/10), b.Count, share(b))
	}
	bins.print()
	if a.Holds() {
		w.f("the estimates hold: none of %d means is further from what was expected than chance takes it\n", a.Tests)
		return
	}
	w.f("THE ESTIMATES NO LONGER HOLD: of %d means these are not what was expected\n", a.Tests)
	t := w.table(column{name: "what"}, column{"outcomes", true}, column{"expected", true}, column{"came", true}, column{"standard deviations", true})
	for _, d := range a.Drifts {
		t.row(d.Of, d.Count, fmt.Sprintf("%.4g", d.Expected), fmt.Sprintf("%.4g", d.Observed), fmt.Sprintf("%+.1f", d.Deviations))
	}
	t.print()
}

// anew fits a profile to the older traces, and to all of them when it is better.
func (f *fitCheckFlags) anew(ctx context.Context, s Streams, p *fit.Profile, traces []*sdk.Trace) error {
	older := traces[:len(traces)-int(heldOut*float64(len(traces)))]
	fresh, err := refit(ctx, p, older)
	if err != nil {
		return fmt.Errorf("fitting to the older traces: %w", err)
	}
	r, err := fit.Compare(p, fresh, traces[len(older):])
	if err != nil {
		return err
	}
	w := &printer{w: s.Out}
	w.f("fitted anew to the %d older traces, on %d judged calls of the %d newest: loss of quality estimates smaller by %.4f ± %.4f, error of costs by %.4f ± %.4f\n",
		len(older), r.Calls, len(traces)-len(older), r.Quality, 2*r.QualityStdError, r.Cost, 2*r.CostStdError)
	if !r.Better() {
		w.f("not better: %s is not written, and the profile in use stays\n", f.out)
		return w.err
	}
	if fresh, err = refit(ctx, p, traces); err != nil {
		return err
	}
	if err := fresh.Save(f.out); err != nil {
		return err
	}
	w.f("better: %s is fitted to all %d traces\n", f.out, len(traces))
	return w.err
}

// refit fits what p is to the outcomes that traces met. Prices are not carried over: the
// costs are those that were paid.
func refit(ctx context.Context, p *fit.Profile, traces []*sdk.Trace) (*fit.Profile, error) {
	t, err := outcome.OfTraces(traces)
	if err != nil {
		return nil, err
	}
	names := p.Names()
	if missing := slices.IndexFunc(names, func(name string) bool { return t.Index(name) < 0 }); missing >= 0 {
		return nil, fmt.Errorf("%s was never asked: set explore in the policy's trace block for a while", names[missing])
	}
	if t, err = t.Select(names...); err != nil {
		return nil, err
	}
	o := fit.Options{Strategy: p.Strategy.Name, BudgetUSD: p.Budget.USD, Folds: p.Data.Folds, Seed: p.Data.Seed}
	o.Estimate = estimate.Options{Quality: p.Estimator.Quality.Kind()}
	return until(ctx, func() (*fit.Profile, error) { return fit.Fit(ctx, t, o) })
}
