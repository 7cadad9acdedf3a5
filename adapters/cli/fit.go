package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

type fitFlags struct {
	outcomeFlags
	outcomes, policy, out string
	strategy, quality     string
	budget                float64
	minQuality, margin    float64
	asGoodAs              string
	maxWrong, confidence  float64
	classifier            bool
	profile               string                   // profile to check
	learned               map[string]cascade.Rates // error rates of judges, from the profile in use
	judged                map[string]judgedCounts  // judged answers in the outcomes, by judge
	unpriced, unjudged    []string                 // see fitResult
	given                 func(flag string) bool
}

func newFitCommand(s Streams) *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit --outcomes FILE [--check PROFILE] --out FILE",
		Short: "Which numbers should a policy use, and do they still hold? Fit a profile to recorded outcomes, or check whether one still holds",
		Long: `Fit estimators and a strategy to recorded outcomes, for a budget.

The budget is the largest mean cost of one query in US dollars; without it the strategy
maximizes quality at any cost. With --policy, the models, their prices and the strategy
are those of the policy; name the profile in its fit block.

Instead of a budget, --min-quality and --as-good-as choose the cheapest strategy that
reaches a quality, promised for as many new queries as were fitted; --max-wrong promises
the share of wrong answers among those served as good. If a promise is impossible, the
command fails and says what is missing. If the queries are steps of runs, as in traces, the
quality is that of the runs: a run is right only if all its steps are.

The strategy is fitted to estimates made without the query at hand, and the budget is
checked on decisions made without it.

With --classifier, train the classifier that estimator-logprob reads instead of a profile:
on traces of judged steps, or on a table with one column per signal. Models with fewer
than 50 answers share one regression, named *. The printed scores are measured on queries
that were left out.

With --check, compare what the profile predicted for each model just before it ran with
what happened: its cost, and its quality by verdicts on answers or on runs. The Brier score
is compared with the one that the estimates predict. The mean quality and cost of every
model, the quality in every group and the share of queries in new groups are compared using
the errors of the fit. A drift is reported in error with probability 1 %. If there is one,
the exit code is 1, unless a better profile is written; it is 2 if nothing could be
compared. With --out, a profile is fitted to the older traces and compared with the current
one on the newest. Only if it predicts these better by more than two standard errors is a profile
fitted to all traces and written. The traces must contain randomly asked models: set
explore in the policy's trace block.`,
		Example: `  stepfall fit --outcomes runs.csv --budget 0.002 --out profile.json
  stepfall fit --policy policy.hcl --outcomes runs.csv --verified --budget 0.10 --out profile.json
  stepfall fit --outcomes issues.csv --verified --as-good-as large --margin 0.02 --out profile.json
  stepfall fit --outcomes runs.csv --budget 0.002 --max-wrong 0.1 --out profile.json
  stepfall fit --outcomes traces.jsonl --verified --budget 0.002 --out profile.json
  stepfall fit --check profile.json --outcomes traces.jsonl --out new.json
  stepfall fit --classifier --outcomes traces.jsonl --out classifier.json`,
		Args:        cobra.NoArgs,
		Annotations: hasJSON(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	f.given = flags.Changed
	flags.Var(singleFile{&f.outcomes}, "outcomes", "outcomes to fit")
	flags.StringVar(&f.policy, "policy", "", "policy that the profile is for")
	flags.Float64Var(&f.budget, "budget", 0, "largest mean cost of a query in US dollars; 0 is no limit")
	flags.Float64Var(&f.minQuality, "min-quality", 0, "choose the cheapest strategy with at least this mean quality on new queries, or on new runs if the queries are steps of runs, from 0 to 1")
	flags.StringVar(&f.asGoodAs, "as-good-as", "", "choose the cheapest strategy that is as good as this model on new queries, or on new runs if the queries are steps of runs, within --margin")
	flags.Float64Var(&f.margin, "margin", 0.01, "with --as-good-as, how much lower the quality of the queries or runs may be")
	flags.Float64Var(&f.maxWrong, "max-wrong", 0, "find the estimate above which at most this share of answers is wrong")
	flags.Float64Var(&f.confidence, "confidence", 0.95, "confidence of promises about quality")
	flags.StringVar(&f.out, "out", "", "write the profile to this file")
	flags.StringVar(&f.strategy, "strategy", "", "strategy: "+strings.Join(cascade.Names(), ", ")+" (default index, or the policy's)")
	flags.StringVar(&f.quality, "estimator", "", "quality estimator: "+strings.Join(estimate.Kinds(), ", ")+" (default depends on the table)")
	flags.StringVar(&f.profile, "check", "", "check this profile's estimates against the steps in --outcomes that it decided")
	flags.BoolVar(&f.classifier, "classifier", false, "train the classifier for estimator-logprob instead of a profile")
	return cmd
}

func (f *fitFlags) run(ctx context.Context, s Streams) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.profile != "" {
		return f.assess(ctx, s)
	}
	f.chosen = !f.classifier
	var policy *policies.Policy
	if f.policy != "" {
		var err error
		if policy, err = policies.Load(f.policy, policies.LoadOptions{WithoutProfile: true}); err != nil {
			return err
		}
	}
	table, err := f.open(f.outcomes, policy)
	if err != nil {
		return addLabelHint(err)
	}
	if f.classifier {
		if err := trainClassifier(s, table, f.out); err != nil {
			return fmt.Errorf("%s: %w", f.outcomes, err)
		}
		return nil
	}
	options, measured := f.options(s), measuredPolicy(table)
	recorded := table
	if policy != nil {
		if table, err = f.applyPolicy(policy, table, &options); err != nil {
			return err
		}
		f.unpriced = unpricedJudges(policy, recorded)
		if table.Verified || options.VerdictsErr {
			f.unjudged = policy.UnjudgedModels(table.Models)
		}
	} else if measured != nil {
		options.Progress(fmt.Sprintf("left out: the outcomes of %q: they are runs of a whole policy", collect.PolicyName))
		candidates := slices.DeleteFunc(slices.Clone(table.Models), func(name string) bool { return name == collect.PolicyName })
		if table, err = table.Select(candidates...); err != nil {
			return err
		}
	}
	f.judged = countJudged(table, options.Estimate.Judges)
	how := fit.Fit
	if f.wantsPair(table) {
		how = fit.Pair
	}
	p, err := until(ctx, func() (*fit.Profile, error) { return how(ctx, table, options) })
	if err != nil {
		return addResumeHint(ctx, addLabelHint(err), "no profile is written; run the same command to start over")
	}
	keepRates(p, f.learned)
	if err := checkPromises(p); err != nil {
		return errors.Join(f.report(s, p, "no profile", policy, nil, forecastInUse{}, nil), fmt.Errorf("%w: %s is not written", err, f.out))
	}
	if err := p.Save(f.out); err != nil {
		return err
	}
	use, err := f.forecastUse(ctx, s, policy, table)
	if err != nil {
		return err
	}
	if table, err = p.Relabel(table); err != nil {
		return err
	}
	rival, err := rivalOf(ctx, p, policy, table, measured, use)
	saved := benefitOf(p, f.out, policy, table, rival, use)
	return errors.Join(err, f.report(s, p, f.out, policy, rival, use, &saved))
}

// addLabelHint adds to an error about missing labels or outcomes where to get them.
func addLabelHint(err error) error {
	switch fault, ok := errors.AsType[*outcome.Error](err); {
	case ok && fault.Column == "quality" && fault.Row == 0:
		return fmt.Errorf("%w: the outcomes have no quality. Add a verifier block to the policy, record how runs ended (stepfall trace --run RUN --verdict), "+
			"set mode \"shadow\", or run stepfall collect, with --agent COMMAND --check COMMAND for whole runs", err)
	case errors.Is(err, fit.ErrLeftOut):
		return fmt.Errorf("%w. Either record steps in mode \"shadow\" that ask every model (threshold = 1), or set explore in the trace block, have answers judged by a verifier or runs by verdicts, and give --verified", err)
	case errors.Is(err, fit.ErrTooFew):
		return fmt.Errorf("%w. In production set mode \"shadow\", or explore in the trace block; or run stepfall collect, with --agent COMMAND --check COMMAND for whole runs", err)
	}
	return err
}

// wantsPair reports whether the outcomes only have labels of a reference model, and no flag asks for anything else.
func (f *fitFlags) wantsPair(t *outcome.Table) bool {
	return t.Reference != "" && t.Index(t.Reference) >= 0 && len(t.Models) > 2 && f.strategy == "" && f.budget == 0 && f.minQuality == 0 && f.asGoodAs == "" && f.maxWrong == 0
}

// checkPromises returns an error if a profile does not meet the requested goal.
func checkPromises(p *fit.Profile) error {
	switch {
	case p.Budget.Over:
		return fmt.Errorf("the budget of %s USD a query cannot be met", dollars(p.Budget.USD))
	case p.Served != nil && p.Served.Estimate > 1:
		return fmt.Errorf("no threshold keeps wrong answers below %.3g %% with confidence %.2g: add outcomes, or signals that separate right from wrong answers",
			100*p.Served.MaxWrong, p.Served.Confidence)
	}
	return nil
}

func (f *fitFlags) check() error {
	switch {
	case f.outcomes == "":
		return usage("--outcomes is required: recorded outcomes to fit to, or traces to check a profile against")
	case f.profile != "":
		return f.checkAlone()
	case f.out == "":
		return usage("--out is required: the file to write the profile to")
	}
	if err := errors.Join(f.checkGoal(), f.checkShares()); err != nil {
		return err
	}
	// Find an unwritable file before minutes of computing.
	if err := writable(f.out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// checkGoal checks the flags that state the goal of the fit: their values and combinations.
func (f *fitFlags) checkGoal() error {
	floor := f.minQuality != 0 || f.asGoodAs != ""
	switch {
	case f.strategy != "" && !slices.Contains(cascade.Names(), f.strategy):
		return usage("--strategy %q: want one of %q", f.strategy, cascade.Names())
	case f.budget < 0 || math.IsNaN(f.budget) || math.IsInf(f.budget, 0):
		return usage("--budget %v: want a number of US dollars from 0 up", f.budget)
	case f.minQuality != 0 && f.asGoodAs != "":
		return usage("--min-quality and --as-good-as are mutually exclusive")
	case f.budget > 0 && floor:
		return usage("--budget, --min-quality and --as-good-as are mutually exclusive")
	case f.given("margin") && f.asGoodAs == "":
		return usage("--margin requires --as-good-as")
	case f.given("confidence") && !floor && !f.given("max-wrong"):
		return usage("--confidence requires --min-quality, --as-good-as or --max-wrong")
	}
	return nil
}

func (f *fitFlags) checkShares() error {
	for _, share := range []struct {
		flag  string
		value float64
		want  string
		ok    bool
	}{
		{"min-quality", f.minQuality, "from 0 to 1", f.minQuality >= 0 && f.minQuality <= 1},
		{"margin", f.margin, "from 0 to below 1", f.margin >= 0 && f.margin < 1},
		{"max-wrong", f.maxWrong, "above 0 and below 1", f.maxWrong > 0 && f.maxWrong < 1 || !f.given("max-wrong")},
		{"confidence", f.confidence, "between 0 and 1", f.confidence > 0 && f.confidence < 1},
	} {
		if !share.ok {
			return usage("--%s %v: want a number %s", share.flag, share.value, share.want)
		}
	}
	return nil
}

// checkAlone rejects flags of a fit together with --check.
func (f *fitFlags) checkAlone() error {
	for _, flag := range []string{"policy", "budget", "min-quality", "as-good-as", "margin", "max-wrong", "confidence", "strategy", "estimator", "classifier", "models", "prompts", "verified"} {
		if f.given(flag) {
			return usage("--check cannot be combined with --%s: a new profile keeps the settings of the old one", flag)
		}
	}
	return nil
}

func (f *fitFlags) options(s Streams) fit.Options {
	o := fit.Options{
		Strategy: f.strategy, BudgetUSD: f.budget, Folds: 5, Seed: 1,
		MaxWrong: f.maxWrong, Confidence: f.confidence,
		Estimate: estimate.Options{Quality: f.quality},
		Progress: func(stage string) { fmt.Fprintf(s.Err, "%s\n", stage) },
	}
	switch {
	case f.asGoodAs != "":
		o.Floor = &fit.Floor{AsGoodAs: f.asGoodAs, Margin: f.margin}
	case f.minQuality != 0:
		o.Floor = &fit.Floor{MinQuality: f.minQuality}
	}
	return o
}

// applyPolicy takes models, prices and strategy from the policy, and returns the table of its models.
func (f *fitFlags) applyPolicy(policy *policies.Policy, table *outcome.Table, o *fit.Options) (*outcome.Table, error) {
	o.Models = slices.DeleteFunc(policy.SDKModels(), func(m sdk.Model) bool {
		onlyJudges := table.Index(m.Name) < 0 && m.Name != policy.Baseline && policy.HasJudge(m.Name)
		if onlyJudges {
			o.OnlyJudge = append(o.OnlyJudge, m.Name)
			o.Progress(fmt.Sprintf("model %q is not a candidate with this profile: it judges, and has no outcomes", m.Name))
		}
		return onlyJudges
	})
	names := make([]string, len(o.Models))
	for i, m := range o.Models {
		names[i] = m.Name
	}
	warnLeftOut(policy, table, names, o.Progress)
	table, err := table.Select(names...)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w: run stepfall collect, or in production set mode \"shadow\", or explore in the trace block", f.policy, err)
	}
	f.learned = ratesInUse(policy, filepath.Dir(f.policy))
	table = judgesOf(policy, table, f.learned, o)
	if o.Strategy != "" {
		return table, nil
	}
	setting := policy.Strategy.Setting()
	o.Strategy = setting.Name
	o.Params, err = setting.Params(names)
	return table, err
}

// warnLeftOut warns of models and judges in the table that the policy does not have.
func warnLeftOut(p *policies.Policy, t *outcome.Table, names []string, warn func(string)) {
	for _, judge := range unreadVerdicts(p, t) {
		warn(fmt.Sprintf("ignored the verdicts of %q: no verifier of %s has that name", judge, p.Path))
	}
	for _, model := range t.Models {
		if !slices.Contains(names, model) {
			warn(fmt.Sprintf("ignored the outcomes of %q: no model of %s has that name", model, p.Path))
		}
	}
}

// enoughLabels is the number of steps with every model's answer beyond which agreement with a reference distinguishes
// models no better.
const enoughLabels = 200
