package savings_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Prices per million output tokens.
var smallPrice, largePrice = sdk.Price{Output: 1}, sdk.Price{Output: 5}

// steps counts the steps made.
var steps int

// step returns a step that could have asked small, with expected cost 1 and quality 0.6, or large, with 10 and 0.9,
// at the cost of its calls.
func step(chosen string, calls ...sdk.Call) *sdk.Trace {
	steps++
	t := &sdk.Trace{ID: fmt.Sprint(steps), Chosen: chosen, Calls: calls, Decisions: []sdk.Decision{{Models: []sdk.Belief{
		{Model: "small", CostUSD: 1, Price: &smallPrice, Quality: sdk.Estimate{Mean: 0.6}}, {Model: "large", CostUSD: 10, Price: &largePrice, Quality: sdk.Estimate{Mean: 0.9}},
	}}}}
	for i := range calls {
		t.CostUSD += calls[i].CostUSD
		if v := calls[i].Verdict; v != nil {
			t.CostUSD += v.CostUSD
		}
	}
	return t
}

func call(model string, usd float64, outcome ...sdk.Outcome) sdk.Call {
	c := sdk.Call{Model: model, CostUSD: usd, Quality: sdk.Estimate{Mean: 0.75}}
	c.Usage.OutputTokens = int(usd * 1e6)
	if model == "large" {
		c.Usage.OutputTokens = int(usd * 1e6 / largePrice.Output)
	}
	for _, o := range outcome {
		c.Verdict = &sdk.Verdict{Verifier: "unit tests", Outcome: o}
	}
	return c
}

func in(mode string, t *sdk.Trace) *sdk.Trace {
	t.Mode = mode
	return t
}

// expecting sets the expected lengths of the answers of small and large.
func expecting(small, large float64, t *sdk.Trace) *sdk.Trace {
	t.Decisions[0].Models[0].OutputTokens, t.Decisions[0].Models[1].OutputTokens = small, large
	return t
}

func resultOf(traces ...*sdk.Trace) savings.Result {
	var a savings.Account
	for _, t := range traces {
		a.Record(context.Background(), t)
	}
	return a.Result()
}

// Equal answers can all have the same length while differing ones do not: the missing answers are unknown, and the
// interval allows for that.
func TestEqualAnswersOfOneLengthLeaveAnInterval(t *testing.T) {
	says := func(c sdk.Call, key string) sdk.Call {
		c.Key = key
		return c
	}
	var traces []*sdk.Trace
	for range 20 {
		traces = append(traces,
			step("large", says(call("small", 0.001), "a"), says(call("large", 0.005), "a")),
			step("large", says(call("small", 0.001), "b"), says(call("large", 0.010), "c")),
			step("small", says(call("small", 0.001), "a")))
	}
	r := resultOf(traces...)
	// Of the missing answers one in ten would have differed.
	truth := 20*(0.005+0.010) + 18*0.005 + 2*0.010
	if off := truth - r.BaselineUSD; !r.HasInterval || !(r.TwoStdErrorsUSD > off) || r.TwoStdErrorsUSD > 0.1*truth {
		t.Errorf("always asking large: %v ± %v, and really %v", r.BaselineUSD, r.TwoStdErrorsUSD, truth)
	}
}

// A baseline that was hardly asked is assumed to find as much of a prompt cached as the model that was; not if it was
// asked and found nothing.
func TestCacheOfABaselineThatWasNotAsked(t *testing.T) {
	price := sdk.Price{Input: 5, CachedInput: 0.5, CacheWrite: 5, Output: 15, Reasoning: 15}
	ask := func(model string, u sdk.Usage) *sdk.Trace {
		s := step(model, sdk.Call{Model: model, CostUSD: price.CostUSD(u), Usage: u})
		s.Decisions[0].Models[1].Price = &price
		return s
	}
	warm, cold := sdk.Usage{InputTokens: 100, CachedInputTokens: 9900, OutputTokens: 50}, sdk.Usage{InputTokens: 10000, OutputTokens: 50}
	for asked, want := range map[int]sdk.Usage{0: warm, 4: warm, 5: cold} {
		var traces []*sdk.Trace
		for range asked {
			traces = append(traces, ask("large", cold))
		}
		for range 20 {
			traces = append(traces, ask("small", warm))
		}
		r, truth := resultOf(traces...), float64(asked)*price.CostUSD(cold)+20*price.CostUSD(want)
		if math.Abs(r.BaselineUSD-truth) > 1e-9 {
			t.Errorf("asked %d times, the baseline costs %v, want %v", asked, r.BaselineUSD, truth)
		}
	}
}

// Claude caches only what is marked, which prompts without tools are not, unless the client does: that another vendor's
// model finds them cached says nothing about Claude.
func TestPromptsWithoutToolsAreNotMarked(t *testing.T) {
	small, large := sdk.Price{Input: 1, CachedInput: 0.1, CacheWrite: 1, Output: 4}, sdk.Price{Input: 5, CachedInput: 0.5, CacheWrite: 6.25, Output: 25}
	warm, cold := sdk.Usage{InputTokens: 100, CachedInputTokens: 9900, OutputTokens: 50}, sdk.Usage{InputTokens: 10000, OutputTokens: 50}
	for _, clientMarks := range []bool{false, true} {
		var traces []*sdk.Trace
		truth, plain := 0.0, cold
		if clientMarks {
			plain = warm
		}
		ask := func(model string, own sdk.Price, u, ofLarge sdk.Usage, tools ...string) {
			s := step(model, sdk.Call{Model: model, CostUSD: own.CostUSD(u), Usage: u})
			s.Tools, s.Decisions[0].Models[0].Price, s.Decisions[0].Models[1].Price = tools, &small, &large
			truth += large.CostUSD(ofLarge)
			traces = append(traces, s)
		}
		for range 20 {
			ask("large", large, warm, warm, "read")
			ask("large", large, plain, plain)
			ask("small", small, warm, warm, "read")
			ask("small", small, warm, plain)
		}
		if r := resultOf(traces...); math.Abs(r.BaselineUSD-truth) > 0.01*truth {
			t.Errorf("the client marks %v: the baseline costs %v, want %v", clientMarks, r.BaselineUSD, truth)
		}
	}
}

// Each figure was computed by hand.
func TestResult(t *testing.T) {
	repeat := func(n int, of func() *sdk.Trace) (list []*sdk.Trace) {
		for range n {
			list = append(list, of())
		}
		return list
	}
	only := func(t *sdk.Trace) *sdk.Trace {
		t.Decisions[0].Models = t.Decisions[0].Models[:1]
		return t
	}
	check := call("small", 1)
	check.Verdict = &sdk.Verdict{Verifier: "check:json", Outcome: sdk.Failed}
	refused, cut := call("small", 0.25), call("small", 0.01)
	refused.Verdict = check.Verdict
	cut.Usage.Estimated, cut.StopReason = true, sdk.StopReasonCancelled
	for name, c := range map[string]struct {
		traces                     []*sdk.Trace
		spent, baseline, saved     float64
		shadow                     float64
		measured, estimated, judge int
		quality                    float64
		by, says                   string
	}{
		"large ran everywhere": {
			traces: []*sdk.Trace{step("large", call("small", 1, sdk.Failed), call("large", 10, sdk.Passed)), step("large", call("large", 8, sdk.Failed))},
			spent:  19, baseline: 18, saved: -1, measured: 2, judge: 2, quality: 0.5, by: "unit tests", says: "spent more 1.000000 (6 %)",
		},
		"large ran nowhere: as many tokens as small": {
			traces: []*sdk.Trace{step("small", call("small", 2)), step("small", call("small", 2))},
			spent:  4, baseline: 20, saved: 16, estimated: 2, judge: 2, quality: 0.75, says: "estimated at 0.75, no verifier judged the answers; large is estimated at 0.90",
		},
		"large ran nowhere: its answers are as much longer as expected": {
			traces: []*sdk.Trace{expecting(500, 1500, step("small", call("small", 2))), expecting(500, 500, step("small", call("small", 2)))},
			spent:  4, baseline: 40, saved: 36, estimated: 2, judge: 2, quality: 0.75, says: "estimated at 0.75, no verifier judged the answers; large is estimated at 0.90",
		},
		"its tokens beside small's, from five steps on": {
			traces: append(repeat(5, func() *sdk.Trace { return step("large", call("small", 2), call("large", 5)) }), step("small", call("small", 4))),
			spent:  39, baseline: 35, saved: -4, measured: 5, estimated: 1, judge: 6, quality: 0.75, says: " ± 0.000000 (11 %)",
		},
		"answers that were cut off, or no answers, measure nothing": {
			traces: slices.Concat(repeat(6, func() *sdk.Trace { return step("large", cut, call("large", 5)) }), repeat(6, func() *sdk.Trace { return step("large", refused, call("large", 5)) }),
				repeat(8, func() *sdk.Trace { return step("small", call("small", 1)) })),
			spent: 69.56, baseline: 100, saved: 30.44, measured: 12, estimated: 8, judge: 20, quality: 0.75, says: "(30 %)",
		},
		"its tokens elsewhere, from five steps on": {
			traces: append(repeat(5, func() *sdk.Trace { return step("large", call("large", 5)) }), step("small", call("small", 1))),
			spent:  26, baseline: 30, saved: 4, measured: 5, estimated: 1, judge: 6, quality: 0.75, says: " ± 0.000000 (13 %)",
		},
		"refused steps save nothing": {
			traces: append(repeat(9, func() *sdk.Trace { return step("") }), step("small", call("small", 1, sdk.Passed))),
			spent:  1, baseline: 5, saved: 4, estimated: 1, judge: 1, quality: 1, by: "unit tests", says: "9 of 10 steps got no answer and count as no saving",
		},
		"what a step without an answer spent is spent": {
			traces: []*sdk.Trace{step("", call("small", 1, sdk.Failed)), step("large", call("large", 10))},
			spent:  11, baseline: 10, saved: -1, measured: 1, judge: 1, quality: 0.75, says: "spent more 1.000000",
		},
		"an outage": {
			traces: []*sdk.Trace{step("", sdk.Call{Model: "large", Error: "503"}, sdk.Call{Model: "small", Error: "503"})},
			says:   "no step got an answer to compare with",
		},
		"shadow runs are spent, and save nothing": {
			traces: []*sdk.Trace{step("large", call("large", 10)), in(middleware.ShadowAlternative, step("small", call("small", 6, sdk.Passed)))},
			spent:  16, baseline: 10, saved: -6, shadow: 6, measured: 1, judge: 1, quality: 0.75, says: "6.000000 of it on 1 shadow run; always asking large would have cost 10.000000 on the same step: spent more 6.000000 (60 %)",
		},
		"one model alone": {
			traces: []*sdk.Trace{only(step("small", call("small", 0.001)))},
			spent:  0.001, judge: 1, quality: 0.75, says: "there is no other model to compare with. Quality: estimated at 0.75",
		},
		"what large could not be asked is not compared": {
			traces: []*sdk.Trace{only(step("small", call("small", 2))), step("large", call("large", 10)), in(sdk.ModeEmbeddings, &sdk.Trace{CostUSD: 3})},
			spent:  15, baseline: 10, measured: 1, judge: 2, quality: 0.75, says: "would have cost 10.000000 on the 1 of 2 steps that could have asked it, which cost 10.000000: saved 0.000000 (0 %). Its cost is measured.",
		},
		"runs of each model alone beside those of the policy": {
			traces: append(repeat(30, func() *sdk.Trace { return only(step("small", call("small", 1))) }),
				step("large", call("small", 1), call("large", 10)), step("large", call("large", 10))),
			spent: 51, baseline: 20, saved: -1, measured: 2, judge: 32, quality: 0.75, says: "on the 2 of 32 steps that could have asked it, which cost 21.000000: spent more 1.000000 (5 %). Its cost is measured on all of them.",
		},
		"free checks measure nothing": {
			traces: repeat(18, func() *sdk.Trace { return step("small", check) }),
			spent:  18, baseline: 90, saved: 72, estimated: 18, judge: 18, quality: 0.75, says: "estimated at 0.75",
		},
		"nor does a verifier that only finds faults": {
			traces: []*sdk.Trace{step("small", call("small", 1, sdk.Inconclusive)), step("small", call("small", 1, sdk.Failed))},
			spent:  2, baseline: 10, saved: 8, estimated: 2, judge: 1, quality: 0.75, says: "estimated at 0.75",
		},
	} {
		r := resultOf(c.traces...)
		same := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: %s %v, want %v", name, what, got, want)
			}
		}
		same("spent", r.SpentUSD, c.spent)
		same("the baseline's cost", r.BaselineUSD, c.baseline)
		same("saved", r.SavedUSD, c.saved)
		same("shadow", r.ShadowUSD, c.shadow)
		same("measured steps", float64(r.Measured), float64(c.measured))
		same("estimated steps", float64(r.Estimated), float64(c.estimated))
		same("quality", r.Quality.Mean, c.quality)
		same("answers", float64(r.Quality.N), float64(c.judge))
		if by := strings.Join(r.Quality.By, ", "); by != c.by {
			t.Errorf("%s: measured by %q, want %q", name, by, c.by)
		}
		if text := r.String(); !strings.Contains(text, c.says) || !strings.Contains(text, "Quality: ") {
			t.Errorf("%s: %s\nwant %s, and the quality", name, text, c.says)
		}
	}
	if r := resultOf(); r.String() != "" {
		t.Errorf("no steps say %q", r.String())
	}
}

// The sum of two halves is the whole, and the order of steps does not matter.
func TestAccountsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var whole savings.Account
	parts := [3]savings.Account{}
	for i := range 300 {
		one := step("small", call("small", rng.Float64(), sdk.Outcome(i%3)))
		if i%4 == 0 {
			one = step("large", call("small", 1), call("large", 12*rng.Float64(), sdk.Passed))
		}
		whole.Record(t.Context(), one)
		parts[rng.IntN(3)].Record(t.Context(), one)
	}
	sum := &savings.Account{}
	for i := range parts {
		sum.Add(&parts[i])
	}
	a, b := whole.Result(), sum.Result()
	if math.Abs(a.SavedUSD-b.SavedUSD) > 1e-9 || math.Abs(a.TwoStdErrorsUSD-b.TwoStdErrorsUSD) > 1e-9 || a.Quality.N != b.Quality.N || a.Measured != b.Measured {
		t.Errorf("%+v\nadded up from parts %+v", a, b)
	}
}

// A verdict on a run counts once for each run with a step, the last conclusive one; those of two accounts add up.
func TestRuns(t *testing.T) {
	var a, b savings.Account
	end := func(a *savings.Account, tenant, run string, o sdk.Outcome) {
		a.Record(t.Context(), &sdk.Trace{Mode: sdk.ModeVerdict, Tenant: tenant, Run: run, Verdict: &sdk.Verdict{Outcome: o}})
	}
	begin := func(a *savings.Account, tenant, run string) {
		a.Record(t.Context(), &sdk.Trace{Tenant: tenant, Run: run})
	}
	begin(&a, "", "1")
	begin(&a, "x", "1")
	begin(&b, "", "1")
	begin(&b, "", "2")
	begin(&b, "", "3")
	end(&a, "", "1", sdk.Passed)
	end(&a, "", "1", sdk.Inconclusive)
	end(&a, "", "1", sdk.Failed)
	end(&a, "x", "1", sdk.Passed)
	end(&b, "", "2", sdk.Passed)
	end(&b, "", "3", sdk.Passed)
	end(&b, "", "3", sdk.Inconclusive) // takes it back
	end(&b, "", "never made", sdk.Failed)
	end(&b, "x", "2", sdk.Failed)
	a.Add(&b)
	r := a.Result()
	if r.Runs.N != 3 || math.Abs(r.Runs.Mean-2.0/3) > 1e-12 {
		t.Errorf("%+v", r.Runs)
	}
	a.Record(t.Context(), step("small", call("small", 1)))
	if r = a.Result(); !strings.Contains(r.String(), "Runs: 67 % of 3 with a reported verdict were right (") || strings.Contains(r.String(), "estimated at") {
		t.Error(r.String())
	}
}

// A very long name is truncated in sentences.
func TestLongName(t *testing.T) {
	for _, answered := range []bool{true, false} {
		name := strings.Repeat("m", 3_000_000)
		one := step("", call(name, 2))
		if answered {
			one.Chosen = name
		}
		one.Decisions[0].Models[1].Model = name
		a := &savings.Account{}
		a.Record(t.Context(), one)
		r := a.Result()
		if text := r.String(); len(text) > 1000 || !strings.Contains(text, "mmm…") {
			t.Errorf("answered %v: %d bytes", answered, len(text))
		}
	}
}

func ExampleAccount() {
	var a savings.Account
	a.Record(context.Background(), step("small", call("small", 1, sdk.Passed)))
	a.Record(context.Background(), step("large", call("small", 1, sdk.Failed), call("large", 10, sdk.Passed)))
	r := a.Result()
	fmt.Println(r.String())
	// Output: spent 12.000000 USD; always asking large would have cost 15.000000 on the same 2 steps: saved 3.000000 (20 %, no interval: too few steps asked it). Its cost is measured on 1 of them and estimated on 1. Quality: 100 % of 2 judged answers right (33 to 100 %) by unit tests; large is estimated at 0.90.
}

// A cost of more than 5 % above the baseline is reported with its causes; less, or a few steps, is not.
func TestExcess(t *testing.T) {
	draft := func() *sdk.Trace { return step("large", call("small", 2), call("large", 10)) }
	judged := func() *sdk.Trace {
		s := step("small", call("small", 1, sdk.Passed))
		s.CostUSD += 14
		return s
	}
	n := 0
	shadowed := func() *sdk.Trace { // every other step is the run beside the one before
		if n++; n%2 == 0 {
			return in(middleware.ShadowAlternative, step("small", call("small", 6, sdk.Passed)))
		}
		return step("large", call("large", 10))
	}
	for _, tt := range []struct {
		name string
		n    int
		of   func() *sdk.Trace
		want string
	}{
		{"drafts", 30, draft, "Warning: this costs 20 % more than always asking large: 60.000000 USD on unused answers."},
		{"few steps", 10, draft, ""},
		{"a little", 30, func() *sdk.Trace { return step("large", call("small", 0.3), call("large", 10)) }, ""},
		{"saves", 30, func() *sdk.Trace { return step("small", call("small", 1)) }, ""},
		{"judges", 30, judged, "Warning: this costs 200 % more than always asking large: 420.000000 USD on judging answers."},
		{"shadow runs", 60, shadowed, ""},
	} {
		var traces []*sdk.Trace
		for range tt.n {
			traces = append(traces, tt.of())
		}
		r := resultOf(traces...)
		if got := r.Excess(); got != tt.want || !strings.Contains(r.String(), tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A holdout is reported first, and a verdict on a run is not a step.
func TestHoldoutIsFirst(t *testing.T) {
	of := func(run string, baseline bool) *sdk.Trace {
		s := step("small", call("small", 1))
		if baseline {
			s = step("large", call("large", 10))
		}
		s.Run, s.Holdout = run, &sdk.Holdout{Share: 0.5, Baseline: baseline}
		return s
	}
	var traces []*sdk.Trace
	for i := range 120 {
		if i == 98 {
			if r := resultOf(traces...); !strings.HasPrefix(r.String(), "spent ") || !strings.HasSuffix(r.String(), "from 50 runs of each kind on; it has 49 by the policy and 49 by the baseline.") {
				t.Errorf("before 50 runs of each kind it says %s", r.String())
			}
		}
		run := fmt.Sprint(i)
		traces = append(traces, of(run, i%2 == 0), &sdk.Trace{Mode: sdk.ModeVerdict, Run: run, Verdict: &sdk.Verdict{Outcome: sdk.Passed}})
	}
	complaint := &sdk.Trace{Mode: sdk.ModeVerdict, Run: "0", Verdict: &sdk.Verdict{Outcome: sdk.Failed}}
	if r := resultOf(traces[0], complaint); !strings.Contains(r.String(), "Runs: all 1 with a reported verdict were reported as failed.") {
		t.Errorf("after a complaint it says %s", r.String())
	}
	r := resultOf(traces...)
	want := "Measured by a holdout, 60 runs by the policy and 60 by the baseline: it saves 90 % (90 to 90 %). Right: 100 % of 60 runs, against 100 % of 60: +0.0 points ("
	if !strings.HasPrefix(r.String(), want) || r.Steps != 120 {
		t.Errorf("%d steps: %s", r.Steps, r.String())
	}
}

func TestNoCallIsChosenOfAStepWithoutAnAnswer(t *testing.T) {
	if c := savings.ChosenCall(&sdk.Trace{Calls: []sdk.Call{{CostUSD: 1}}}); c != nil {
		t.Errorf("%+v is taken for the answer of a step that has none", c)
	}
}
