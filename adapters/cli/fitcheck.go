package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// heldOutShare is the share of the traces, the newest ones, on which two profiles are compared.
const heldOutShare = 0.3

// exitUnchecked is the exit code of --check without a result, since exitFailure says that estimates no longer hold.
const exitUnchecked = 2

// assess compares the estimates of the profile of --check with the steps that it decided and, with --out, writes a
// new profile if that is better.
func (f *fitFlags) assess(ctx context.Context, s Streams) error {
	found, unfitted, err := f.assessment(ctx, s)
	if err == nil {
		err = s.render(found, func(w *printer) { reportAssessment(w, found, f.out) })
	}
	switch {
	case err != nil && ctx.Err() == nil:
		return &exitError{Code: exitUnchecked, Err: err}
	case err != nil || found.Refit != nil && found.Refit.Written:
		return err
	case unfitted != nil && found.Holds():
		return &exitError{Code: exitUnchecked, Err: unfitted}
	case found.Holds():
		return nil
	case unfitted != nil:
		return fmt.Errorf("the estimates no longer hold, and no new profile can be fitted to these traces: %w", unfitted)
	case found.Refit != nil:
		return errors.New("the estimates no longer hold, and a new profile was not better: record more traces, or find out what changed")
	}
	return errors.New("the estimates no longer hold: fit again, or give --out to write a new profile if it is better")
}

// assessment checks the profile and, with --out, fits another; unfitted says why it could not.
func (f *fitFlags) assessment(ctx context.Context, s Streams) (found *assessment, unfitted, err error) {
	if err := writable(f.out); err != nil {
		return nil, nil, fmt.Errorf("--out: %w", err)
	}
	p, err := fit.Load(f.profile, nil)
	if err != nil {
		return nil, nil, err
	}
	src, err := openTraces(ctx, s, f.outcomes)
	if err != nil {
		return nil, nil, err
	}
	var traces []*sdk.Trace
	err = view.EachTrace(ctx, src.Traces, store.Filter{}, func(t *sdk.Trace) { traces = append(traces, t) })
	if err := errors.Join(err, src.close()); err != nil {
		return nil, nil, err
	}
	a, err := fit.Assess(p, traces)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.outcomes, err)
	}
	found = &assessment{Assessment: a}
	traces = slices.DeleteFunc(traces, func(t *sdk.Trace) bool { return t.Profile != "" && sdk.HasChoice(t.Mode) && !p.HasDecided(t) })
	if f.out != "" {
		found.Refit, unfitted = f.refit(ctx, p, traces)
	}
	return found, unfitted, ctx.Err()
}

// assessment is the result of checking a profile.
type assessment struct {
	*fit.Assessment

	Refit *refitResult `json:"refit,omitempty"`
}

// refitResult compares a newly fitted profile with the one in use.
type refitResult struct {
	*fit.Rival

	Older   int  `json:"older_traces"`
	Newer   int  `json:"newer_traces"`
	Written bool `json:"written"`
}

func reportAssessment(w *printer, a *assessment, out string) {
	if a.Others > 0 {
		w.f("left out: %s that other profiles decided\n", count(a.Others, "step"))
	}
	if a.Calls == 0 {
		w.f("no answer and no run has a verdict: only costs are compared\n")
	} else {
		w.f("%d judged calls in %d traces: Brier score %.4f, expected %.4f\n", a.Calls, a.Traces, a.Quality.Brier, a.Quality.Reference)
		bins := w.table(column{name: "estimate"}, column{"calls", true}, column{"quality %", true})
		for i, b := range a.Quality.Bins {
			bins.row(fmt.Sprintf("%.1f to %.1f", float64(i)/10, float64(i+1)/10), b.Count, share(b))
		}
		bins.print()
	}
	if r := a.Runs; r != nil {
		says := "what follows from these verdicts for single models is not tested"
		if !r.Holds {
			says = "they differ by more than chance"
		}
		w.f("%s %% of %s with verdicts are right, and %s %% as forecast: %s\n", percent(r.Observed), count(r.Runs, "run"), percent(r.Expected), says)
	}
	if a.Holds() {
		w.f("the estimates hold: none of %d means differs from the expected one by more than chance\n", a.Tests)
	} else {
		reportDrifts(w, a.Assessment)
	}
	r := a.Refit
	if r == nil {
		return
	}
	w.f("a profile fitted to the %d older traces, on %d judged calls of the %d newest: loss of quality estimates lower by %.4f ± %.4f, error of costs by %.4f ± %.4f\n",
		r.Older, r.Calls, r.Newer, r.Quality, 2*r.QualityStdError, r.Cost, 2*r.CostStdError)
	if r.Written {
		w.f("better: %s is fitted to all %d traces\n", out, r.Older+r.Newer)
	} else {
		w.f("not better: %s is not written; keep the profile in use\n", out)
	}
}

func reportDrifts(w *printer, a *fit.Assessment) {
	w.f("THE ESTIMATES NO LONGER HOLD: of %d means these differ from the expected ones\n", a.Tests)
	t := w.table(column{name: "what"}, column{"outcomes", true}, column{"expected", true}, column{"observed", true}, column{"standard deviations", true})
	impossible := false
	for _, d := range a.Drifts {
		impossible = impossible || strings.HasPrefix(d.Of, "quality") && (d.Observed < 0 || d.Observed > 1)
		t.row(d.Of, d.Count, fmt.Sprintf("%.4g", d.Expected), fmt.Sprintf("%.4g", d.Observed), fmt.Sprintf("%+.1f", d.Deviations))
	}
	t.print()
	if impossible {
		w.f("a quality below 0 or above 1 means that the judge's error rates are wrong: fit again, with answers whose truth is known\n")
	}
}

// refit fits a profile to the older traces. If it is better on the newest ones, it writes a profile fitted to all.
func (f *fitFlags) refit(ctx context.Context, p *fit.Profile, traces []*sdk.Trace) (*refitResult, error) {
	convertToNewestPrices(traces)
	older := traces[:len(traces)-int(heldOutShare*float64(len(traces)))]
	fresh, err := fitAgain(ctx, p, older)
	if err != nil {
		return nil, fmt.Errorf("fitting to the older traces: %w", err)
	}
	r, err := fit.Compare(p, fresh, traces[len(older):])
	if err != nil {
		return nil, err
	}
	result := &refitResult{Rival: r, Older: len(older), Newer: len(traces) - len(older), Written: r.Better()}
	if !result.Written {
		return result, nil
	}
	if fresh, err = fitAgain(ctx, p, traces); err != nil {
		return nil, err
	}
	return result, fresh.Save(f.out)
}

// fitAgain fits a profile of p's kind to the outcomes of traces. It uses their costs, not p's prices.
func fitAgain(ctx context.Context, p *fit.Profile, traces []*sdk.Trace) (*fit.Profile, error) {
	t, err := outcome.OfTraces(traces)
	if err != nil {
		return nil, err
	}
	if p.Data.Labels != "" { // nobody judges answers in use: verdicts on runs come later
		t.Verified, t.Labels = false, p.Data.Labels
	}
	names := p.Names()
	if missing := slices.IndexFunc(names, func(name string) bool { return t.Index(name) < 0 }); missing >= 0 {
		return nil, fmt.Errorf("%s was never asked: set explore in the policy's trace block for a while", names[missing])
	}
	if t, err = t.Select(names...); err != nil {
		return nil, err
	}
	o := fit.Options{Strategy: p.Strategy.Name, BudgetUSD: p.Budget.USD, Folds: p.Data.Folds, Seed: p.Data.Seed, OnlyJudge: p.OnlyJudge}
	judges := p.Estimator.Judges
	if p.Data.Assumed != nil {
		judges = p.Data.Assumed
	}
	o.VerdictsErr = len(judges) > 0
	o.Estimate = estimate.Options{Quality: p.Estimator.Quality.Kind(), JudgeOrder: p.Estimator.JudgeOrder}
	if o.VerdictsErr && o.Estimate.JudgeOrder == nil {
		o.Estimate.JudgeOrder = slices.Sorted(maps.Keys(judges))
	}
	if p.Data.Inferred == 0 || p.Data.Assumed != nil {
		o.Estimate.Judges = judges // stated, or learned from a truth that traces hardly ever have
	}
	fresh, err := until(ctx, func() (*fit.Profile, error) { return fit.Fit(ctx, t, o) })
	if err == nil {
		keepRates(fresh, learnedRates(p))
	}
	return fresh, err
}
