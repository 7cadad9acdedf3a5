package savings_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

// The strategy asks both models where answers are texts, or short calls. The missing answers, long calls, are estimated
// from calls that the holdout drew.
func TestMissingToolCallsAreEstimatedFromTheHoldout(t *testing.T) {
	answer := func(model string, tokens int, tools ...string) sdk.Call {
		c := call(model, float64(tokens)*1e-6)
		c.Usage, c.Tools = sdk.Usage{OutputTokens: tokens}, tools
		return c
	}
	var traces []*sdk.Trace
	truth := 0.0
	for i := range 60 {
		held := step("large", answer("large", 110, "find"))
		held.Holdout = &sdk.Holdout{Share: 0.5, Baseline: true}
		disputed := step("large", answer("small", 5), answer("large", 15))
		long := step("small", answer("small", 99+i%3, "find"))
		for n, s := range []*sdk.Trace{held, disputed, long} {
			s.Run = fmt.Sprint(n == 0, i)
			traces = append(traces, s)
		}
		if i < 10 {
			traces = append(traces, step("large", answer("small", 50, "find"), answer("large", 110, "find")))
			truth += 110e-6
		}
		truth += (110 + 15) * 1e-6
		truth += 110 * largePrice.Output * 1e-6
	}
	r := resultOf(traces...)
	if math.Abs(r.BaselineUSD/truth-1) > 0.1 {
		t.Errorf("always asking large is said to cost %.6f, and costs %.6f", r.BaselineUSD, truth)
	}
}

// A cheap model's cold cache, in a run that others began, is not that of a model which is always asked.
func TestColdCacheOfAnotherModelIsNotTheBaselines(t *testing.T) {
	price := sdk.Price{Input: 10, CachedInput: 1}
	prompted := func(run string, tokens int, model string, cached int) *sdk.Trace {
		c := call(model, price.CostUSD(sdk.Usage{InputTokens: tokens - cached, CachedInputTokens: cached}))
		c.Usage = sdk.Usage{InputTokens: tokens - cached, CachedInputTokens: cached}
		s := step(model, c)
		s.Run, s.InputTokens = run, tokens
		for i := range s.Decisions[0].Models {
			s.Decisions[0].Models[i].Price = &price
		}
		return s
	}
	var traces []*sdk.Trace
	for i := range 10 {
		run := fmt.Sprint(i)
		traces = append(traces, prompted(run, 1000, "large", 0), prompted(run, 1250, "large", 1000), prompted(run, 2500, "small", 0))
	}
	r := resultOf(traces...)
	want := 10 * (10_000 + 2500 + 1000 + 12_500 + 1250) * 1e-6
	if math.Abs(r.BaselineUSD/want-1) > 0.01 {
		t.Errorf("always asking large is said to cost %.6f, and costs %.6f", r.BaselineUSD, want)
	}
}
