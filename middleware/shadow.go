package middleware

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

type shadow struct {
	m       *Model
	engine  *step.Engine
	coin    func() float64
	slots   chan struct{} // one for each running shadow
	queue   chan struct{} // one for each waiting shadow
	spent   *step.Memory
	running sync.WaitGroup
}

// waitingPerSlot is the number of shadows that can wait per running one.
const waitingPerSlot = 64

// newShadow returns the shadow of m. It continues the account of the replaced Model, before, which can be nil.
func newShadow(m, before *Model) (*shadow, error) {
	n := m.c.Shadow.Concurrency
	if n <= 0 {
		n = 16
	}
	caps := step.Caps{TenantUSD: m.c.Shadow.CapUSD}
	spent := step.NewMemory(caps)
	if before != nil && before.shadow != nil {
		spent = before.shadow.spent.With(caps)
	}
	c := m.c.Step
	if c.Traces != nil {
		c.Traces = traceCapOnce(c.Traces)
	}
	// All shadows share one account, separate from the application's caps.
	c.Ledger, c.CapWait, c.FailAtCap = shadowLedger{spent}, 0, false
	c.Coin = nil // the draws of shadows must not change those of the application's steps
	engine, err := step.New(c)
	if err != nil {
		return nil, err
	}
	coin := m.c.Shadow.Coin
	if coin == nil {
		coin = rand.Float64
	}
	return &shadow{m: m, engine: engine, coin: coin, slots: make(chan struct{}, n), queue: make(chan struct{}, waitingPerSlot*n), spent: spent}, nil
}

// traceCapOnce returns a sink that drops the traces of shadows that made no call because of the cap, except
// for the first, which states the reason.
func traceCapOnce(sink step.Sink) step.Sink {
	var full sync.Once
	return func(ctx context.Context, t *sdk.Trace) {
		if t.Stop != sdk.StopBudget || len(t.Calls) > 0 {
			sink(ctx, t)
			return
		}
		full.Do(func() {
			t.Error = "left out: " + ShadowCapUsedUp
			sink(ctx, t)
		})
	}
}

// shadowLedger books all queries on one account.
type shadowLedger struct{ *step.Memory }

func (l shadowLedger) Reserve(ctx context.Context, _ *sdk.Query, usd float64) (step.Reservation, error) {
	return l.Memory.Reserve(ctx, &sdk.Query{}, usd)
}

// draw returns the call to shadow, or nil if the step is not sampled. A nil shadow never samples.
func (s *shadow) draw(c *call) *call {
	if s == nil {
		return nil
	}
	if c.query.ID == "" {
		c.query.ID = crand.Text() // joins the traces of the step and its shadow
	}
	if s.coin() >= s.m.c.Shadow.Sample {
		return nil
	}
	own := *c
	own.streamed = false
	return &own
}

// start runs a shadow as soon as there is a slot, with the baseline's answer as already paid. The shadow does
// not stream, fires no callbacks, and outlives the caller's context. If the queue is full, it is left out and
// a trace records that.
func (s *shadow) start(ctx context.Context, own *call, baseline *step.Result) {
	select {
	case s.queue <- struct{}{}:
	default:
		s.recordLeftOut(ctx, &own.query)
		return
	}
	req := own.request(ShadowAlternative)
	if len(baseline.Attempts) > 0 {
		req.Paid = &baseline.Attempts[0]
	}
	s.running.Go(func() {
		s.slots <- struct{}{}
		<-s.queue
		defer func() { <-s.slots }()
		// The trace has the result or error. The result is not recorded as a dispute, because the run continues
		// from the baseline's answer.
		_, _ = s.engine.Run(context.WithoutCancel(ctx), req)
	})
}

func (s *shadow) recordLeftOut(ctx context.Context, q *sdk.Query) {
	if s.m.c.Step.Traces == nil {
		return
	}
	var id [16]byte
	_, _ = crand.Read(id[:]) // it never fails
	s.m.c.Step.Traces(context.WithoutCancel(ctx), &sdk.Trace{
		ID: hex.EncodeToString(id[:]), Start: time.Now(), QueryID: q.ID, Group: q.Group, Run: q.Run, Session: q.Session, Tenant: q.Tenant, Conversation: q.Conversation,
		Policy: s.m.c.Step.Policy, Mode: ShadowAlternative, Stop: sdk.StopError, InputTokens: q.InputTokens, Features: q.Features,
		Error: fmt.Sprintf("left out: %d shadows were waiting; lower the share in the shadow block", cap(s.queue)),
	})
}
