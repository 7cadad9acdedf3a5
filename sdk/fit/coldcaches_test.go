package fit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

// A model that others answered for writes what was said since to its cache, which costs more than the estimate from steps
// where it was always asked. That is no drift; a higher price is.
func TestAssessKnowsCachesFromPrices(t *testing.T) {
	price := sdk.Price{Input: 3, CachedInput: 0.3, CacheWrite: 3.75, Output: 15}
	p := &Profile{Models: []Model{{Name: "large"}}, Data: Data{Queries: 200}, Usual: []Offset{{"cost of large", 200, 0, 0.01}}}
	for dearer, want := range map[float64]bool{1: true, 2: false} {
		var traces []*sdk.Trace
		for n := range 40 {
			run := fmt.Sprint(n)
			usage := sdk.Usage{CachedInputTokens: 5000, CacheWriteTokens: 1500, OutputTokens: 100 + n}
			warm := sdk.Usage{CachedInputTokens: 6250, CacheWriteTokens: 250, OutputTokens: 120}
			traces = append(
				traces,
				&sdk.Trace{ID: run + "a", Run: run, Mode: "enforce", Profile: "p.json", InputTokens: 6250},
				&sdk.Trace{
					ID: run + "b", Run: run, Mode: "enforce", Profile: "p.json", InputTokens: 6500, Chosen: "large",
					Decisions: []sdk.Decision{{Run: "large", Models: []sdk.Belief{{Model: "large", CostUSD: price.CostUSD(warm), Price: &price}}}},
					Calls:     []sdk.Call{{Model: "large", Usage: usage, CostUSD: dearer * price.CostUSD(usage)}},
				},
			)
		}
		a, err := Assess(p, traces)
		if err != nil || a.Holds() != want || len(a.Cold) == 1 != want || !want && !strings.HasPrefix(a.Drifts[0].Of, "cost of large") {
			t.Errorf("at %v times the price: %v %+v", dearer, err, a)
		}
	}
}
