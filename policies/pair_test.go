package policies

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// CheapPair returns the cheapest pair of different makers before the most expensive model; free models are left
// out. Prices are the catalogue's, with 5 input tokens for each output token.
func TestCheapPair(t *testing.T) {
	const free = "ollama/home"
	pairOf := func(t *testing.T, models ...string) (*Pair, error) {
		t.Helper()
		var text strings.Builder
		text.WriteString("strategy \"route\" {\n  worth_usd = 1\n}\n")
		for _, name := range models {
			provider, served, _ := strings.Cut(name, "/")
			price := ""
			if name == free {
				price = "  capabilities = [\"tools\"]\n  price {\n    free = true\n  }\n"
			}
			fmt.Fprintf(&text, "model %q {\n  provider = %q\n%s}\n", served, provider, price)
		}
		p, err := Parse("policy.hcl", []byte(text.String()), LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.CheapPair()
	}
	mini, openai, haiku, sonnet, mistral := "openai/gpt-4.1-mini", "openai/gpt-4.1", "anthropic/claude-haiku-4-5", "anthropic/claude-sonnet-4-5", "mistral/mistral-small-latest"
	for name, models := range map[string][]string{
		"all":         {mini, openai, haiku, sonnet, mistral, free},
		"handed over": {"go/gpt-4.1-mini", "go/claude-sonnet-4-5", "go/mistral-small-latest"},
	} {
		// mistral-small 5 * 0.1 + 0.3, gpt-4.1-mini 5 * 0.4 + 1.6, claude-sonnet-4-5 5 * 3 + 15.
		pair, err := pairOf(t, models...)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := pair.Cheap[0].Name + " " + pair.Cheap[1].Name + " " + pair.Large.Name; got != "mistral-small-latest gpt-4.1-mini claude-sonnet-4-5" || math.Abs(pair.Cost-pairCost(4.4/30)) > 1e-9 {
			t.Errorf("%s: %s at %v of the cost", name, got, pair.Cost)
		}
	}
	for name, models := range map[string][]string{
		"one maker":        {mini, openai},
		"free":             {free},
		"two of a maker":   {mini, openai, free},
		"one maker, go":    {"go/gpt-4.1-mini", "go/gpt-4.1-nano", "go/gpt-4.1"},
		"embeddings alone": {mini, "openai/text-embedding-3-small", sonnet},
	} {
		if pair, err := pairOf(t, models...); !errors.Is(err, ErrNoPair) {
			t.Errorf("%s: %+v, %v", name, pair, err)
		}
	}
	// gpt-4.1-mini and claude-haiku-4-5 before gpt-4.1: 13.6 of 18.
	if pair, err := pairOf(t, mini, openai, haiku); err == nil || !strings.Contains(err.Error(), "not cheap enough") {
		t.Errorf("%+v, %v", pair, err)
	}
}

// A pair costs both its models plus the large one where they differ, and at least what doubt_up_to allows for hard
// runs and doubts.
func TestPairCost(t *testing.T) {
	if cheap, dear := pairCost(0.1), pairCost(0.4); cheap != DoubtUpTo || math.Abs(dear-0.67) > 1e-12 {
		t.Errorf("%v and %v, want %v and 0.67", cheap, dear, DoubtUpTo)
	}
}

// Blocks returns a valid policy, and Expectation states the savings.
func TestPairIsAPolicy(t *testing.T) {
	models := ""
	for _, name := range []string{"gpt-4.1", "mistral-small-latest", "gpt-4.1-mini"} {
		provider, _, _ := strings.Cut(map[string]string{"m": "mistral-", "g": "openai-"}[name[:1]], "-")
		models += fmt.Sprintf("model %q {\n  provider = %q\n}\n", name, provider)
	}
	p, err := Parse("policy.hcl", []byte(models+"strategy \"route\" {\n  worth_usd = 1\n}\n"), LoadOptions{Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := p.CheapPair()
	if err != nil || p.Dearest() != "gpt-4.1" {
		t.Fatal(p.Dearest(), err)
	}
	first, err := Parse("policy.hcl", []byte(models+pair.Blocks()), LoadOptions{Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	hard := first.Matches[0]
	if got := fmt.Sprintln(first.Strategy.Order, first.Strategy.Threshold, first.Estimators[0].DoubtUpTo, hard.When.Setbacks, hard.Strategy.Order, hard.Strategy.Threshold, first.Baseline, first.Holdout.Share, len(first.Warnings)); got != "[mistral-small-latest gpt-4.1-mini gpt-4.1] [0.9] 0.55 1 [gpt-4.1 gpt-4.1-mini mistral-small-latest] [0] gpt-4.1 0.05 0\n" {
		t.Error(got, first.Warnings)
	}
	// The two cost 0.8 + 3.6 of 18 and the large one is called in 27 % of the steps: 51 %, with doubts up
	// to 55 %. One run in twenty saves nothing.
	if said := pair.Expectation(); !strings.HasPrefix(said, "up to 43 % saved compared with gpt-4.1 alone, less if most of the prompts are read from caches. ") || !strings.Contains(said, "agreed on 73 % ") {
		t.Error(said)
	}
}
