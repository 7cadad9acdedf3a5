package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Steps are recorded with both models, so that each finds the steps before in its cache. A strategy that rarely asks the
// large one pays more for it.
func TestCostsAreThoseInUse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	prices := map[string]*sdk.Price{"small": {Input: 0.2, CachedInput: 0.02, CacheWrite: 0.25, Output: 1}, "large": {Input: 3, CachedInput: 0.3, CacheWrite: 3.75, Output: 15}}
	var traces []*sdk.Trace
	for run := range 80 {
		for n := range 4 {
			step := &sdk.Trace{ID: fmt.Sprint(run, " ", n), Run: fmt.Sprint(run), Mode: "shadow", InputTokens: 2000 + 1500*n, Chosen: "large", Decisions: []sdk.Decision{{}}}
			for _, name := range []string{"small", "large"} {
				usage := sdk.Usage{CacheWriteTokens: 1500, CachedInputTokens: 500 + 1500*n, OutputTokens: 50}
				verdict := &sdk.Verdict{Verifier: "tests", Outcome: sdk.Passed}
				if name == "small" && rng.Float64() < 0.3 {
					verdict.Outcome = sdk.Failed
				}
				step.Calls = append(step.Calls, sdk.Call{Model: name, Usage: usage, CostUSD: prices[name].CostUSD(usage), Verdict: verdict})
				step.Decisions[0].Models = append(step.Decisions[0].Models, sdk.Belief{Model: name, Price: prices[name]})
			}
			traces = append(traces, step)
		}
	}
	table, err := outcome.OfTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Fit(t.Context(), table, Options{Strategy: "index", BudgetUSD: 0.003})
	if err != nil {
		t.Fatal(err)
	}
	before := (&outcome.Table{Models: table.Models, CostUSD: table.CachedUSD}).MeanCosts()
	for m, name := range table.Models {
		if saved := p.Models[m].CachedUSD; name == "large" && saved > 0.7*before[m] || name == "small" && math.Abs(saved-before[m]) > 1e-9 {
			t.Errorf("caches save %v a call of %s in use and %v where it is always asked", saved, name, before[m])
		}
	}
	if p.Data.SHA256 != table.Hash() || math.Abs(p.Expected.CostUSD-0.003) > 0.0003 {
		t.Errorf("%v USD a query; hash of another table: %v", p.Expected.CostUSD, p.Data.SHA256 != table.Hash())
	}
}

// Prompts that are cached less than in the fit are no drift; a higher price is.
func TestAssessKnowsCachesFromPrices(t *testing.T) {
	price := sdk.Price{Input: 3, CachedInput: 0.3, CacheWrite: 3.75, Output: 15}
	warm := sdk.Usage{CachedInputTokens: 6250, CacheWriteTokens: 250, OutputTokens: 120}
	p := &Profile{Models: []Model{{Name: "large", CachedUSD: price.CachedUSD(warm)}}, Data: Data{Queries: 200}, Usual: []Offset{{"cost of large", 200, 0, 0.01}}}
	for dearer, want := range map[float64]bool{1: true, 2: false} {
		var traces []*sdk.Trace
		for n := range 40 {
			usage := sdk.Usage{CachedInputTokens: 5000, CacheWriteTokens: 1500, OutputTokens: 100 + n}
			traces = append(traces, &sdk.Trace{
				ID: fmt.Sprint(n), Mode: "enforce", Profile: "p.json", Tools: []string{"read"}, InputTokens: 6500, Chosen: "large",
				Decisions: []sdk.Decision{{Run: "large", Models: []sdk.Belief{{Model: "large", CostUSD: price.CostUSD(warm), Price: &price}}}},
				Calls:     []sdk.Call{{Model: "large", Usage: usage, CostUSD: dearer * price.CostUSD(usage)}},
			})
		}
		// On steps without tools the model caches nothing: they are compared with such steps of the fit.
		p.Usual = append(p.Usual[:1], Offset{"cost of large" + withoutTools, 200, math.Log(0.6), 0.01})
		for n := range 40 {
			usage := sdk.Usage{InputTokens: 500, OutputTokens: 100 + n}
			usd := 0.6 * (price.CostUSD(warm) + p.Models[0].CachedUSD) * (1 + float64(n)/1000)
			traces = append(traces, &sdk.Trace{
				ID: fmt.Sprint("plain ", n), Mode: "enforce", Profile: "p.json", Chosen: "large",
				Decisions: []sdk.Decision{{Run: "large", Models: []sdk.Belief{{Model: "large", CostUSD: price.CostUSD(warm), Price: &price}}}},
				Calls:     []sdk.Call{{Model: "large", Usage: usage, CostUSD: usd}},
			})
		}
		// What a holdout or a match block asks is no choice of the fitted strategy.
		p.Strategy = cascade.Setting{Name: "index"}
		for n := range 40 {
			s := *traces[n]
			s.Calls = []sdk.Call{{Model: "large", Usage: s.Calls[0].Usage, CostUSD: 9}}
			if s.Setting.Name = "threshold"; n%2 == 0 {
				s.Setting.Name, s.Holdout = "index", &sdk.Holdout{Share: 0.1, Baseline: true}
			}
			traces = append(traces, &s)
		}
		a, err := Assess(p, traces)
		if err != nil || a.Holds() != want || !want && !strings.HasPrefix(a.Drifts[0].Of, "cost of large") {
			t.Errorf("at %v times the price: %v %+v", dearer, err, a)
		}
	}
}

// Free checks only reject: where nothing else judges answers, those that they reject say nothing of the others.
func TestAssessTestsNoQualityByChecksAlone(t *testing.T) {
	p := &Profile{Models: []Model{{Name: "small"}}, Data: Data{Queries: 200}, Usual: []Offset{{ofQuality + "small", 200, 0, 0.1}, {"cost of small", 200, 0, 0.01}}}
	for verifier, want := range map[string]bool{"check:refusal": true, "tests": false} {
		var traces []*sdk.Trace
		for n := range 60 {
			traces = append(traces, &sdk.Trace{
				ID: fmt.Sprint(n), Mode: "enforce", Profile: "p.json", Chosen: "small",
				Decisions: []sdk.Decision{{Run: "small", Models: []sdk.Belief{{Model: "small", CostUSD: 1, Quality: sdk.Estimate{Mean: 0.9}}}}},
				Calls:     []sdk.Call{{Model: "small", CostUSD: 1, Verdict: &sdk.Verdict{Verifier: verifier, Outcome: sdk.Failed}}},
			})
		}
		if a, err := Assess(p, traces); err != nil || a.Holds() != want {
			t.Errorf("%s: %v %+v", verifier, err, a)
		}
	}
}
