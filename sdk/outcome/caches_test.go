package outcome_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// cachedPrice makes a cached token 2 dollars cheaper per million than one that is written to the cache.
var cachedPrice = sdk.Price{Input: 2, CachedInput: 0.5, CacheWrite: 2.5, Output: 10}

// cachedStep is a step of a run in which every model was asked. 1,000 tokens of each prompt are common to all runs.
func cachedStep(run string, n, tokens, cached int) *sdk.Trace {
	usage := sdk.Usage{CachedInputTokens: cached, CacheWriteTokens: tokens - cached, OutputTokens: 10}
	call := sdk.Call{Model: "large", CostUSD: cachedPrice.CostUSD(usage), Usage: usage}
	return &sdk.Trace{
		ID: fmt.Sprint(run, n), Run: run, Mode: "shadow", InputTokens: tokens, Chosen: "large", Calls: []sdk.Call{call},
		Decisions: []sdk.Decision{{Models: []sdk.Belief{{Model: "large", Price: &cachedPrice}}}},
	}
}

func TestCaches(t *testing.T) {
	traces := []*sdk.Trace{
		cachedStep("a", 1, 2000, 1000), cachedStep("a", 2, 3000, 2000), cachedStep("a", 3, 4000, 3000),
		cachedStep("b", 1, 2000, 1000), cachedStep("b", 2, 1500, 1000), // its prompt was cut
		cachedStep("", 1, 2000, 500),
	}
	c := outcome.CachesOf(traces)
	q, m, isKnown := c.Find("a3", "large")
	if _, _, isThere := c.Find("a3", "small"); isThere || !isKnown {
		t.Fatalf("a3 is known: %v", isKnown)
	}
	const usd = 2e-6 // a token
	for read, want := range map[float64]float64{3000: 0, 2000: 1000, 0: 2000} {
		if got := c.DearerUSD(q, m, read); math.Abs(got-want*usd) > 1e-12 {
			t.Errorf("%v dearer for a model that read %v tokens, want %v", got, read, want*usd)
		}
	}
	for _, name := range []string{"a1", "b2", "1"} { // nothing else is known of b2 and 1
		q, m, _ := c.Find(name, "large")
		if got := c.DearerUSD(q, m, 0); got != 0 {
			t.Errorf("%s: %v dearer", name, got)
		}
	}
	for _, step := range traces {
		step.Calls[0].Usage.CachedInputTokens = 0
	}
	if c := outcome.CachesOf(traces); c != nil {
		t.Errorf("caches of models that have none: %+v", c)
	}
}

// A model that is asked in the last step alone must read there what was said since the run began.
func TestCostsInUse(t *testing.T) {
	traces := []*sdk.Trace{cachedStep("a", 1, 2000, 1000), cachedStep("a", 2, 3000, 2000), cachedStep("a", 3, 4000, 3000)}
	for _, step := range traces {
		step.Calls[0].Verdict = &sdk.Verdict{Verifier: "tests", Outcome: sdk.Passed}
	}
	table, err := outcome.OfTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	same := table.Caches().TableIf(func(int, int) bool { return true })
	late := table.Caches().TableIf(func(q, _ int) bool { return q == 2 })
	for q, want := range []float64{0, 1000, 2000} {
		if got := (late.CostUSD[q][0] - table.CostUSD[q][0]) / 2e-6; math.Abs(got-want) > 1e-6 || math.Abs(same.CostUSD[q][0]-table.CostUSD[q][0]) > 1e-12 {
			t.Errorf("step %d: %v tokens dearer, want %v; asked as recorded: %v instead of %v", q, got, want, same.CostUSD[q], table.CostUSD[q])
		}
		if got := late.CachedUSD[q][0] + late.CostUSD[q][0] - table.CachedUSD[q][0] - table.CostUSD[q][0]; math.Abs(got) > 1e-12 {
			t.Errorf("step %d: what the prompt costs without a cache changed by %v", q, got)
		}
	}
}

// A short prompt between long ones, as of an agent that another one calls, is no part of them: the longest prompt read counts,
// and no call saves more than its prompt.
func TestCachesOfPromptsThatDoNotGrow(t *testing.T) {
	traces := []*sdk.Trace{cachedStep("a", 1, 20000, 1000), cachedStep("a", 2, 1000, 500), cachedStep("a", 3, 21000, 20000)}
	c := outcome.CachesOf(traces)
	q, m, _ := c.Find("a3", "large")
	const usd = 2e-6                                                                           // a token
	for read, want := range map[float64]float64{20000: 0, 1000: 19000 * usd, 0: 19250 * usd} { // 750 tokens on first calls
		if got := c.DearerUSD(q, m, read); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v dearer for a model that read %v tokens, want %v", got, read, want)
		}
	}
	if got := outcome.LongestPrompt([]float64{20000, 1000, 21000}, 20500); got != 20000 {
		t.Errorf("the longest prompt up to 20500 tokens has %v", got)
	}
}

// Prompts without tools share no cache with those that have some, and some providers cache none of them.
func TestCachesByTools(t *testing.T) {
	price := sdk.Price{Input: 2, CachedInput: 0.2, CacheWrite: 2.5, Output: 10}
	var traces []*sdk.Trace
	for run := range 3 {
		for n := range 3 {
			usage, tools := sdk.Usage{CachedInputTokens: 1000 * n, CacheWriteTokens: 1000, OutputTokens: 10}, []string{"read"}
			if n == 2 {
				usage, tools = sdk.Usage{InputTokens: 3000, OutputTokens: 10}, nil
			}
			s := &sdk.Trace{
				ID: fmt.Sprint(run, " ", n), Run: fmt.Sprint(run), Tools: tools, Chosen: "large", InputTokens: 1000 * (n + 1),
				Decisions: []sdk.Decision{{Models: []sdk.Belief{{Model: "large", Price: &price}}}},
				Calls:     []sdk.Call{{Model: "large", CostUSD: price.CostUSD(usage), Usage: usage}},
			}
			traces = append(traces, s)
		}
	}
	caches := outcome.CachesOf(traces)
	for query, want := range map[string]float64{"0 1": 1000 * 2.3e-6, "0 2": 0} {
		q, m, areKnown := caches.Find(query, "large")
		if got := caches.DearerUSD(q, m, 0); !areKnown || math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v dearer with an empty cache, want %v", query, got, want)
		}
	}
	if q, m, _ := caches.Find("0 2", "large"); caches.DearerUSD(q, m, 2000) != 0 {
		t.Error("a prompt without tools is cheaper after one with tools")
	}
}
