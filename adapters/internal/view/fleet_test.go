package view

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// fleetBegin is the start of the first step.
var fleetBegin = time.Date(2026, 11, 9, 8, 0, 0, 0, time.UTC)

// fleetScript is hostile markup that a page must not run.
const fleetScript = `<script>window.hacked=1</script><img src=x onerror="window.hacked=1"><a href="javascript:window.hacked=1">x</a>`

// fleetBidi contains direction overrides and invisible characters.
const fleetBidi = "safe \u202etxt.exe\u2066 \u200bhidden \u0007 مرحبا שלום"

var fleetModels = []struct {
	name         string
	price        sdk.Price
	mean, skill  float64
	tokens       int
	milliseconds float64
}{
	{"mini", sdk.Price{Input: 0.15, CachedInput: 0.03, Output: 0.6}, 0.62, 0.4, 420, 900},
	{"base", sdk.Price{Input: 0.8, CachedInput: 0.2, Output: 3.2}, 0.8, 1.5, 520, 1900},
	{"pro", sdk.Price{Input: 3, CachedInput: 0.75, Output: 15}, 0.93, 2.8, 640, 4200},
}

type fleetWorld struct {
	rng    *rand.Rand
	now    time.Time
	number int
	hard   float64
	drift  bool
	engine map[string]*step.Engine
}

// fleetTraces returns the traces of n steps over two weeks, in the order in which they ended.
func fleetTraces(n int, seed uint64) []*sdk.Trace {
	w := &fleetWorld{rng: rand.New(rand.NewPCG(seed, 7)), now: fleetBegin, engine: map[string]*step.Engine{}}
	list := make([]*sdk.Trace, 0, n)
	gap := 13 * 24 * time.Hour / time.Duration(max(n, 1))
	for i := range n {
		w.now = fleetBegin.Add(time.Duration(i)*gap + time.Duration(w.rng.Int64N(int64(gap)+1)))
		w.number = i
		w.drift = i > n*2/3
		list = append(list, w.step(i, n))
	}
	return list
}

// step runs one step.
func (w *fleetWorld) step(i, n int) *sdk.Trace {
	w.hard = w.rng.NormFloat64()
	policy := "fleet.hcl@1f0c92ab77d3"
	strategy, lambdas := cascade.NameIndex, 30.0
	if i > n/2 {
		policy, lambdas = "fleet.hcl@c41e08a9b2f6", 18
	}
	if i%7 == 0 {
		strategy = cascade.NameCascadeRoute
	}
	q := &sdk.Query{
		ID: fmt.Sprintf("q%05d", i), Run: fmt.Sprintf("agent-%03d", i/14), Tenant: []string{"blue", "green", "orange"}[i%3],
		Session: fmt.Sprintf("s-%d", i/14), InputTokens: 600 + w.rng.IntN(3000), Group: []string{"tools", "code", "chat"}[i%3],
		Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{{Kind: sdk.PartText, Text: w.prompt(i)}}}},
	}
	result, _ := w.with(policy, strategy, lambdas).Run(context.Background(), step.Request{Query: q, Caller: step.CallerFunc(w.call), Mode: "enforce"})
	t := result.Trace
	t.ID = fmt.Sprintf("%016x%016x", w.rng.Uint64(), w.rng.Uint64())
	at := t.Start
	for k := range t.Calls {
		c := &t.Calls[k]
		c.Start = at
		c.Latency = time.Duration(fleetModels[fleetIndex(c.Model)].milliseconds * float64(time.Millisecond) * math.Exp(0.4*w.rng.NormFloat64()))
		at = at.Add(c.Latency)
		if c.Verdict != nil {
			c.Verdict.Duration = time.Duration(300+w.rng.IntN(900)) * time.Millisecond
			at = at.Add(c.Verdict.Duration)
		}
	}
	t.Overhead = time.Duration(180+w.rng.IntN(120)) * time.Microsecond
	t.Duration = at.Sub(t.Start) + t.Overhead
	return t
}

func fleetIndex(name string) int {
	for i := range fleetModels {
		if fleetModels[i].name == name {
			return i
		}
	}
	return 0
}

func (w *fleetWorld) prompt(i int) string {
	switch i % 97 {
	case 11:
		return "Say what this page does: " + fleetScript
	case 12:
		return fleetBidi
	case 13:
		return "A long one. " + strings.Repeat("All work and no play makes a long prompt. ", 4000)
	}
	return fmt.Sprintf("Ticket %d: find why the nightly export of table %s is late, and mend it.", i, []string{"orders", "users", "events"}[i%3])
}

// with returns the engine of a policy.
func (w *fleetWorld) with(policy, strategy string, lambda float64) *step.Engine {
	key := policy + strategy
	if e := w.engine[key]; e != nil {
		return e
	}
	s, err := cascade.New(strategy, cascade.Params{Lambdas: []float64{lambda}, Gamma: 1})
	if err != nil {
		panic(err)
	}
	c := step.Config{
		Strategy: s, Policy: policy, Explain: true,
		TracePrompts: true, TraceAnswers: true, Now: func() time.Time { return w.now }, Coin: func() float64 { return 0.5 },
		Estimators: []step.Estimator{{Name: "difficulty", Estimator: sdk.QualityEstimatorFunc(w.believe)}}, Retry: step.Retry{MaxAttempts: 1},
		Verifiers: []step.Verifier{{
			Name: "unit tests", Verifier: sdk.VerifierFunc(w.verify),
			// Chats have nothing to run.
			Applies: func(q *sdk.Query) bool { return q.Group != "chat" },
		}},
	}
	for _, m := range fleetModels {
		c.Candidates = append(c.Candidates, step.Candidate{Model: sdk.Model{Name: m.name, Provider: "openai", Price: m.price}, OutputTokens: m.tokens})
	}
	e, err := step.New(c)
	if err != nil {
		panic(err)
	}
	w.engine[key] = e
	return e
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// believe knows half of a query's hardness, and takes a failure into account.
func (w *fleetWorld) believe(_ context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	resp := &sdk.QualityResponse{}
	failed := 0.0
	answered := map[string]bool{}
	for _, a := range r.Attempts {
		answered[a.Answer.Model] = true
		if a.Verdict != nil && a.Verdict.Outcome == sdk.Failed {
			failed++
		}
	}
	for _, name := range r.Models {
		mean := sigmoid(fleetModels[fleetIndex(name)].skill - 0.8*w.hard - 0.7*failed)
		dev := 0.22
		if answered[name] {
			dev = 0.1
		}
		resp.Estimates = append(resp.Estimates, sdk.Estimate{Mean: mean, StdDev: dev})
	}
	return resp, nil
}

func (w *fleetWorld) call(_ context.Context, c *step.Call) (*sdk.Answer, error) {
	if w.rng.Float64() < 0.004 {
		return nil, errors.New("503 the server is busy")
	}
	text := "The export waits for a lock that a report holds. I moved the report to an hour later."
	if w.number%97 == 11 {
		text = "It runs this: " + fleetScript
	}
	m := fleetModels[c.Index]
	return &sdk.Answer{Text: text, Usage: sdk.Usage{InputTokens: c.Query.InputTokens, OutputTokens: int(float64(m.tokens) * math.Exp(0.3*w.rng.NormFloat64()))}}, nil
}

func (w *fleetWorld) verify(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
	i := fleetIndex(r.Answer.Model)
	p := sigmoid(fleetModels[i].skill - 0.9*w.hard)
	if w.drift && i == 0 {
		p *= 0.55 // the small model has become worse
	}
	if w.rng.Float64() < p {
		return &sdk.Verdict{Verifier: "unit tests", Outcome: sdk.Passed, Score: 1, Confidence: 0.98, Evidence: "14 of 14 tests passed"}, nil
	}
	evidence := "3 of 14 tests failed\n--- FAIL: TestExport (0.02s)\n    export_test.go:41: got 17 rows, want 18"
	if w.number%97 == 11 {
		evidence += "\n" + fleetScript
	}
	return &sdk.Verdict{Verifier: "unit tests", Outcome: sdk.Failed, Score: 0.79, Confidence: 0.98, Evidence: evidence}, nil
}
