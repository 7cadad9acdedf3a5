package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/step"
)

// replayFlags are the flags of a plan that fits before it decides.
type replayFlags struct {
	fit                bool
	train, record      string
	strategy           string
	signals, estimator string
	lambda, trainShare float64
}

func (f *replayFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.fit, "fit", false, "with --outcomes: fit estimators to one half, and plan on the other beside the single models")
	flags.StringVar(&f.train, "train", "", "with --fit: outcomes to fit to, in place of a half of --outcomes")
	flags.Float64Var(&f.trainShare, "train-share", 0.5, "with --fit: share of --outcomes to fit to")
	flags.StringVar(&f.strategy, "strategy", "", "with --fit, in place of a policy: "+strings.Join(cascade.Names(), ", "))
	flags.Float64Var(&f.lambda, "lambda", 1, "price of a US dollar in quality, with --strategy")
	flags.StringVar(&f.signals, "signals", "auto", "with --fit: what is seen after a model ran: verdict, features, auto (verdict when the policy has a verifier)")
	flags.StringVar(&f.estimator, "estimator", "auto", "with --fit: the estimate, auto or a kind (see stepfall fit --help)")
	flags.StringVar(&f.record, "record", "", "with --fit: write the trace of every step to this file, as JSON lines")
}

func (f *planFlags) checkReplay(policy string) error {
	switch {
	case f.outcomes == "":
		return usage("--fit needs --outcomes: the table to fit to and to decide on")
	case f.against != "" || f.detailed:
		return usage("--fit plans one policy beside the single models: leave out --against and --detailed-exitcode")
	case policy == "" && f.strategy == "":
		return usage("a policy or --strategy is needed: how to decide")
	case policy != "" && (f.strategy != "" || f.models != "all"):
		return usage("the policy names strategy and models itself: leave out --strategy and --models")
	case f.train == "" && !(f.trainShare > 0 && f.trainShare < 1):
		return usage("--train-share %v: want a share between 0 and 1", f.trainShare)
	}
	return nil
}

// replay fits to one half of recorded outcomes and runs the step engine over the other.
func (f *planFlags) replay(ctx context.Context, s Streams, policy string) error {
	if err := f.checkReplay(policy); err != nil {
		return err
	}
	r, err := until(ctx, func() (*replay, error) { return f.prepare(ctx, s, policy) })
	if err != nil {
		return kept(ctx, err, "nothing was replayed; the same command begins anew")
	}
	if f.record != "" {
		if err := os.Remove(f.record); err != nil && !os.IsNotExist(err) {
			return err
		}
		lines, err := step.OpenJSONLines(f.record, 0, 0)
		if err != nil {
			return err
		}
		defer lines.Close()
		r.options.Traces = lines.Record
	}
	account, record := replayed(r.Test)
	r.options.Traces = step.Tee(r.options.Traces, record)
	bar := newProgress(s.Err, len(r.Test.Queries), "replaying")
	r.options.Progress = bar.add
	result, err := forecast.New(ctx, r.policy, &forecast.Table{Outcomes: r.Test, Seed: f.seed}, r.options)
	bar.finish()
	if err != nil {
		what := "nothing is written"
		if f.record != "" {
			what = "traces until now are in " + f.record
		}
		return kept(ctx, err, "%s; the same command begins anew", what)
	}
	saved := account.Result()
	return s.render(r.compared(result, &saved), func(p *printer) {
		r.print(p, result)
		p.saved(&saved)
	})
}

// replay is what there is to replay.
type replay struct {
	*eval.Halves

	policy  *policies.Policy
	options forecast.Options
	// repriced: costs are recorded tokens at the policy's prices. judges: the policy
	// has verifiers of its own.
	repriced, judges bool
}

// prepare reads the tables and the policy, and fits the estimates.
func (f *planFlags) prepare(ctx context.Context, s Streams, policy string) (*replay, error) {
	r := &replay{options: forecast.Options{Seed: f.seed}}
	if policy != "" {
		p, err := policies.Load(policy, policies.LoadOptions{Sets: f.sets})
		if err != nil {
			return nil, err
		}
		notes, err := forecast.CheckOutcomes(p)
		if err != nil {
			return nil, fmt.Errorf("the policy cannot be replayed: %w", err)
		}
		if p.Mode != "enforce" {
			notes = append(notes, fmt.Sprintf("mode %s is replayed as enforce", p.Mode))
			p.Mode = "enforce"
		}
		for _, note := range notes {
			fmt.Fprintf(s.Err, "stepfall: %s: %s\n", policy, note)
		}
		r.policy, r.judges = p, slices.ContainsFunc(p.Verifiers, func(v policies.Verifier) bool { return v.Judges() })
	}
	if err := f.halves(ctx, r, s.Err); err != nil {
		return nil, err
	}
	signals := eval.Signals(f.signals)
	if r.policy == nil {
		var err error
		if r.policy, err = f.bare(r.Test); err != nil {
			return nil, err
		}
	} else if signals == eval.SignalsAuto {
		signals = eval.SignalsFeatures
		if r.judges {
			signals = eval.SignalsVerdict
		}
	}
	study := &eval.Study{Halves: r.Halves, Signals: signals, Estimator: f.estimator, Seed: f.seed}
	if err := study.Validate(); err != nil {
		return nil, &ExitError{Code: ExitUsage, Err: err}
	}
	var kind string
	var err error
	if r.Halves, kind, err = study.Online(); err != nil {
		return nil, err
	}
	switch {
	case !r.Test.Verified:
		r.policy.Verifiers = slices.DeleteFunc(r.policy.Verifiers, func(v policies.Verifier) bool { return v.Judges() })
	case !r.judges:
		r.policy.Verifiers = append(r.policy.Verifiers, policies.Verifier{Name: "recorded", Plugin: "recorded"})
	}
	if r.policy.Fit == nil {
		r.options.Estimator, err = estimate.Fit(r.Train, estimate.Options{Quality: kind, Seed: f.seed})
	}
	return r, err
}

// bare is the policy of a strategy by itself, over the models of the table.
func (f *planFlags) bare(t *outcome.Table) (*policies.Policy, error) {
	if !slices.Contains(cascade.Names(), f.strategy) {
		return nil, usage("--strategy %s: unknown strategy; there are %s", f.strategy, strings.Join(cascade.Names(), ", "))
	}
	p := &policies.Policy{Strategy: policies.Strategy{Kind: f.strategy, Lambda: []float64{f.lambda}, Gamma: 1, Threshold: []float64{0.5}}}
	if variant, ok := strings.CutPrefix(f.strategy, cascade.NameCascadeRoute+"_"); ok {
		p.Strategy.Kind, p.Strategy.Variant = cascade.NameCascadeRoute, variant
	}
	for _, name := range t.Models {
		p.Models = append(p.Models, policies.Model{Name: name, Provider: "go"})
	}
	return p, nil
}

// halves reads the table, or both, with the costs that the policy's prices give.
func (f *planFlags) halves(ctx context.Context, r *replay, warn io.Writer) error {
	models, fitted := f.models, r.policy != nil && r.policy.Fit != nil
	if r.policy != nil {
		names := make([]string, len(r.policy.Models))
		for i := range r.policy.Models {
			names[i] = r.policy.Models[i].Name
		}
		models = strings.Join(names, ",")
	}
	open := func(path string) (*outcome.Table, error) {
		t, err := openTable(ctx, path, outcome.Options{Prompts: f.prompts, LeftOut: leftOut(warn)})
		if err != nil {
			return nil, err
		}
		if t, err = t.Subset(models); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return t, nil
	}
	test, err := open(f.outcomes)
	if err != nil {
		return err
	}
	var train *outcome.Table
	switch {
	case f.train != "":
		if train, err = open(f.train); err != nil {
			return err
		}
	case fitted:
		// The profile is fitted already: all that there is can be replayed.
		train = test
	default:
		train, test = test.Split(f.trainShare, f.seed)
	}
	if r.Halves, err = eval.NewHalves(train, test, fitted && f.train == ""); err != nil || r.policy == nil {
		return err
	}
	// Costs of both halves come from the same source.
	pricedTrain, trainKnown := forecast.Reprice(r.Train, r.policy)
	pricedTest, testKnown := forecast.Reprice(r.Test, r.policy)
	if r.repriced = trainKnown && testKnown; r.repriced {
		r.Train, r.Test = pricedTrain, pricedTest
	}
	return nil
}

// name says who decides.
func (r *replay) name() string {
	if r.options.Estimator == nil {
		return "the fitted profile"
	}
	return r.policy.Strategy.Setting().Name
}

// single is a model that is always asked.
type single struct {
	Role    string  `json:"role"`
	Model   string  `json:"model"`
	Quality float64 `json:"quality"`
	CostUSD float64 `json:"cost_usd"`
}

// singles are the single models that a replay is compared with, with means per query.
func (r *replay) singles() []single {
	costs, qualities := r.Test.MeanCosts(), r.Test.MeanQualities()
	frame := eval.NewFrame(costs, qualities)
	var list []single
	for _, m := range []struct {
		role  string
		model int
	}{{"cheapest", frame.Cheapest}, {"best", frame.Best}, {"dearest", frame.Dearest}} {
		list = append(list, single{m.role, r.Test.Models[m.model], qualities[m.model], costs[m.model]})
	}
	return list
}

// compared is what `policy plan --fit --json` prints.
func (r *replay) compared(result *forecast.Forecast, saved *savings.Result) any {
	return struct {
		Who     string             `json:"who"`
		Result  *forecast.Forecast `json:"result"`
		Always  []single           `json:"always"`
		Savings *savings.Result    `json:"savings"`
		Saved   string             `json:"saved,omitempty"`
	}{r.name(), result, r.singles(), saved, saved.String()}
}

// print compares what was replayed with the single models.
func (r *replay) print(w *printer, result *forecast.Forecast) {
	n := float64(result.Queries)
	if r.options.Estimator == nil {
		w.f("%d queries replayed; estimates and strategy of the profile %s\n", result.Queries, r.policy.Fit.Profile)
	} else {
		w.f("%d queries replayed; %s estimates fitted to %d others\n", result.Queries, r.options.Estimator.Quality.Kind(), len(r.Train.Queries))
	}
	if r.policy.Path != "" {
		r.rules(w, result)
	}
	t := w.table(column{name: "who answers"}, column{"quality %", true}, column{"USD", true}, column{"USD per query", true}, column{"calls per query", true})
	t.row(r.name(), fmt.Sprintf("%.2f", 100*result.Quality), eval.Dollars(n*result.CostUSD), eval.Dollars(result.CostUSD), fmt.Sprintf("%.2f", result.Steps))
	for _, m := range r.singles() {
		t.row("always the "+m.Role+": "+m.Model, fmt.Sprintf("%.2f", 100*m.Quality), eval.Dollars(n*m.CostUSD), eval.Dollars(m.CostUSD), "1.00")
	}
	t.print()
}

// rules says what prices, verifiers, match blocks and caps of the policy did.
func (r *replay) rules(w *printer, result *forecast.Forecast) {
	p := r.policy
	prices := "as recorded, because the table lacks tokens"
	if r.repriced {
		prices = "recorded tokens at the policy's prices"
	}
	w.f("costs: %s\n", prices)
	switch {
	case r.judges && r.Test.Verified:
		w.f("verifiers: the recorded qualities are their verdicts\n")
	case r.Test.Verified:
		w.f("verifiers: the policy has none; the recorded qualities are verdicts because --signals says so\n")
	default:
		w.f("verifiers: none, answers are estimated (--signals verdict takes the recorded qualities as verdicts)\n")
	}
	if len(p.Matches) > 0 {
		var parts []string
		for i := range p.Matches {
			parts = append(parts, fmt.Sprintf("%s %d", p.Matches[i].Name, result.Matches[p.Matches[i].Name]))
		}
		w.f("match: %s, none %d queries\n", strings.Join(parts, ", "), result.Matches[""])
	}
	if p.Budget.StepUSD > 0 || p.Budget.RunUSD > 0 {
		w.f("caps: %d of %d steps ended at a cap, %d of them without an answer, which counts as quality 0\n", result.Capped+result.Refused, result.Queries, result.Refused)
	}
}
