package forecast

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/step"
)

// Forecast is the predicted behaviour of a policy on a sample.
type Forecast struct {
	// Policy is the policy's path.
	Policy string `json:"policy"`
	// Queries is the number of queries, times the number of draws.
	Queries int `json:"queries"`
	// CostUSD and Quality are means over queries; unanswered queries have quality 0. Quality is omitted where some
	// answers were judged and others estimated: Judged and Guessed are then given separately.
	CostUSD float64 `json:"cost_usd"`
	Quality float64 `json:"quality,omitempty"`
	// CostStdError and QualityStdError are the standard errors of those means over the queries; [RepeatInterval] gives an
	// interval for as many further queries. Queries of one run count as one. The uncertainty about how answers agree
	// is included.
	CostStdError    float64 `json:"cost_std_error"`
	QualityStdError float64 `json:"quality_std_error,omitempty"`
	// Always compares with always asking the baseline, or the most expensive model where the policy has none; nil
	// where the policy does that itself.
	Always *Always `json:"always,omitempty"`
	// InputTokens is the mean length of the prompts.
	InputTokens float64 `json:"input_tokens"`
	// Judged is the quality of the returned answers with a recorded verdict, table quality or run verdict; Guessed is
	// that of the others, which is estimated or drawn from beliefs.
	Judged  Score `json:"judged"`
	Guessed Score `json:"guessed"`
	// ShadowUSD is the spend of the mode shadow on top of the baseline, per query.
	ShadowUSD float64 `json:"shadow_usd"`
	// ExploreUSD is the part of CostUSD spent on models that were drawn for exploration.
	ExploreUSD float64 `json:"explore_usd"`
	// VerdictsUSD is the part of CostUSD spent on verdicts. Unpriced names the policy's paid verifiers without
	// recorded prices, which count as free.
	VerdictsUSD float64  `json:"verdicts_usd"`
	Unpriced    []string `json:"unpriced_verifiers,omitempty"`
	// Unchecked names the verifiers whose verdicts are evidence at error rates that no outcomes have confirmed.
	Unchecked []string `json:"unchecked_judges,omitempty"`
	// Steps is the mean number of models run, and FailedCalls the mean number of calls that failed, as recorded ones
	// did.
	Steps       float64 `json:"models_run"`
	FailedCalls float64 `json:"failed_calls"`
	// Moves is the share of queries for which a session switches to another model.
	Moves float64 `json:"session_moves"`
	// Models has one entry for each model of the policy, in its order.
	Models []ModelUse `json:"models"`
	// Matches counts the queries of each match block; "" is the policy's own strategy.
	Matches map[string]int `json:"matches"`
	// Capped counts steps that a cap ended with an answer, Refused those that a cap left without one, Infeasible
	// those that no model could take, Unanswered those whose models all failed.
	Capped     int `json:"capped"`
	Refused    int `json:"refused"`
	Infeasible int `json:"infeasible"`
	Unanswered int `json:"unanswered"`
	// Unknown counts calls of models that the world has no outcome for; these were drawn from beliefs. Where answers
	// are compared, Compared counts the queries with answers of several models, from which their agreement is
	// learned.
	Unknown int `json:"unknown"`
	// Assumed counts the calls with a recorded outcome but no recorded cost, which is computed from the recorded
	// lengths or, without them, from the policy's expected ones.
	Assumed  int `json:"assumed_costs,omitempty"`
	Compared int `json:"compared,omitempty"`
	// Unrecorded counts the verdicts requested on recorded answers that are not recorded themselves; they count as
	// inconclusive.
	Unrecorded int `json:"unrecorded_verdicts,omitempty"`
	// Traces holds the trace of each query, in order, when Options.Keep is set.
	Traces []*sdk.Trace `json:"-"`

	samples []sample
	// resampled reports that each trial draws its runs, so that the variance of a figure between trials includes that
	// between runs.
	resampled bool
}

// sample is the result of one query.
type sample struct {
	trial, cluster     int
	usd, quality       float64
	variance           float64 // variance of correctness, given quality
	answered, isJudged bool
	ran                []bool // by model
}

// Score is a mean quality over some of the answers.
type Score struct {
	Answers  int     `json:"answers"`
	Mean     float64 `json:"mean"`
	StdError float64 `json:"std_error"`
}

// ModelUse describes how a policy uses a model.
type ModelUse struct {
	Model string `json:"model"`
	// Ran and Chosen are the shares of queries for which it was run, and gave the returned answer.
	Ran    float64 `json:"ran"`
	Chosen float64 `json:"chosen"`
	// RanStdError is the standard error of Ran.
	RanStdError float64 `json:"ran_std_error"`
	// CostUSD is its cost per query, averaged over all queries.
	CostUSD float64 `json:"cost_usd"`
}

// Options configures a forecast.
type Options struct {
	// Keep keeps the traces; Explain adds the alternatives of each decision to them.
	Keep, Explain bool
	// Estimator, when not nil, replaces the policy's profile or beliefs.
	Estimator *estimate.Estimator
	// Seed seeds the policy's random choices.
	Seed uint64
	// Progress, when not nil, is called after each query with the number of queries completed since the last call;
	// with several trials, each adds its share of a query.
	Progress func(n int)
}

// New forecasts p in w.
func New(ctx context.Context, p *policies.Policy, w World, o Options) (*Forecast, error) {
	f := &Forecast{Policy: p.Path, Matches: map[string]int{}, Models: make([]ModelUse, len(p.Models))}
	for i := range p.Models {
		f.Models[i].Model = p.Models[i].Name
	}
	r, err := rehearse(p, w, f, &o)
	if err != nil {
		return nil, err
	}
	f.Unpriced, f.Unchecked = unpricedVerifiers(p, w), r.uncheckedJudges(&o)
	clusters := r.clusters()
	f.resampled = r.resamples()
	for r.trial = range r.trials() {
		r.places = r.order(clusters)
		for k := range r.places {
			if err := r.runQuery(ctx, k); err != nil {
				return nil, err
			}
			if o.Progress != nil {
				o.Progress(r.shareOfQueries(k+1) - r.shareOfQueries(k))
			}
		}
	}
	f.mean(r.trials())
	f.Always, err = f.compareToBaseline(ctx, p, w, o)
	return f, err
}

// unpricedVerifiers names the verifiers that can cost something, but have no prices in the world.
func unpricedVerifiers(p *policies.Policy, w World) (names []string) {
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		known := false
		if j, ok := w.(verdictCosts); ok && w.Len() > 0 {
			_, known = j.VerdictUSD(0, v.Name, "")
		}
		if v.MaxUSD > 0 && v.Judges() && !known {
			names = append(names, v.Name)
		}
	}
	return names
}

func (f *Forecast) mean(trials int) {
	n := float64(max(1, f.Queries))
	for _, sum := range []*float64{&f.InputTokens, &f.ShadowUSD, &f.ExploreUSD, &f.VerdictsUSD, &f.Steps, &f.FailedCalls, &f.Moves} {
		*sum /= n
	}
	f.CostUSD, f.CostStdError, _ = f.figure(func(s *sample) (float64, bool) { return s.usd, true })
	all := f.score(func(*sample) bool { return true })
	f.Quality, f.QualityStdError = all.Mean, all.StdError
	f.Judged = f.score(func(s *sample) bool { return s.answered && s.isJudged })
	f.Guessed = f.score(func(s *sample) bool { return s.answered && !s.isJudged })
	if f.Judged.Answers > 0 && f.Guessed.Answers > 0 {
		f.Quality, f.QualityStdError = 0, 0
	}
	for i := range f.Models {
		m := &f.Models[i]
		m.Chosen, m.CostUSD = m.Chosen/n, m.CostUSD/n
		m.Ran, m.RanStdError, _ = f.figure(func(s *sample) (float64, bool) {
			if s.ran[i] {
				return 1, true
			}
			return 0, true
		})
	}
	counts := []*int{&f.Queries, &f.Judged.Answers, &f.Guessed.Answers, &f.Capped, &f.Refused, &f.Infeasible, &f.Unanswered, &f.Unknown, &f.Assumed}
	for _, count := range counts {
		*count = (*count + trials/2) / trials
	}
	for name, count := range f.Matches {
		f.Matches[name] = count / trials
	}
}

// score returns the mean quality of the samples that count. Its standard error includes the variance of single
// answers, whose qualities may only be probabilities.
func (f *Forecast) score(counts func(*sample) bool) (s Score) {
	s.Mean, s.StdError, s.Answers = f.figure(func(s *sample) (float64, bool) { return s.quality, counts(s) })
	variance := 0.0
	for i := range f.samples {
		if counts(&f.samples[i]) {
			variance += f.samples[i].variance
		}
	}
	if variance > 0 {
		trials := float64(f.samples[len(f.samples)-1].trial + 1)
		s.StdError = math.Hypot(s.StdError, math.Sqrt(variance*trials)/float64(s.Answers))
	}
	return s
}

// figure returns the mean of a value over the samples that have it, its standard error, from the variance between
// independent clusters and between trials, and the number of samples.
func (f *Forecast) figure(value func(*sample) (v float64, counts bool)) (mean, stdError float64, n int) {
	var sums, counts []float64 // by trial
	for i := range f.samples {
		s := &f.samples[i]
		for len(sums) <= s.trial {
			sums, counts = append(sums, 0), append(counts, 0)
		}
		if v, ok := value(s); ok {
			sums[s.trial] += v
			counts[s.trial]++
			mean += v
			n++
		}
	}
	if n == 0 {
		return 0, 0, 0
	}
	mean /= float64(n)
	var rests []float64 // in sample order, so that float sums are reproducible
	at := map[[2]int]int{}
	for i := range f.samples {
		s := &f.samples[i]
		if v, ok := value(s); ok {
			key := [2]int{s.trial, s.cluster}
			if _, ok := at[key]; !ok {
				at[key] = len(rests)
				rests = append(rests, 0)
			}
			rests[at[key]] += v - sums[s.trial]/counts[s.trial]
		}
	}
	within, clusters := 0.0, float64(len(rests))/float64(len(sums))
	for _, rest := range rests {
		within += rest * rest
	}
	if clusters <= 1 {
		return mean, 0, n
	}
	perTrial := float64(n) / float64(len(sums))
	if within *= clusters / (clusters - 1) / float64(len(sums)) / (perTrial * perTrial); f.resampled {
		within = 0
	}
	between := 0.0
	for t := range sums {
		if counts[t] > 0 {
			between += (sums[t]/counts[t] - mean) * (sums[t]/counts[t] - mean)
		}
	}
	return mean, math.Sqrt(within + between/float64(max(len(sums)-1, 1))), n
}

func (f *Forecast) add(s sample, res *step.Result, truth map[string]Outcome, err error) error {
	f.Queries++
	s.usd, s.ran = res.Trace.CostUSD, make([]bool, len(f.Models))
	defer func() { f.samples = append(f.samples, s) }()
	f.VerdictsUSD += res.Trace.VerdictsUSD()
	for _, call := range res.Trace.Calls {
		if call.Propensity > 0 && call.Propensity < 1 {
			f.ExploreUSD += call.CostUSD
		}
		if call.Error != "" {
			f.FailedCalls++
			continue
		}
		f.Steps++
		if i := slices.IndexFunc(f.Models, func(m ModelUse) bool { return m.Model == call.Model }); i >= 0 {
			s.ran[i] = true
			f.Models[i].CostUSD += call.CostUSD
		}
	}
	switch {
	case err == nil && res.Answer != nil:
		f.Models[res.Index].Chosen++
		o := truth[res.Trace.Chosen]
		s.quality, s.answered, s.isJudged = o.truth(), true, o.Judged || o.Ended
		if o.IsChance {
			s.variance = s.quality * (1 - s.quality)
		}
		if res.Trace.Stop == sdk.StopBudget {
			f.Capped++
		}
	case errors.Is(err, sdk.ErrBudgetExhausted):
		f.Refused++
	case errors.Is(err, sdk.ErrNoFeasibleModel):
		f.Infeasible++
	case errors.Is(err, errRecorded):
		f.Unanswered++
	default:
		return err
	}
	return nil
}
