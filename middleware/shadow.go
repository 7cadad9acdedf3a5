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
	slots   chan struct{} // a shadow that runs holds one
	queue   chan struct{} // and one that waits for it
	spent   *step.Memory
	running sync.WaitGroup
}

// waitingPerSlot is how many shadows may wait for each that runs.
const waitingPerSlot = 64

// newShadow returns the shadow of m, which goes on with the account of the Model
// before, unless that is nil or had none.
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
	// One account for all shadows, apart from the caps of the application.
	c.Ledger, c.CapWait, c.FailAtCap = shadowLedger{spent}, 0, false
	c.Coin = nil // what shadows draw, in whatever order they end, changes no draw of the application's steps
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

// traceCapOnce leaves out the traces of shadows that the cap left no room for a call, but for the
// first, which says so.
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

// shadowLedger books every query on one account.
type shadowLedger struct{ *step.Memory }

func (l shadowLedger) Reserve(ctx context.Context, _ *sdk.Query, usd float64) (step.Reservation, error) {
	return l.Memory.Reserve(ctx, &sdk.Query{}, usd)
}

// draw returns what a shadow of the call asks for, nil if the sample says that there is none.
func (s *shadow) draw(c *call) *call {
	if s.coin() >= s.m.c.Shadow.Sample {
		return nil
	}
	own := *c
	own.streamed = false
	return &own
}

// start has a shadow run as soon as there is a slot. It does not ask the baseline again that
// has answered. It does not stream, fires no callbacks, and outlives the caller's context. One
// for which too many wait already is left out, which its trace says.
func (s *shadow) start(ctx context.Context, own *call, baseline *step.Result) {
	select {
	case s.queue <- struct{}{}:
	default:
		s.leaveOut(ctx, &own.query)
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
		// The result is in the trace; an error is too. The run goes on from the baseline's answer,
		// so that answers which differ here make no hard run of it: all its steps tell something.
		_, _ = s.engine.Run(context.WithoutCancel(ctx), req)
	})
}

func (s *shadow) leaveOut(ctx context.Context, q *sdk.Query) {
	if s.m.c.Step.Traces == nil {
		return
	}
	var id [16]byte
	_, _ = crand.Read(id[:]) // it never fails
	s.m.c.Step.Traces(context.WithoutCancel(ctx), &sdk.Trace{
		ID: hex.EncodeToString(id[:]), Start: time.Now(), QueryID: q.ID, Group: q.Group, Run: q.Run, Session: q.Session, Tenant: q.Tenant, Conversation: q.Conversation,
		Policy: s.m.c.Step.Policy, Mode: ShadowAlternative, Stop: sdk.StopError, InputTokens: q.InputTokens, Features: q.Features,
		Error: fmt.Sprintf("left out: %d shadows were waiting; a smaller share in the shadow block leaves none out", cap(s.queue)),
	})
}
