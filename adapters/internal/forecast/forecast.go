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

// Forecast is what a policy would do on a sample.
type Forecast struct {
	// Policy is the policy's path.
	Policy string `json:"policy"`
	// Queries is the number of queries, or of queries times draws.
	Queries int `json:"queries"`
	// CostUSD and Quality are means over queries; unanswered queries have quality 0. There
	// is no Quality where some of the answers were judged and others are guessed at: see
	// Judged and Guessed, which are never mixed.
	CostUSD float64 `json:"cost_usd"`
	Quality float64 `json:"quality,omitempty"`
	// CostStdError and QualityStdError are the standard errors of those means over the
	// queries. [Further] is how far as many further queries may lie from these. Queries of
	// one run count as one, and what is not known of how answers agree is in them.
	CostStdError    float64 `json:"cost_std_error"`
	QualityStdError float64 `json:"quality_std_error,omitempty"`
	// Always is what always asking the baseline costs, or the dearest model where the policy
	// has none; nil where that is what the policy does.
	Always *Always `json:"always,omitempty"`
	// InputTokens is the mean length of the prompts.
	InputTokens float64 `json:"input_tokens"`
	// Judged is the quality of the returned answers of which a verdict, a table's quality or how
	// the run ended is recorded, Guessed that of the others, as they were estimated or drawn from beliefs.
	Judged  Score `json:"judged"`
	Guessed Score `json:"guessed"`
	// ShadowUSD is what the mode shadow spends beside the baseline, per query.
	ShadowUSD float64 `json:"shadow_usd"`
	// ExploreUSD is what of CostUSD went to models that were drawn for the record.
	ExploreUSD float64 `json:"explore_usd"`
	// VerdictsUSD is what of CostUSD verifiers asked for their verdicts, and Unpriced names
	// the policy's verifiers whose verdicts cost something of which nothing is recorded:
	// they count as free.
	VerdictsUSD float64  `json:"verdicts_usd"`
	Unpriced    []string `json:"unpriced_verifiers,omitempty"`
	// Unchecked names the verifiers whose verdicts are evidence at rates that no outcomes
	// have shown.
	Unchecked []string `json:"unchecked_judges,omitempty"`
	// Steps is the mean number of models run, and FailedCalls that of calls that gave
	// no answer, as recorded ones did.
	Steps       float64 `json:"models_run"`
	FailedCalls float64 `json:"failed_calls"`
	// Moves is the share of queries that a session takes to another model than its
	// last one.
	Moves float64 `json:"session_moves"`
	// Models has one entry for each model of the policy, in its order.
	Models []ModelUse `json:"models"`
	// Matches counts the queries of each match block; "" is the policy's own strategy.
	Matches map[string]int `json:"matches"`
	// Capped counts steps that a cap ended with an answer, Refused those that a cap
	// left without one, Infeasible those that no model could be asked, Unanswered
	// those whose models all failed.
	Capped     int `json:"capped"`
	Refused    int `json:"refused"`
	Infeasible int `json:"infeasible"`
	Unanswered int `json:"unanswered"`
	// Unknown counts calls of models of which the world knows nothing; they were
	// taken from beliefs. Where answers are compared, Compared counts the queries with
	// answers of several models, from which it is learnt how often such answers agree.
	Unknown int `json:"unknown"`
	// Assumed counts the calls with a recorded outcome whose cost is not recorded: the price of
	// the lengths that are, and else of those that the policy expects.
	Assumed  int `json:"assumed_costs,omitempty"`
	Compared int `json:"compared,omitempty"`
	// Unrecorded counts the verdicts that were asked for on recorded answers and are not recorded
	// themselves: they count as inconclusive.
	Unrecorded int `json:"unrecorded_verdicts,omitempty"`
	// Traces are those of each query, in order, when Options.Keep is set.
	Traces []*sdk.Trace `json:"-"`

	samples []sample
	// resampled says that each trial draws its runs: what a figure differs by between trials has in it
	// what it differs by between runs.
	resampled bool
}

// sample is what one query came to.
type sample struct {
	trial, cluster     int
	usd, quality       float64
	variance           float64 // of whether the answer is right, around its quality
	answered, isJudged bool
	ran                []bool // by model
}

// Score is a mean quality over some of the answers.
type Score struct {
	Answers  int     `json:"answers"`
	Mean     float64 `json:"mean"`
	StdError float64 `json:"std_error"`
}

// ModelUse is how a model is used.
type ModelUse struct {
	Model string `json:"model"`
	// Ran and Chosen are the shares of queries for which it was run, and of which it
	// gave the answer.
	Ran    float64 `json:"ran"`
	Chosen float64 `json:"chosen"`
	// RanStdError is the standard error of Ran.
	RanStdError float64 `json:"ran_std_error"`
	// CostUSD is what it cost per query, on average over all queries.
	CostUSD float64 `json:"cost_usd"`
}

// Options says how a forecast is made.
type Options struct {
	// Keep keeps the traces, and Explain the alternatives of each decision in them.
	Keep, Explain bool
	// Estimator, when not nil, gives quality and cost in place of the policy's profile
	// or beliefs.
	Estimator *estimate.Estimator
	// Seed decides what the policy leaves to chance.
	Seed uint64
	// Traces, when not nil, receives the trace of each step.
	Traces step.Sink
	// Progress, when not nil, is called after each query with how many of them are done by it: a part of
	// one where there are several trials adds up.
	Progress func(n int)
}

// New returns what p would do in w.
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

// unpricedVerifiers names the verifiers that may cost something, but have no costs in the world.
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

// score returns the mean quality of the samples that count. Its standard error includes the
// variance of single answers, whose qualities may only be probabilities.
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

// figure returns the mean of a value over the samples that have it, its standard error, from
// the variance between independent clusters and between trials, and the number of samples.
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
	var rests []float64 // in the order of the samples, so that sums are the same each time
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
