package forecast

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// rehearsal runs one policy in one world.
type rehearsal struct {
	policy *policies.Policy
	world  World
	f      *Forecast
	keep   bool

	models  []sdk.Model
	decider *router.Decider
	engine  *step.Engine
	shadow  *step.Engine // nil but in the mode shadow
	caps    step.Caps

	// The history of one round: accounts, conversations and the clock.
	round    int
	accounts *step.Memory
	sessions *middleware.Sessions
	last     map[string]string // the model that each session was with
	clock    time.Time
	// n is the query at hand.
	n int
}

// rehearse prepares the policy's engine.
func rehearse(p *policies.Policy, w World, f *Forecast, o Options) (*rehearsal, error) {
	r := &rehearsal{policy: p, world: w, f: f, keep: o.Keep, models: p.SDKModels(), round: -1}
	var err error
	if r.decider, err = router.NewDecider(p, 1); err != nil {
		return nil, err
	}
	d := r.decider
	c := step.Config{
		Strategy: d.Plan.Strategy, StrategyName: d.Plan.Name, Lambdas: d.Plan.Lambdas, Gamma: d.Plan.Gamma,
		Quality: estimator{fitted: d.Quality, recorded: w.Recorded()}, Cost: d.Cost,
		StepCapUSD: p.Budget.StepUSD, FailAtCap: p.Budget.AtCap == "fail", Checks: []step.Check{},
		// Failures are as many as were recorded; nobody waits between tries.
		Retry: step.Retry{MaxAttempts: p.Retry.MaxAttempts, BaseDelay: 1, MaxDelay: 1},
		Coin:  func() float64 { return 0.5 }, Explain: o.Keep, Now: r.now,
	}
	for i := range p.Models {
		c.Candidates = append(c.Candidates, step.Candidate{
			Model: r.models[i], Quality: p.Models[i].Quality.SDK(), OutputTokens: p.Models[i].ExpectedOutputTokens,
		})
	}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		own := step.Verifier{Name: v.Name, Models: v.Models, MaxCostUSD: v.MaxUSD, Verifier: sdk.VerifierFunc(verify)}
		if !v.When.Empty() {
			own.Applies = v.When.Matches
		}
		c.Verifiers = append(c.Verifiers, own)
	}
	var capped bool
	if r.caps, capped = router.Caps(p); capped {
		c.Ledger = ledger{r}
	}
	if r.engine, err = step.New(c); err != nil || p.Mode != string(middleware.Shadow) {
		return r, err
	}
	c.Ledger = oneAccount{step.NewMemory(step.Caps{TenantUSD: p.Shadow.MaxUSD})}
	r.shadow, err = step.New(c)
	return r, err
}

func (r *rehearsal) now() time.Time { return r.clock }

// ledger is the round's ledger.
type ledger struct{ r *rehearsal }

// Reserve implements [step.Ledger].
func (l ledger) Reserve(ctx context.Context, q *sdk.Query, usd float64) (step.Reservation, error) {
	return l.r.accounts.Reserve(ctx, q, usd)
}

// oneAccount books every query on one account.
type oneAccount struct{ *step.Memory }

// Reserve implements [step.Ledger].
func (l oneAccount) Reserve(ctx context.Context, _ *sdk.Query, usd float64) (step.Reservation, error) {
	return l.Memory.Reserve(ctx, &sdk.Query{}, usd)
}

// begin goes on to query n, and forgets everything where another round begins.
func (r *rehearsal) begin(n int) {
	round, at := n, time.Unix(0, 0)
	if h, ok := r.world.(History); ok {
		round, at = h.When(n)
	}
	r.n, r.clock = n, at
	if round == r.round {
		return
	}
	r.round = round
	r.accounts = step.NewMemory(r.caps)
	r.accounts.Now = r.now
	r.sessions = middleware.NewSessions(router.Sessions(r.policy), r.engine.Models(), r.now)
	r.last = map[string]string{}
}

// one runs query n and adds it to the forecast.
func (r *rehearsal) one(ctx context.Context, n int) error {
	r.begin(n)
	q := r.world.Query(n)
	choice := r.policy.Choose(q)
	req := step.Request{
		Query: q, Caller: step.CallerFunc(r.call), CostOffsets: r.sessions.Offsets(q.Session),
		Exclude: func(i int) string {
			if choice.Candidates[i] {
				return ""
			}
			return fmt.Sprintf("is no candidate of match %s", choice.Match)
		},
	}
	if r.decider.Route != nil {
		req.Plan = r.decider.Route(q).Plan
	}
	if r.policy.Mode != string(middleware.Enforce) {
		req.Only = r.policy.Baseline
	}
	res, err := r.engine.Run(ctx, req)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if res == nil || res.Trace == nil {
		return fmt.Errorf("query %d: %w", n, err)
	}
	if err := r.f.add(res, err); err != nil {
		return fmt.Errorf("query %d: %w", n, err)
	}
	r.f.Matches[choice.Match]++
	if q.Session != "" && res.Answer != nil {
		r.sessions.Used(q.Session, res)
		if before, known := r.last[q.Session]; known && before != res.Trace.Chosen {
			r.f.Moves++
		}
		r.last[q.Session] = res.Trace.Chosen
	}
	if r.keep {
		r.f.Traces = append(r.f.Traces, res.Trace)
	}
	return r.beside(ctx, req)
}

// beside runs the strategy's choice on the share of queries that the mode shadow takes.
func (r *rehearsal) beside(ctx context.Context, req step.Request) error {
	share := 0.0
	if r.shadow != nil {
		share = r.policy.Shadow.Share
	}
	// Every 1/share-th query.
	if int(float64(r.n+1)*share) == int(float64(r.n)*share) {
		return nil
	}
	req.Only = ""
	res, _ := r.shadow.Run(ctx, req) // one that fails has cost what it has cost
	if res != nil && res.Trace != nil {
		r.f.ShadowUSD += res.Trace.CostUSD
	}
	return ctx.Err()
}

// errRecorded is the error of calls that failed when they were recorded.
var errRecorded = errors.New("failed when it was recorded")

// call is the answer that the world has of a model, or a failure: every deployment
// is tried once in each attempt, and as many tries fail as were recorded.
func (r *rehearsal) call(_ context.Context, c *step.Call) (*sdk.Answer, error) {
	m := &r.policy.Models[c.Index]
	who := Model{Name: m.Name, Provider: m.Provider, Served: m.Served, Quality: m.Quality.SDK(), Verified: r.policy.Verifies(c.Query, m.Name)}
	o := r.world.Outcome(r.n, who)
	places := 1 + len(m.Deployments)
	if o.Failures >= c.Attempt*places {
		return nil, &step.CallError{Err: errRecorded, Retry: true}
	}
	if !o.Known {
		r.f.Unknown++
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
	return a, nil
}
