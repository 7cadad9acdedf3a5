package forecast

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/step"
)

// Forecast is what a policy would do on a sample.
type Forecast struct {
	// Policy is the policy's path.
	Policy string
	// Queries is the number of queries, or of queries times draws.
	Queries int
	// CostUSD and Quality are means over queries; unanswered queries have quality 0.
	CostUSD, Quality float64
	// Steps is the mean number of models run.
	Steps float64
	// Models has one entry for each model of the policy, in its order.
	Models []ModelUse
	// Matches counts the queries of each match block; "" is the policy's own strategy.
	Matches map[string]int
	// Capped counts steps that a cap ended with an answer, Refused those that a cap
	// left without one, Infeasible those that no model could be asked.
	Capped, Refused, Infeasible int
	// Unknown counts calls of models of which the world knows nothing; they were
	// taken from beliefs.
	Unknown int
	// Steps of each query, in order, when Options.Keep is set.
	Traces []*sdk.Trace
}

// ModelUse is how a model is used.
type ModelUse struct {
	Model string
	// Ran and Chosen are the shares of queries for which it was run, and of which it
	// gave the answer.
	Ran, Chosen float64
	// CostUSD is what it cost per query, on average over all queries.
	CostUSD float64
}

// Options says how a forecast is made.
type Options struct {
	// Keep keeps the traces, with alternatives.
	Keep bool
	// Progress, when not nil, is called after each query.
	Progress func(n int)
}

// New returns what p would do in w.
func New(ctx context.Context, p *policies.Policy, w World, o Options) (*Forecast, error) {
	r := &rehearsal{policy: p, world: w, models: p.SDKModels()}
	engine, err := r.engine(o.Keep)
	if err != nil {
		return nil, err
	}
	f := &Forecast{Policy: p.Path, Matches: map[string]int{}, Models: make([]ModelUse, len(p.Models))}
	for i := range p.Models {
		f.Models[i].Model = p.Models[i].Name
	}
	for n := range w.Len() {
		if err := r.one(ctx, engine, n, f, o.Keep); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(1)
		}
	}
	f.mean()
	return f, nil
}

func (f *Forecast) mean() {
	n := float64(max(1, f.Queries))
	f.CostUSD /= n
	f.Quality /= n
	f.Steps /= n
	for i := range f.Models {
		m := &f.Models[i]
		m.Ran, m.Chosen, m.CostUSD = m.Ran/n, m.Chosen/n, m.CostUSD/n
	}
}

// rehearsal runs one policy in one world.
type rehearsal struct {
	policy *policies.Policy
	world  World
	models []sdk.Model
	// plans are the strategies of match blocks.
	plans   map[*policies.Strategy]*step.Plan
	profile *fit.Profile
}

func (r *rehearsal) engine(explain bool) (*step.Engine, error) {
	p := r.policy
	c := step.Config{
		StepCapUSD: p.Budget.StepUSD, FailAtCap: p.Budget.AtCap == "fail", Checks: []step.Check{},
		Retry: step.Retry{MaxAttempts: 1}, Coin: func() float64 { return 0.5 }, Explain: explain,
	}
	for i := range p.Models {
		c.Candidates = append(c.Candidates, step.Candidate{
			Model: r.models[i], Quality: p.Models[i].Quality.SDK(), OutputTokens: p.Models[i].ExpectedOutputTokens,
		})
	}
	var ante sdk.QualityEstimator
	if p.Fit != nil {
		var err error
		if r.profile, err = fit.Load(p.Fit.Profile, r.models); err != nil {
			return nil, err
		}
		names := make([]string, len(r.models))
		for i := range r.models {
			names[i] = r.models[i].Name
		}
		if c.Strategy, err = r.profile.NewStrategy(names); err != nil {
			return nil, err
		}
		c.StrategyName, c.Lambdas, c.Gamma = r.profile.Strategy.Name, r.profile.Strategy.Lambdas, r.profile.Strategy.Gamma
		ante, c.Cost = r.profile.Estimator.QualityEstimator(), r.profile.Estimator.CostEstimator()
	} else {
		var err error
		if c.Strategy, err = p.Strategy.Cascade(r.models); err != nil {
			return nil, err
		}
		c.StrategyName, c.Lambdas, c.Gamma = p.Strategy.CascadeName(), p.Strategy.Lambda, p.Strategy.Gamma
	}
	c.Quality = estimator{fitted: ante, recorded: r.world.Recorded()}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		own := step.Verifier{Name: v.Name, Models: v.Models, Verifier: sdk.VerifierFunc(verify)}
		if !v.When.Empty() {
			own.Applies = v.When.Matches
		}
		c.Verifiers = append(c.Verifiers, own)
	}
	r.plans = map[*policies.Strategy]*step.Plan{}
	for i := range p.Matches {
		s := p.Matches[i].Strategy
		strategy, err := s.Cascade(r.models)
		if err != nil {
			return nil, fmt.Errorf("match %s: %w", p.Matches[i].Name, err)
		}
		r.plans[s] = &step.Plan{Strategy: strategy, Name: s.CascadeName(), Lambdas: s.Lambda, Gamma: s.Gamma}
	}
	return step.New(c)
}

// one runs query n and adds it to f.
func (r *rehearsal) one(ctx context.Context, engine *step.Engine, n int, f *Forecast, keep bool) error {
	q := r.world.Query(n)
	choice := r.policy.Choose(q)
	req := step.Request{
		Query: q, Plan: r.plans[choice.Strategy],
		Caller: step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) { return r.answer(n, c, f), nil }),
		Exclude: func(i int) string {
			if choice.Candidates[i] {
				return ""
			}
			return fmt.Sprintf("is no candidate of match %s", choice.Match)
		},
	}
	res, err := engine.Run(ctx, req)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if res == nil || res.Trace == nil {
		return fmt.Errorf("query %d: %w", n, err)
	}
	f.Queries++
	f.Matches[choice.Match]++
	f.CostUSD += res.Trace.CostUSD
	f.Steps += float64(len(res.Trace.Calls))
	for _, call := range res.Trace.Calls {
		if i := slices.IndexFunc(f.Models, func(m ModelUse) bool { return m.Model == call.Model }); i >= 0 {
			f.Models[i].Ran++
			f.Models[i].CostUSD += call.CostUSD
		}
	}
	switch {
	case err == nil && res.Answer != nil:
		f.Models[res.Index].Chosen++
		f.Quality += res.Answer.Signals[signalTruth]
		if res.Trace.Stop == sdk.StopBudget {
			f.Capped++
		}
	case errors.Is(err, sdk.ErrBudgetExhausted):
		f.Refused++
	case errors.Is(err, sdk.ErrNoFeasibleModel):
		f.Infeasible++
	default:
		return fmt.Errorf("query %d: %w", n, err)
	}
	if keep {
		f.Traces = append(f.Traces, res.Trace)
	}
	return nil
}

// Names of the signals in which an answer carries what the world knows of it.
const (
	signalTruth    = "forecast:quality"
	signalEstimate = "forecast:estimate"
)

// answer is the answer that the world has of a model.
func (r *rehearsal) answer(n int, c *step.Call, f *Forecast) *sdk.Answer {
	m := &r.policy.Models[c.Index]
	who := Model{Name: m.Name, Provider: m.Provider, Served: m.Served, Quality: m.Quality.SDK(), Verified: r.policy.Verifies(c.Query, m.Name)}
	o := r.world.Outcome(n, who)
	if !o.Known {
		f.Unknown++
	}
	a := &sdk.Answer{
		Model: m.Name, Text: o.Text, CostUSD: o.CostUSD,
		Usage:   sdk.Usage{InputTokens: c.Query.InputTokens, OutputTokens: m.ExpectedOutputTokens},
		Signals: map[string]float64{signalTruth: o.Quality},
	}
	if !who.Verified && o.Estimated {
		a.Signals[signalEstimate] = o.Quality
	}
	maps.Copy(a.Signals, o.Signals)
	return a
}

// verify passes answers that are right in the world.
func verify(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	if req.Answer.Signals[signalTruth] >= 0.5 {
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
	}
	return &sdk.Verdict{Outcome: sdk.Failed}, nil
}

// estimator says of an answer what the world lets be seen of it, of other models
// what was recorded before they ran or what the profile says, and else nothing.
type estimator struct {
	fitted   sdk.QualityEstimator
	recorded func(q *sdk.Query, model string) (sdk.Estimate, bool)
}

// EstimateQuality implements [sdk.QualityEstimator].
func (e estimator) EstimateQuality(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	resp := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
	if e.fitted != nil {
		fitted, err := e.fitted.EstimateQuality(ctx, req)
		if err != nil {
			return nil, err
		}
		copy(resp.Estimates, fitted.Estimates)
	}
	for i, name := range req.Models {
		if e.fitted == nil {
			resp.Estimates[i] = sdk.Abstain()
			if e.recorded != nil {
				if known, ok := e.recorded(req.Query, name); ok {
					resp.Estimates[i] = known
				}
			}
		}
		for _, a := range req.Attempts {
			if v, ok := a.Answer.Signals[signalEstimate]; ok && a.Answer.Model == name {
				resp.Estimates[i] = sdk.Estimate{Mean: v}
			}
		}
	}
	return resp, nil
}
