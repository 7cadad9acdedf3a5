package step_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

func nearly(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-12*max(1, min(math.Abs(a), math.Abs(b)))
}

// Without a cost estimator the expected cost of a call is that of the prompt and an answer
// of the expected length, within the limits of query and model.
func TestExpectedCostOfACall(t *testing.T) {
	// 100 tokens in at 10 USD per million are 0.001 USD, and each token out is 0.00002.
	for _, c := range []struct {
		expected, query, model int
		want                   float64
	}{
		{0, 0, 0, 0.001 + 500*0.00002},
		{200, 0, 0, 0.001 + 200*0.00002},
		{200, 50, 0, 0.001 + 50*0.00002},
		{200, 0, 80, 0.001 + 80*0.00002},
		{200, 90, 80, 0.001 + 80*0.00002},
		{0, 300, 400, 0.001 + 300*0.00002},
		{20, 90, 80, 0.001 + 20*0.00002},
	} {
		e := engine(t, step.Config{Strategy: route(t), Candidates: []step.Candidate{{
			Model: sdk.Model{Name: "m", Price: sdk.Price{Input: 10, Output: 20}, MaxOutputTokens: c.model}, OutputTokens: c.expected,
		}}})
		q := query()
		q.MaxOutputTokens = c.query
		res, err := e.Run(t.Context(), step.Request{Query: q, Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Trace.Decisions[0].Models[0].CostUSD; !nearly(got, c.want) {
			t.Errorf("expected %d, query %d, model %d: %v USD, want %v", c.expected, c.query, c.model, got, c.want)
		}
	}
}

// The worst case is the whole prompt plus what servers add at the highest input price, and
// the longest answer at the highest output price.
func TestWorstCaseOfACall(t *testing.T) {
	long := sdk.LongContext{Tokens: 4000, InputFactor: 2, OutputFactor: 1.5}
	for _, c := range []struct {
		price             sdk.Price
		model, asked, len int
		want              float64
	}{
		{sdk.Price{Input: 1, CachedInput: 2, CacheWrite: 4, Output: 8, Reasoning: 16}, 1000, 0, 100, ((100.0/3+3000)*4 + 1000*16) / 1e6},
		{sdk.Price{Input: 4, CachedInput: 2, CacheWrite: 1, Output: 16, Reasoning: 8}, 1000, 0, 100, ((100.0/3+3000)*4 + 1000*16) / 1e6},
		{sdk.Price{Output: 10}, 1000, 300, 100, 300 * 10 / 1e6},
		{sdk.Price{Output: 10}, 1000, 3000, 100, 1000 * 10 / 1e6},
		{sdk.Price{Output: 10}, 0, 300, 100, 300 * 10 / 1e6},
		{sdk.Price{Input: 1, Output: 8, Long: long}, 1000, 0, 3000, (4000*1 + 1000*8) / 1e6},
		{sdk.Price{Input: 1, Output: 8, Long: long}, 1000, 0, 3003, (4001*1*2 + 1000*8*1.5) / 1e6},
		{sdk.Price{Input: 1, Output: 8, Long: sdk.LongContext{Tokens: 1}}, 1000, 0, 3000, (4000*1 + 1000*8) / 1e6},
		{sdk.Price{Input: 1, Output: 8, Long: sdk.LongContext{InputFactor: 2, OutputFactor: 2}}, 1000, 0, 3000, (4000*1 + 1000*8) / 1e6},
		{sdk.Price{Output: 10}, 0, 0, 100, math.Inf(1)},
		{sdk.Price{Input: 1}, 0, 0, 3000, 4000 / 1e6},
	} {
		if got := step.WorstCostUSD(&sdk.Model{Price: c.price, MaxOutputTokens: c.model}, c.len, c.asked); !nearly(got, c.want) {
			t.Errorf("%+v: %v USD, want %v", c, got, c.want)
		}
	}
}

// Missing prices are derived from the others; given prices are kept.
func TestOpenPricesFollow(t *testing.T) {
	e := engine(t, step.Config{Strategy: route(t), Candidates: []step.Candidate{
		{Model: sdk.Model{Name: "open", Price: sdk.Price{Input: 3, Output: 7}}},
		{Model: sdk.Model{Name: "given", Price: sdk.Price{Input: 3, Output: 7, CachedInput: 1, CacheWrite: 4, Reasoning: 9}}},
		{Model: sdk.Model{Name: "free answers", Price: sdk.Price{Input: 3}}},
	}})
	for i, want := range []sdk.Price{
		{Input: 3, Output: 7, CachedInput: 3, CacheWrite: 3, Reasoning: 7, HostedCallUSD: 0.035},
		{Input: 3, Output: 7, CachedInput: 1, CacheWrite: 4, Reasoning: 9, HostedCallUSD: 0.035},
		{Input: 3, CachedInput: 3, CacheWrite: 3},
	} {
		if got := e.Models()[i].Price; got != want {
			t.Errorf("prices %+v, want %+v", got, want)
		}
	}
}

// A cost estimate is used if it is a valid cost, zero included. If the estimator fails, its
// error is noted and the prices are used.
func TestCostEstimatorIsHeardOrNoted(t *testing.T) {
	prior := (100*0.1 + 500*0.5) / 1e6 // of small
	for what, c := range map[string]struct {
		resp *sdk.CostResponse
		err  error
		want float64
		note string
	}{
		"a cost":       {&sdk.CostResponse{Estimates: []sdk.Estimate{{Mean: 0.25}}}, nil, 0.25, ""},
		"for nothing":  {&sdk.CostResponse{Estimates: []sdk.Estimate{{Mean: 0}}}, nil, 0, ""},
		"abstains":     {&sdk.CostResponse{Estimates: []sdk.Estimate{sdk.Abstain()}}, nil, prior, ""},
		"negative":     {&sdk.CostResponse{Estimates: []sdk.Estimate{{Mean: -1}}}, nil, prior, ""},
		"infinite":     {&sdk.CostResponse{Estimates: []sdk.Estimate{{Mean: math.Inf(1)}}}, nil, prior, ""},
		"too few":      {&sdk.CostResponse{}, nil, prior, "cost estimator unavailable, prices used: want 1 estimates"},
		"no response":  {nil, nil, prior, "cost estimator unavailable, prices used: want 1 estimates"},
		"out of order": {nil, errors.New("no table"), prior, "cost estimator unavailable, prices used: no table"},
		"in part":      {&sdk.CostResponse{Estimates: []sdk.Estimate{{Mean: 0.25}}}, errors.New("one of two"), 0.25, "cost estimator unavailable, prices used: one of two"},
	} {
		e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Cost: sdk.CostEstimatorFunc(
			func(context.Context, *sdk.CostRequest) (*sdk.CostResponse, error) { return c.resp, c.err })})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if first := res.Trace.Decisions[0]; !nearly(first.Models[0].CostUSD, c.want) || first.Note != c.note {
			t.Errorf("%s: %v USD, note %q; want %v, %q", what, first.Models[0].CostUSD, first.Note, c.want, c.note)
		}
	}
}

func TestACostEstimatorThatMustBeHadEndsTheStep(t *testing.T) {
	e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Cost: sdk.CostEstimatorFunc(func(context.Context, *sdk.CostRequest) (*sdk.CostResponse, error) {
		return nil, fmt.Errorf("%w: no table", step.ErrEstimatorUnavailable)
	})})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if !errors.Is(err, step.ErrEstimatorUnavailable) || len(res.Trace.Calls) != 0 {
		t.Errorf("%v after %d calls", err, len(res.Trace.Calls))
	}
}

// Each fault of a configuration is reported on its own, and values at the limits are valid.
func TestEachFaultOfAConfiguration(t *testing.T) {
	m := func(price sdk.Price, longest int) sdk.Model {
		return sdk.Model{Name: "m", Price: price, MaxOutputTokens: longest}
	}
	for what, c := range map[string]struct {
		candidate step.Candidate
		capUSD    float64
		ledger    step.Ledger
		want      string
	}{
		"plain":                                {step.Candidate{Model: m(sdk.Price{Input: 1, Output: 1}, 0)}, 0, nil, ""},
		"a cap and no longest answer":          {step.Candidate{Model: m(sdk.Price{Output: 1}, 0)}, 1, nil, "max_output_tokens"},
		"a ledger and no longest answer":       {step.Candidate{Model: m(sdk.Price{Output: 1}, 0)}, 0, step.NewMemory(step.Caps{RunUSD: 1}), "max_output_tokens"},
		"a ledger without caps":                {step.Candidate{Model: m(sdk.Price{Output: 1}, 0)}, 0, step.NewMemory(step.Caps{}), ""},
		"a cap and a longest answer":           {step.Candidate{Model: m(sdk.Price{Output: 1}, 100)}, 1, nil, ""},
		"a cap and answers for nothing":        {step.Candidate{Model: m(sdk.Price{Input: 1}, 0)}, 1, nil, ""},
		"a prior of 0":                         {step.Candidate{Model: m(sdk.Price{}, 0), Quality: sdk.Estimate{Mean: 0, StdDev: 0.1}}, 0, nil, ""},
		"a prior of 1":                         {step.Candidate{Model: m(sdk.Price{}, 0), Quality: sdk.Estimate{Mean: 1}}, 0, nil, ""},
		"a prior above 1":                      {step.Candidate{Model: m(sdk.Price{}, 0), Quality: sdk.Estimate{Mean: 1.01}}, 0, nil, "prior quality"},
		"a prior below 0":                      {step.Candidate{Model: m(sdk.Price{}, 0), Quality: sdk.Estimate{Mean: -0.01}}, 0, nil, "prior quality"},
		"a prior with a negative deviation":    {step.Candidate{Model: m(sdk.Price{}, 0), Quality: sdk.Estimate{Mean: 0.5, StdDev: -1}}, 0, nil, "prior quality"},
		"a prior with an infinite deviation":   {step.Candidate{Model: m(sdk.Price{}, 0), Quality: sdk.Estimate{Mean: 0.5, StdDev: math.Inf(1)}}, 0, nil, "prior quality"},
		"a price that is no number":            {step.Candidate{Model: m(sdk.Price{Reasoning: math.NaN()}, 0)}, 0, nil, "prices must be"},
		"a price that is infinite":             {step.Candidate{Model: m(sdk.Price{CacheWrite: math.Inf(1)}, 0)}, 0, nil, "prices must be"},
		"a price that is paid by the provider": {step.Candidate{Model: m(sdk.Price{CachedInput: -1}, 0)}, 0, nil, "prices must be"},
	} {
		_, err := step.New(step.Config{Strategy: route(t), Candidates: []step.Candidate{c.candidate}, StepCapUSD: c.capUSD, Ledger: c.ledger})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// keyCaps has caps that are known only at a query, such as those of a store's keys.
type keyCaps struct{ *step.Memory }

func (keyCaps) HasCaps() bool { return false }

// A model without a limit on its answers is excluded from queries with a cap, unless the query has a limit, and
// answers the others.
func TestNoLongestAnswerUnderACap(t *testing.T) {
	e := engine(t, step.Config{Strategy: route(t), Candidates: []step.Candidate{{Model: sdk.Model{Name: "m", ContextTokens: 1000, Price: sdk.Price{Output: 1}}}}, Ledger: keyCaps{step.NewMemory(step.Caps{Tenants: map[string]float64{"capped": 1e6}})}})
	for _, c := range []struct {
		tenant string
		limit  int
		want   string
	}{{"free", 0, ""}, {"capped", 100, ""}, {"capped", 0, "no output limit"}} {
		q := query()
		q.Tenant, q.MaxOutputTokens = c.tenant, c.limit
		if _, err := e.Run(t.Context(), step.Request{Query: q, Caller: says()}); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, limit %d: %v, want %q", c.tenant, c.limit, err, c.want)
		}
	}
}

// The default prior of a candidate has a mean of 0.5 and a deviation of 0.25.
func TestThePriorOfACandidate(t *testing.T) {
	silent := step.Estimator{Name: "silent", Estimator: estimator{}}
	for _, c := range []struct{ given, want sdk.Estimate }{
		{sdk.Estimate{}, sdk.Estimate{Mean: 0.5, StdDev: 0.25}},
		{sdk.Estimate{Mean: 0.7}, sdk.Estimate{Mean: 0.7}},
		{sdk.Estimate{StdDev: 0.1}, sdk.Estimate{StdDev: 0.1}},
	} {
		e := engine(t, step.Config{Strategy: route(t), Estimators: []step.Estimator{silent}, Candidates: []step.Candidate{{Model: model("m", 1, 1), Quality: c.given}}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Trace.Decisions[0].Models[0].Quality; got != c.want {
			t.Errorf("given %v: %v, want %v", c.given, got, c.want)
		}
	}
}

// A query's needs follow from its tools, its format and every part of its messages, and a
// model that lacks one is infeasible.
func TestWhatAQueryNeeds(t *testing.T) {
	part := func(kind sdk.PartKind) *sdk.Query {
		q := query()
		q.Messages = append(q.Messages, sdk.Message{Parts: []sdk.Part{sdk.TextPart("look"), {Kind: kind}}})
		return q
	}
	with := func(change func(*sdk.Query)) *sdk.Query { q := query(); change(q); return q }
	all := sdk.Capabilities{Tools: true, Images: true, JSONMode: true, JSONSchema: true}
	for what, c := range map[string]struct {
		q    *sdk.Query
		lack func(*sdk.Capabilities)
		want string
	}{
		"text":             {query(), func(c *sdk.Capabilities) { *c = sdk.Capabilities{} }, ""},
		"image by address": {part(sdk.PartImageURL), func(c *sdk.Capabilities) { c.Images = false }, "reads no images"},
		"image in bytes":   {part(sdk.PartBinary), func(c *sdk.Capabilities) { c.Images = false }, "reads no images"},
		"tools offered":    {with(func(q *sdk.Query) { q.Tools = []sdk.Tool{{Name: "t"}} }), func(c *sdk.Capabilities) { c.Tools = false }, "has no tools"},
		"tool called":      {part(sdk.PartToolCall), func(c *sdk.Capabilities) { c.Tools = false }, "has no tools"},
		"tool answered":    {part(sdk.PartToolResult), func(c *sdk.Capabilities) { c.Tools = false }, "has no tools"},
		"JSON":             {with(func(q *sdk.Query) { q.Format.JSON = true }), func(c *sdk.Capabilities) { c.JSONMode, c.JSONSchema = false, false }, "has no JSON mode"},
		"JSON by schema":   {with(func(q *sdk.Query) { q.Format.JSON = true }), func(c *sdk.Capabilities) { c.JSONMode = false }, ""},
		"schema":           {with(func(q *sdk.Query) { q.Format.Schema = []byte(`{}`) }), func(c *sdk.Capabilities) { c.JSONMode, c.JSONSchema = false, false }, "has no JSON schemas"},
		"schema in JSON":   {with(func(q *sdk.Query) { q.Format.Schema = []byte(`{}`) }), func(c *sdk.Capabilities) { c.JSONSchema = false }, ""},
	} {
		m := sdk.Model{Name: "m", Capabilities: all}
		if got := step.Infeasible(&m, c.q); got != "" {
			t.Errorf("%s: a model that can do everything %s", what, got)
		}
		c.lack(&m.Capabilities)
		if got := step.Infeasible(&m, c.q); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// Costs in traces are rounded, without meaningless digits.
func TestCostsInTracesAreRound(t *testing.T) {
	e := engine(t, step.Config{Candidates: []step.Candidate{{Model: model("one", 0, 0)}}, Strategy: route(t), Ledger: &largest{}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), CostOffsets: []float64{tenth + 0.2}, Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
		return &sdk.Answer{Text: "x", CostUSD: tenth + 0.2, Usage: sdk.Usage{InputTokens: 1, OutputTokens: 1}}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	tr := res.Trace
	if note := notes(tr); note != "; " {
		t.Errorf("the rest of a bill that is known counts as unknown: %q", note)
	}
	for what, usd := range map[string]float64{"step": tr.CostUSD, "call": tr.Calls[0].CostUSD, "estimate": tr.Decisions[0].Models[0].CostUSD} {
		if usd != 0.3 {
			t.Errorf("%s: %v USD, want 0.3", what, usd)
		}
	}
}

var tenth = 0.1 // a constant would be added exactly

// A cost estimate says nothing about the length of an answer that is free.
func TestExpectedLengthOfFreeAnswers(t *testing.T) {
	for _, output := range []float64{0, 10} {
		e := engine(t, step.Config{Candidates: []step.Candidate{{Model: model("m", 1, output), OutputTokens: 200}}, Strategy: route(t), Cost: sdk.CostEstimatorFunc(
			func(context.Context, *sdk.CostRequest) (*sdk.CostResponse, error) {
				return &sdk.CostResponse{Estimates: []sdk.Estimate{{Mean: 100e-6 + 300*output/1e6}}}, nil
			})})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		want := 300.0
		if output == 0 {
			want = 200
		}
		if got := res.Trace.Decisions[0].Models[0].OutputTokens; !(math.Abs(got-want) <= 1e-6) {
			t.Errorf("at %v USD per million: %v tokens, want %v", output, got, want)
		}
	}
}
