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
	// queries: how far another sample of as many queries would lie from this one.
	CostStdError    float64 `json:"cost_std_error"`
	QualityStdError float64 `json:"quality_std_error,omitempty"`
	// Judged is the quality of the returned answers of which a verdict or a table's quality
	// is recorded, Guessed that of the others, as they were estimated or drawn from beliefs.
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
	// taken from beliefs.
	Unknown int `json:"unknown"`
	// Traces are those of each query, in order, when Options.Keep is set.
	Traces []*sdk.Trace `json:"-"`

	costSquares, qualitySquares float64
}

// Score is a mean quality over some of the answers.
type Score struct {
	Answers  int     `json:"answers"`
	Mean     float64 `json:"mean"`
	StdError float64 `json:"std_error"`

	squares float64
}

func (s *Score) add(quality float64) {
	s.Answers++
	s.Mean += quality
	s.squares += quality * quality
}

// finish turns the sum into the mean.
func (s *Score) finish() {
	n := float64(max(1, s.Answers))
	s.StdError = stdError(s.Mean, s.squares, n)
	s.Mean /= n
}

// ModelUse is how a model is used.
type ModelUse struct {
	Model string `json:"model"`
	// Ran and Chosen are the shares of queries for which it was run, and of which it
	// gave the answer.
	Ran    float64 `json:"ran"`
	Chosen float64 `json:"chosen"`
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
	// Progress, when not nil, is called after each query.
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
	f.Unpriced = unpriced(p, w)
	for n := range w.Len() {
		if err := r.one(ctx, n); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(1)
		}
	}
	f.mean()
	return f, nil
}

// unpriced names the verifiers that may cost something, of which the world does not know
// what they did.
func unpriced(p *policies.Policy, w World) (names []string) {
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		known := false
		if j, ok := w.(Judged); ok && w.Len() > 0 {
			_, known = j.VerdictUSD(0, v.Name, "")
		}
		if v.MaxUSD > 0 && v.Judges() && !known {
			names = append(names, v.Name)
		}
	}
	return names
}

func (f *Forecast) mean() {
	n := float64(max(1, f.Queries))
	f.CostStdError, f.QualityStdError = stdError(f.CostUSD, f.costSquares, n), stdError(f.Quality, f.qualitySquares, n)
	for _, sum := range []*float64{&f.CostUSD, &f.Quality, &f.ShadowUSD, &f.ExploreUSD, &f.VerdictsUSD, &f.Steps, &f.FailedCalls, &f.Moves} {
		*sum /= n
	}
	f.Judged.finish()
	f.Guessed.finish()
	if f.Judged.Answers > 0 && f.Guessed.Answers > 0 {
		f.Quality, f.QualityStdError = 0, 0
	}
	for i := range f.Models {
		m := &f.Models[i]
		m.Ran, m.Chosen, m.CostUSD = m.Ran/n, m.Chosen/n, m.CostUSD/n
	}
}

// stdError is the standard error of the mean of n numbers, 0 where one number does not
// tell.
func stdError(sum, squares, n float64) float64 {
	if n < 2 {
		return 0
	}
	return math.Sqrt(max(0, squares-sum*sum/n) / (n - 1) / n)
}

// add counts what a step came to.
func (f *Forecast) add(res *step.Result, truth map[string]Outcome, err error) error {
	f.Queries++
	f.CostUSD += res.Trace.CostUSD
	f.costSquares += res.Trace.CostUSD * res.Trace.CostUSD
	for _, call := range res.Trace.Calls {
		if call.Propensity > 0 && call.Propensity < 1 {
			f.ExploreUSD += call.CostUSD
		}
		if call.Verdict != nil {
			f.VerdictsUSD += call.Verdict.CostUSD
		}
		if call.Error != "" {
			f.FailedCalls++
			continue
		}
		f.Steps++
		if i := slices.IndexFunc(f.Models, func(m ModelUse) bool { return m.Model == call.Model }); i >= 0 {
			f.Models[i].Ran++
			f.Models[i].CostUSD += call.CostUSD
		}
	}
	switch {
	case err == nil && res.Answer != nil:
		f.Models[res.Index].Chosen++
		o := truth[res.Trace.Chosen]
		quality := o.Quality
		if o.Judged {
			f.Judged.add(quality)
		} else {
			f.Guessed.add(quality)
		}
		f.Quality += quality
		f.qualitySquares += quality * quality
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
