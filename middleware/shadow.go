package middleware

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// shadow runs the strategy's choice beside the baseline.
type shadow struct {
	m       *Model
	engine  *step.Engine
	slots   chan struct{}
	spent   *step.Memory
	running sync.WaitGroup
}

// newShadow returns the shadow of m, which goes on with the account of the Model
// before, unless that is nil or had none.
func newShadow(m, before *Model) (*shadow, error) {
	n := m.c.Shadow.Concurrency
	if n <= 0 {
		n = 4
	}
	c := m.c
	spent := step.NewMemory(step.Caps{TenantUSD: c.Shadow.CapUSD})
	if before != nil && before.shadow != nil {
		spent = before.shadow.spent.With(step.Caps{TenantUSD: c.Shadow.CapUSD})
	}
	candidates := make([]step.Candidate, len(c.Models))
	for i, cand := range c.Models {
		candidates[i] = step.Candidate{Model: cand.Model, Quality: cand.Quality, OutputTokens: cand.OutputTokens}
	}
	engine, err := step.New(step.Config{
		Candidates: candidates, Strategy: c.Strategy, Quality: c.Quality, Cost: c.Cost, Checks: c.Checks, Verifiers: c.Verifiers,
		StepCapUSD: c.StepCapUSD, Retry: c.Retry,
		// One account for all shadows, apart from the caps of the application.
		Ledger: shadowLedger{spent},
		Traces: c.Traces, TracePrompts: c.TracePrompts, TraceAnswers: c.TraceAnswers,
		Explain: c.Explain, Policy: c.Policy, Profile: c.Profile, StrategyName: c.StrategyName, Lambdas: c.Lambdas, Gamma: c.Gamma, Coin: c.Coin, Now: c.Now,
	})
	if err != nil {
		return nil, err
	}
	return &shadow{m: m, engine: engine, slots: make(chan struct{}, n), spent: spent}, nil
}

// shadowLedger books every query on one account.
type shadowLedger struct{ *step.Memory }

func (l shadowLedger) Reserve(ctx context.Context, _ *sdk.Query, usd float64) (step.Reservation, error) {
	return l.Memory.Reserve(ctx, &sdk.Query{}, usd)
}

// maybe starts a shadow of the call if the sample and the slots say so. It does
// not stream, fires no callbacks, and outlives the caller's context.
func (s *shadow) maybe(ctx context.Context, c *call) {
	if rand.Float64() >= s.m.c.Shadow.Sample {
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return
	}
	own := *c
	own.streamed = false
	s.running.Go(func() {
		defer func() { <-s.slots }()
		// The result is in the trace; an error is too.
		_, _ = s.engine.Run(context.WithoutCancel(ctx), own.request(ShadowAlternative))
	})
}
