package cli

import (
	"math"
	"strings"
	"testing"
)

// Of all pairs the two that cost least are taken, of different makers, before the dearest; what
// costs nothing is left out. Prices are the catalogue's: 5 tokens in for each one out.
func TestTrioOf(t *testing.T) {
	all := offers(t.Context(), func(name string) string {
		if strings.HasSuffix(name, "_API_KEY") {
			return "x"
		}
		return ""
	})
	free := offer{name: "home", provider: "ollama", served: "home", url: "http://127.0.0.1:1", free: true}
	three, err := trioOf(append(all, free))
	if err != nil {
		t.Fatal(err)
	}
	// mistral-small 5 * 0.1 + 0.3, gpt-4.1-mini 5 * 0.4 + 1.6, claude-sonnet-4-5 5 * 3 + 15.
	if got := three.cheap[0].name + " " + three.cheap[1].name + " " + three.large.name; got != "mistral-small gpt-small claude-large" || math.Abs(three.cost-cascadeCost(4.4/30)) > 1e-9 {
		t.Errorf("%s at %v of the cost", got, three.cost)
	}
	for name, list := range map[string][]offer{
		"one maker":      {all[0], all[1]},
		"nothing":        nil,
		"two of a maker": {all[0], all[1], free},
		// gpt-4.1-mini and claude-haiku-4-5 before gpt-4.1: 13.6 of 18.
		"not cheap enough": {all[0], all[1], all[2]},
	} {
		if three, err := trioOf(list); err == nil {
			t.Errorf("%s: %+v", name, three)
		}
	}
}

// The cost of the cascade of a run is that of a walk through all runs: each step agrees or not,
// and after the first that does not the large model goes on alone.
func TestCascadeCost(t *testing.T) {
	const pair = 0.15
	want := 0.0
	for way := range 1 << runSteps {
		chance, cost, hard := 1.0, 0.0, false
		for i := range runSteps {
			agrees := way>>i&1 == 1
			if agrees {
				chance *= agreeShare
			} else {
				chance *= 1 - agreeShare
			}
			switch {
			case hard:
				cost++
			case agrees:
				cost += pair
			default:
				cost, hard = cost+pair+1, true
			}
		}
		want += chance * cost / runSteps
	}
	if got := cascadeCost(pair); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
}
