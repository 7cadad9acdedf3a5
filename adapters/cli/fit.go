package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// fitFlags are the flags of stepfall fit.
type fitFlags struct {
	outcomeFlags
	outcomes, policy, out string
	strategy, quality     string
	budget                float64
	minQuality, margin    float64
	asGoodAs              string
	maxWrong, confidence  float64
	classifier            bool
	profile               string // to check
	given                 func(flag string) bool
}

func newFitCommand(s Streams) *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit --outcomes FILE [--check PROFILE] --out FILE",
		Short: "Which numbers should a policy go by, and do they still hold? Fit a profile to outcomes, or check one",
		Long: `Fit estimators and a strategy to recorded outcomes, for a budget.

The budget is the largest mean cost of one query in US dollars; without it the
strategy goes for quality at any cost. With --policy the models, their prices and
the strategy are those of the policy, and the profile is what its fit block names.

In place of a budget, --min-quality or --as-good-as take the cheapest strategy that
keeps a quality, promised of as many new queries as were fitted to; --max-wrong
promises how many of the answers that are served as good are wrong. What cannot be
promised is an error that says what is missing.

The strategy is fitted on estimates that have not seen the query, and the check of
the budget on choices that have not seen it either.

With --classifier, what is trained is not a profile but the classifier of answers that
estimator-logprob reads, on traces of steps that were judged or on a table with one
column for each signal. A model with fewer than 50 answers is served by one regression
for all, named *. What is printed was measured on queries that were left out.

With --check, what the profile believed of each model just before it ran is compared with
what came: the Brier score with the one that estimates expect of themselves, and the mean
quality and cost of every model, the quality in every group and the share of queries of new
groups with how far estimates were off in the fit. A drift is told with a chance of 1 % that
there is none. When there is one, the command says so and exits with 1. With --out too, a
profile is fitted to the older traces and compared with the one in use on the newest. Only
when it tells those better, by more than two standard errors, is one fitted to all traces
and written. The traces must hold what was asked by chance: set explore in the policy's
trace block.`,
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
	flags.StringVar(&f.outcomes, "outcomes", "", "outcomes to fit to")
	flags.StringVar(&f.policy, "policy", "", "policy that the profile is for")
	flags.Float64Var(&f.budget, "budget", 0, "largest mean cost of a query in US dollars; 0 is no limit")
	flags.Float64Var(&f.minQuality, "min-quality", 0, "take the cheapest strategy whose mean quality on new queries is at least this, from 0 to 1")
	flags.StringVar(&f.asGoodAs, "as-good-as", "", "take the cheapest strategy that is as good as this model on new queries, but for --margin")
	flags.Float64Var(&f.margin, "margin", 0.01, "by how much less quality will do with --as-good-as")
	flags.Float64Var(&f.maxWrong, "max-wrong", 0, "find the estimate from which on at most this share of answers is wrong")
	flags.Float64Var(&f.confidence, "confidence", 0.95, "confidence of what is promised of quality")
	flags.StringVar(&f.out, "out", "", "write the profile to this file")
	flags.StringVar(&f.strategy, "strategy", "", "strategy: "+strings.Join(cascade.Names(), ", ")+" (default index, or the policy's)")
	flags.StringVar(&f.quality, "estimator", "", "quality estimator: "+strings.Join(estimate.Kinds(), ", ")+" (default by what the table holds)")
	flags.StringVar(&f.profile, "check", "", "compare the estimates of this profile with the steps in --outcomes that it decided")
	flags.BoolVar(&f.classifier, "classifier", false, "train the classifier of answers that estimator-logprob reads, in place of a profile")
	return cmd
}

func (f *fitFlags) run(ctx context.Context, s Streams) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.profile != "" {
		return f.assess(ctx, s)
	}
	table, err := f.open(f.outcomes)
	if err != nil {
		return addLabelHint(err)
	}
	if f.classifier {
		if err := trainClassifier(s, table, f.out); err != nil {
			return fmt.Errorf("%s: %w", f.outcomes, err)
		}
		return nil
	}
	options := f.options(s)
	var policy *policies.Policy
	if f.policy != "" {
		if policy, table, err = f.follow(table, &options); err != nil {
			return err
		}
	}
	how := fit.Fit
	if f.wantsPair(table) {
		how = fit.Pair
	}
	p, err := until(ctx, func() (*fit.Profile, error) { return how(ctx, table, options) })
	if err != nil {
		return addResumeHint(ctx, addLabelHint(err), "no profile is written; the same command begins anew")
	}
	if err := checkPromises(p); err != nil {
		return errors.Join(f.report(s, p, "no profile", policy, nil, use{}), fmt.Errorf("%w: %s is not written", err, f.out))
	}
	if err := p.Save(f.out); err != nil {
		return err
	}
	use, err := f.forecastUse(ctx, s, policy)
	if err != nil {
		return err
	}
	rival, err := rivalOf(ctx, p, policy, table)
	return errors.Join(err, f.report(s, p, f.out, policy, rival, use))
}

// addLabelHint says where qualities and outcomes of all models come from, where an error is that
// there are none, or too few.
func addLabelHint(err error) error {
	switch fault, ok := errors.AsType[*outcome.Error](err); {
	case ok && fault.Column == "quality" && fault.Row == 0:
		return fmt.Errorf("%w: nothing says how good an answer is. A verifier block in the policy judges answers, stepfall trace --run RUN --verdict tells how runs ended, "+
			"mode \"shadow\" asks further models to compare with, and stepfall collect asks all of them, with --agent COMMAND --check COMMAND for whole runs", err)
	case errors.Is(err, fit.ErrTooFew):
		return fmt.Errorf("%w. In use mode \"shadow\" asks the models that the policy leaves out, or explore in the trace block; stepfall collect asks all of them, with --agent COMMAND --check COMMAND for whole runs", err)
	}
	return err
}

// use is what `policy plan --traces` says of a policy with its profile and without one.
type use struct {
	With    *forecast.Forecast `json:"in_use,omitempty"`
	Without *forecast.Forecast `json:"in_use_without_profile,omitempty"`
}

// forecastUse fills a use where match blocks or a holdout have a part of the steps go another
// way than the profile's: only traces tell which, by their runs. It is empty otherwise.
func (f *fitFlags) forecastUse(ctx context.Context, s Streams, policy *policies.Policy) (u use, err error) {
	if policy == nil || len(policy.Matches) == 0 && policy.Holdout == nil || !isTraces(f.outcomes) {
		return u, nil
	}
	profile, err := filepath.Abs(f.out)
	if err != nil {
		return u, err
	}
	world, err := readTraces(ctx, s, f.outcomes)
	if err != nil {
		return u, err
	}
	enforced := *policy
	enforced.Mode, enforced.Fit = "enforce", nil
	if u.Without, err = forecast.New(ctx, &enforced, world, forecast.Options{Seed: planSeed}); err != nil {
		return u, err
	}
	enforced.Fit = &policies.Fit{Profile: profile}
	u.With, err = forecast.New(ctx, &enforced, world, forecast.Options{Seed: planSeed})
	return u, err
}

// isTraces reports whether a file begins with a trace in place of a table's rows.
func isTraces(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	var first struct {
		Decisions []json.RawMessage `json:"decisions"`
	}
	return json.NewDecoder(io.LimitReader(file, 16<<20)).Decode(&first) == nil && first.Decisions != nil
}

// policyRival is what the policy does without the profile, on the outcomes that it was fitted to.
type policyRival struct {
	Policy         string  `json:"policy"`
	CostUSD        float64 `json:"cost_usd"`
	Quality        float64 `json:"quality"`
	QualityStdErr  float64 `json:"quality_std_error"`
	RecommendsThis bool    `json:"recommended"` // the policy as it is, in place of the profile
	// Labels is what the qualities are where nothing judged the answers: then they recommend
	// neither, since who asks the reference model more often agrees with it more often.
	Labels string `json:"labels,omitempty"`
}

// rivalOf compares a profile with the policy that it is for, where the policy has something of its
// own that looks at answers: a comparison of them. The profile is better where it costs at least
// 3 % less at no less quality, or is better by two standard errors for no more.
func rivalOf(ctx context.Context, p *fit.Profile, policy *policies.Policy, t *outcome.Table) (*policyRival, error) {
	if policy == nil || t.Answers == nil || !slices.ContainsFunc(policy.Estimators, func(e policies.Estimator) bool { return e.BuiltIn() }) {
		return nil, nil
	}
	own, err := forecast.New(ctx, policy, &forecast.Table{Outcomes: t.Complete()}, forecast.Options{})
	if err != nil || own.Queries == 0 {
		return nil, err
	}
	r := &policyRival{Policy: policy.Path, CostUSD: own.CostUSD, Quality: own.Quality, QualityStdErr: own.QualityStdError, Labels: t.Labels}
	if t.Labels != "" {
		return r, nil
	}
	usd, quality := p.Expected.CostUSD, p.Expected.Quality
	if h := p.HeldOut; h != nil {
		usd, quality = h.CostUSD, h.Quality
	}
	isCheaper := usd <= 0.97*r.CostUSD && quality >= r.Quality
	isBetter := quality > r.Quality+2*r.QualityStdErr && usd <= r.CostUSD
	isOver := p.Budget.USD > 0 && r.CostUSD > p.Budget.USD*(1+fit.Tolerance) || p.Kept != nil || p.Served != nil
	r.RecommendsThis = !isCheaper && !isBetter && !isOver
	return r, nil
}

// print says which of the two to use.
func (r *policyRival) print(w *printer, profile string) {
	what := fmt.Sprintf("%s without a profile costs %s USD a query at %s %% on the same queries, each by itself", r.Policy, dollars(r.CostUSD), percent(r.Quality))
	switch {
	case r.Labels != "":
		w.f("%s (%s)\nWHICH OF THE TWO IS RIGHT MORE OFTEN these labels do not tell: whoever asks the reference model more often agrees with it more often. Verdicts on runs do (stepfall trace --run RUN --verdict passed), and a holdout of the policy in use\n", what, r.Labels)
	case r.RecommendsThis:
		w.f("%s: KEEP IT AS IT IS, %s is not expected to be better\n", what, profile)
	default:
		w.f("%s: %s is expected to be better, or keeps what was asked for\n", what, profile)
	}
}

// wantsPair reports whether the outcomes tell only what a reference model did, and nothing
// says what else to fit for.
func (f *fitFlags) wantsPair(t *outcome.Table) bool {
	return t.Reference != "" && t.Index(t.Reference) >= 0 && len(t.Models) > 2 && f.strategy == "" && f.budget == 0 && f.minQuality == 0 && f.asGoodAs == "" && f.maxWrong == 0
}

// checkPromises returns what was asked for and a profile, which then is not written, does not keep.
func checkPromises(p *fit.Profile) error {
	switch {
	case p.Budget.Over:
		return fmt.Errorf("the budget of %s USD a query cannot be met", dollars(p.Budget.USD))
	case p.Served != nil && p.Served.Estimate > 1:
		return fmt.Errorf("at most %.3g %% of wrong answers cannot be promised with confidence %.2g of any part of the answers; more outcomes, or estimates that tell more, are needed",
			100*p.Served.MaxWrong, p.Served.Confidence)
	}
	return nil
}

func (f *fitFlags) check() error {
	floor := f.minQuality != 0 || f.asGoodAs != ""
	switch {
	case f.outcomes == "":
		return usage("--outcomes is needed: the file of recorded outcomes to fit to, or the traces to check a profile by")
	case f.profile != "":
		return f.checkAlone()
	case f.out == "":
		return usage("--out is needed: the file to write the profile to")
	case f.strategy != "" && !slices.Contains(cascade.Names(), f.strategy):
		return usage("--strategy %q: want one of %q", f.strategy, cascade.Names())
	case f.budget < 0 || math.IsNaN(f.budget) || math.IsInf(f.budget, 0):
		return usage("--budget %v: want a number of US dollars from 0 up", f.budget)
	case f.minQuality != 0 && f.asGoodAs != "":
		return usage("--min-quality and --as-good-as: give one of them")
	case f.budget > 0 && floor:
		return usage("--budget says what may be spent, --min-quality and --as-good-as what must be reached: give one of them")
	case f.given("margin") && f.asGoodAs == "":
		return usage("--margin says how far below a model: give --as-good-as, too")
	case f.given("confidence") && !floor && !f.given("max-wrong"):
		return usage("--confidence is that of a promise: give --min-quality, --as-good-as or --max-wrong, too")
	}
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
	// What cannot be written is found before minutes are spent.
	if err := writable(f.out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// checkAlone refuses flags that say what to fit for where a profile is to be checked.
func (f *fitFlags) checkAlone() error {
	for _, flag := range []string{"policy", "budget", "min-quality", "as-good-as", "margin", "max-wrong", "confidence", "strategy", "estimator", "classifier", "models", "prompts", "verified"} {
		if f.given(flag) {
			return usage("--check goes with --outcomes and --out: a profile that is fitted anew is for what the old one is for, without --%s", flag)
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

// report prints what a profile promises.
func (f *fitFlags) report(s Streams, p *fit.Profile, path string, policy *policies.Policy, rival *policyRival, u use) error {
	result := fitResult{Profile: p, Written: checkPromises(p) == nil, Path: path, Rival: rival, use: u}
	if policy != nil {
		result.Unchecked = policy.UncheckedJudges(p.Estimator.Judges)
	}
	return s.render(result, func(w *printer) {
		reportFit(w, p, path, p.Data.Labels != "" || result.Unchecked != nil)
		w.warnUnchecked(f.policy, result.Unchecked)
		if u.With != nil {
			w.f("IN USE a query costs %s ± %s USD, and %s ± %s without the profile: %s with its match blocks and holdout, on the runs of these traces, as stepfall policy plan --traces has it\n",
				dollars(u.With.CostUSD), dollars(2*u.With.CostStdError), dollars(u.Without.CostUSD), dollars(2*u.Without.CostStdError), u.With.Policy)
		}
		if rival != nil {
			rival.print(w, path)
		}
	})
}

// fitResult is what `fit --json` prints: a profile without its estimator and curve, which
// are in the file.
type fitResult struct {
	*fit.Profile

	Curve     *struct{} `json:"curve,omitempty"`
	Estimator *struct{} `json:"estimator,omitempty"`
	Written   bool      `json:"written"`
	Path      string    `json:"path"`
	// Unchecked names the policy's judges whose errors these outcomes do not show.
	Unchecked []string `json:"unchecked_judges,omitempty"`
	// Rival is the policy without the profile, where it compares answers.
	Rival *policyRival `json:"without_profile,omitempty"`
	use
}

// follow takes models, prices and strategy from the policy, and returns the table of
// the policy's models.
func (f *fitFlags) follow(table *outcome.Table, o *fit.Options) (*policies.Policy, *outcome.Table, error) {
	policy, err := policies.Load(f.policy, policies.LoadOptions{WithoutProfile: true})
	if err != nil {
		return nil, nil, err
	}
	o.Models = policy.SDKModels()
	names := make([]string, len(o.Models))
	for i, m := range o.Models {
		names[i] = m.Name
	}
	if table, err = table.Select(names...); err != nil {
		return nil, nil, fmt.Errorf("policy %s: %w: stepfall collect asks each model; in production mode \"shadow\", or explore in the trace block, does", f.policy, err)
	}
	table = judgesOf(policy, table, o)
	if o.Strategy != "" {
		return policy, table, nil
	}
	setting := policy.Strategy.Setting()
	o.Strategy = setting.Name
	if o.Params, err = setting.Params(names); err != nil {
		return nil, nil, err
	}
	return policy, table, nil
}

// enoughLabels is how many steps with every model's answer it takes until agreement with
// a reference tells models apart as well as it ever does.
const enoughLabels = 200

// judgesOf returns the table with the verdicts of the policy's verifiers, and tells the fit
// which of their error rates the policy says. Where none of them has verdicts beside the
// truth, the truth is taken for theirs.
func judgesOf(p *policies.Policy, t *outcome.Table, o *fit.Options) *outcome.Table {
	own := *t
	own.Verdicts = nil
	o.Estimate.Judges = map[string]cascade.Rates{}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		verdicts, recorded := t.Verdicts[v.Name]
		if !recorded || !v.Judges() {
			continue
		}
		if own.Verdicts == nil {
			own.Verdicts = map[string][][]float64{}
		}
		own.Verdicts[v.Name] = verdicts
		o.Estimate.JudgeOrder = append(o.Estimate.JudgeOrder, v.Name)
		if rates := v.StatedRates(); rates != nil {
			o.Estimate.Judges[v.Name] = *rates
		}
	}
	own.Verified = own.Verdicts == nil && (own.Verified || len(p.Verifiers) > 0 && own.Labels == "")
	return &own
}

// reportFit prints what a profile promises and how far it can be believed. Of labels that may
// err nothing is promised.
func reportFit(w *printer, p *fit.Profile, path string, mayErr bool) {
	st := &p.Strategy
	values := st.Lambdas
	knob := "lambda"
	if values == nil {
		values, knob = st.Thresholds, "threshold"
	}
	w.f("%s: strategy %s, %s %.6g, gamma %.3g", path, st.Name, knob, values, st.Gamma)
	if st.Scale != 0 || st.NoExpect {
		w.f(", scale %.2g", st.Scale)
	}
	if st.MaxDepth > 0 {
		w.f(", at most %d models a query", st.MaxDepth)
	}
	w.f("\nfitted to %d queries (%d with every model), estimators %s and %s\n",
		p.Data.Queries, p.Data.Complete, p.Estimator.Quality.Kind(), p.Estimator.Cost.Kind())
	if p.Data.Drawn > 0 {
		w.f("%d of %d outcomes are of models that were not asked: drawn, with the means that those asked by chance tell\n", p.Data.Drawn, p.Data.Queries*len(p.Models))
	}

	quality := "quality %"
	if p.Data.Labels != "" {
		quality = p.Data.Labels + " %"
		w.f("fitted to %s, which measures no quality\n", p.Data.Labels)
		for _, m := range p.Models {
			if m.Right > 0 {
				w.f("%s is right in about %.0f %% (by agreement alone, within some 7 points)\n", m.Name, 100*m.Right)
			}
		}
		if more := enoughLabels - p.Data.Complete; more > 0 {
			w.f("such labels settle by about %d shadowed steps which model is best: %d more are wanted\n", enoughLabels, more)
		}
	}
	if n := len(st.Order); p.Data.Labels != "" && p.Budget.USD == 0 && p.Kept == nil && n == 3 {
		w.f("%s and %s are asked, and %s where their answers differ: of all pairs the cheapest whose cascade gives its answer on 93 %% of the steps\n", st.Order[0], st.Order[1], st.Order[2])
	}
	table := w.table(column{name: ""}, column{"USD per query", true}, column{quality, true}, column{"models run", true})
	if p.Budget.USD > 0 {
		table.row("budget", dollars(p.Budget.USD), "", "")
	}
	table.row("fitted", dollars(p.Expected.CostUSD), percent(p.Expected.Quality), fmt.Sprintf("%.2f", p.Expected.Steps))
	if h := p.HeldOut; h != nil {
		table.row("held out", dollars(h.CostUSD)+" ± "+dollars(2*h.CostStdError), percent(h.Quality), "")
	}
	table.print()
	switch {
	case p.Budget.Over:
		w.f("THE BUDGET CANNOT BE MET: at its cheapest the strategy spends %s USD a query\n", dollars(p.Expected.CostUSD))
	case p.Budget.USD > 0 && !p.Budget.Reached:
		w.f("the budget is not used up: %s USD a query is the most that is worth spending\n", dollars(p.Expected.CostUSD))
	}
	if h := p.HeldOut; h != nil && !p.Budget.Over {
		reportPromise(w, h, p.Data.Complete, p.Budget.Reached)
	}
	reportQuality(w, p, mayErr)
	for _, judge := range slices.Sorted(maps.Keys(p.Estimator.Judges)) {
		r := p.Estimator.Judges[judge]
		w.f("judge %s passes %.1f %% of wrong answers and rejects %.1f %% of right ones: its verdicts are evidence\n", judge, 100*r.FalsePass, 100*r.FalseReject)
	}
	c := &p.Calibration
	w.f("Brier score of estimates (of each model's mean alone): ex-ante %.4f (%.4f), post-hoc %.4f (%.4f)\n",
		c.Ante.Brier, c.Ante.Reference, c.Post.Brier, c.Post.Reference)
	bins := w.table(column{name: "estimate"}, column{"ex-ante", true}, column{"quality %", true}, column{"post-hoc", true}, column{"quality %", true})
	for i := range c.Ante.Bins {
		a, b := c.Ante.Bins[i], c.Post.Bins[i]
		bins.row(fmt.Sprintf("%.1f to %.1f", float64(i)/10, float64(i+1)/10), a.Count, share(a), b.Count, share(b))
	}
	bins.print()
}

// reportQuality says what is promised of quality.
func reportQuality(w *printer, p *fit.Profile, mayErr bool) {
	promised := "PROMISED"
	if mayErr {
		promised = "no promise, since these labels may err, but by them,"
	}
	if k := p.Kept; k != nil {
		difference := ""
		if k.AsGoodAs != "" {
			difference = " above it"
		}
		w.f("%s with confidence %.2g over %d new queries: %s; on queries not seen it was %.2f points%s\n",
			promised, k.Confidence, p.Data.Complete, k.String(), 100*k.Quality, difference)
	}
	v := p.Served
	switch {
	case v == nil:
	case v.Estimate > 1:
		w.f("AT MOST %.3g %% WRONG CANNOT BE PROMISED of any part of the answers, by these outcomes\n", 100*v.MaxWrong)
	default:
		w.f("%s with confidence %.2g: of answers with an estimate of at least %.4f at most %.3g %% are wrong; on queries not seen %.1f %% of all answers were such, and %.1f %% of those wrong\n",
			promised, v.Confidence, v.Estimate, 100*v.MaxWrong, 100*v.Share, 100*v.Wrong)
	}
}

// reportPromise says whether the budget held on queries not seen, and what can be
// promised of those to come.
func reportPromise(w *printer, h *fit.HeldOut, queries int, reached bool) {
	verdict := "held"
	if !h.Held {
		verdict = "DID NOT HOLD"
	}
	w.f("on queries not seen the budget %s to within %.0f %%\n", verdict, 100*fit.Tolerance)
	paced := ""
	if reached { // else there is nothing to pace: the router never comes up to it
		paced = fmt.Sprintf(" by the fitted numbers alone, %.2f when a router paces them", h.Paced)
	}
	w.f("%d new queries stay within %.0f %% of it with probability %.2f%s\n", queries, 100*fit.Tolerance, h.Confidence, paced)
	switch h.Promise {
	case fit.PromiseAlways:
		w.f("the budget is promised\n")
		return
	case fit.PromisePaced:
		w.f("the budget is promised where spending is paced, as routers do with a profile (hold_over in the budget block)\n")
	case fit.PromiseNone:
		w.f("THE BUDGET CANNOT BE PROMISED for %d queries: costs differ too much from query to query\n", queries)
	}
	if h.From > 0 {
		w.f("by the fitted numbers alone it would be from %d queries on\n", h.From)
	} else {
		w.f("by the fitted numbers alone it cannot be for any number of queries: %d outcomes say too little about costs\n", queries)
	}
}

func share(b fit.Bin) string {
	if b.Count == 0 {
		return "-"
	}
	return percent(b.Quality)
}
