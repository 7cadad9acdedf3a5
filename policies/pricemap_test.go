package policies_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/policies"
)

const priceMap = `{
	"sample_spec": {"litellm_provider": "one of ...", "mode": "one of ...", "input_cost_per_token": 0, "max_input_tokens": "max input tokens"},
	"gpt-4o": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 128000, "max_output_tokens": 16384,
		"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1.2e-05, "cache_read_input_token_cost": 1.25e-06, "supports_vision": true,
		"input_cost_per_token_above_200k_tokens": 5e-06, "output_cost_per_token_above_200k_tokens": 1.8e-05},
	"azure/eu/gpt-4o": {"litellm_provider": "azure", "mode": "chat", "input_cost_per_token": 9e-06, "output_cost_per_token": 9e-05},
	"gemini/novel": {"litellm_provider": "gemini", "mode": "chat", "max_input_tokens": 1048576, "max_output_tokens": 65536, "input_cost_per_token": 3e-07,
		"output_cost_per_token": 2.5e-06, "output_cost_per_reasoning_token": 3.5e-06, "cache_creation_input_token_cost": 3.75e-07, "supports_function_calling": true, "supports_reasoning": true},
	"text-embedding-3-small": {"litellm_provider": "openai", "mode": "embedding", "input_cost_per_token": 2e-08}
}`

func TestUpdateCatalog(t *testing.T) {
	changes, blocks, err := policies.UpdateCatalog([]byte(priceMap), "2026-11-20", "a map", []string{"gemini/novel"})
	if err != nil {
		t.Fatal(err)
	}
	want := []policies.PriceChange{
		{"gemini/novel", "context_tokens", "", "1048576"}, {"gemini/novel", "max_output_tokens", "", "65536"},
		{"gemini/novel", "price.cache_write_usd_per_million", "", "0.375"}, {"gemini/novel", "price.input_usd_per_million", "", "0.3"},
		{"gemini/novel", "price.output_usd_per_million", "", "2.5"}, {"gemini/novel", "price.reasoning_usd_per_million", "", "3.5"},
		{"openai/gpt-4o", "price.long_context_input_factor", "0", "2"}, {"openai/gpt-4o", "price.long_context_output_factor", "0", "1.5"},
		{"openai/gpt-4o", "price.long_context_tokens", "0", "200000"}, {"openai/gpt-4o", "price.output_usd_per_million", "10", "12"},
	}
	if d := cmp.Diff(want, changes); d != "" {
		t.Error(d)
	}
	// A policy that contains the blocks uses their prices.
	p, err := policies.Parse("policy.hcl", append(blocks, []byte(`model "a" {
  provider = "openai"
  served   = "gpt-4o"
}
model "b" {
  provider = "gemini"
  served   = "novel"
}
strategy "route" { lambda = [0] }`)...), policies.LoadOptions{Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := p.Models[0], p.Models[1]
	if a.Price.Output != 12 || a.Price.CachedInput != 1.25 || b.Price.Reasoning != 3.5 || strings.Join(b.Capabilities, " ") != "tools reasoning" {
		t.Errorf("got %+v and %+v", a, b)
	}
}

// Facts that the map lacks, or that are implausible, are kept.
func TestPriceMapStaysPlausible(t *testing.T) {
	entry := func(more string) string {
		return `{"gpt-4o": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 2.5e-06, "output_cost_per_token": 1e-05` + more + "}}"
	}
	for more, want := range map[string][]policies.PriceChange{
		"":                             nil,
		`, "max_input_tokens": 0`:      nil,
		`, "max_input_tokens": 1e9`:    nil,
		`, "max_input_tokens": 5e8`:    {{"openai/gpt-4o", "context_tokens", "128000", "500000000"}},
		`, "max_input_tokens": 111616`: {{"openai/gpt-4o", "context_tokens", "128000", "111616"}},
		`, "max_input_tokens": 111616, "max_output_tokens": 16384`:                                                        nil, // 128000 together
		`, "max_output_tokens": 1`:                                                                                        {{"openai/gpt-4o", "max_output_tokens", "16384", "1"}},
		`, "cache_read_input_token_cost": 0`:                                                                              nil,
		`, "cache_read_input_token_cost": 1.0000004e-06`:                                                                  {{"openai/gpt-4o", "price.cached_input_usd_per_million", "1.25", "1"}},
		`, "input_cost_per_token_above_200k_tokens": 2.5e-06`:                                                             nil,
		`, "input_cost_per_token_above_200k_tokens": 5e-06, "output_cost_per_token_above_200k_tokens": 5e-06`:             {{"openai/gpt-4o", "price.long_context_input_factor", "0", "2"}, {"openai/gpt-4o", "price.long_context_output_factor", "0", "1"}, {"openai/gpt-4o", "price.long_context_tokens", "0", "200000"}},
		`, "input_cost_per_token_above_200k_tokens": 3.333333333e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05`: {{"openai/gpt-4o", "price.long_context_input_factor", "0", "1.333333"}, {"openai/gpt-4o", "price.long_context_output_factor", "0", "1.5"}, {"openai/gpt-4o", "price.long_context_tokens", "0", "200000"}},
	} {
		changes, _, err := policies.UpdateCatalog([]byte(entry(more)), "2026-11-20", "a map", nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, changes); d != "" {
			t.Errorf("%s: %s", more, d)
		}
	}
	for entry, wanted := range map[string]string{
		"only known models":  "",
		"all":                "*",
		"a model by name":    "gemini/novel",
		"an unpriced answer": "openai/half",
	} {
		text := priceMap[:len(priceMap)-1] + `, "half": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 0},
			"replies": {"litellm_provider": "openai", "mode": "responses", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06}}`
		var add []string
		if wanted != "" {
			add = []string{wanted}
		}
		changes, _, err := policies.UpdateCatalog([]byte(text), "2026-11-20", "a map", add)
		novel := slices.ContainsFunc(changes, func(c policies.PriceChange) bool { return c.Model == "gemini/novel" })
		replies := slices.ContainsFunc(changes, func(c policies.PriceChange) bool { return c.Model == "openai/replies" })
		if (err != nil) != (wanted == "openai/half") || novel != (wanted == "*" || wanted == "gemini/novel") || replies != (wanted == "*") {
			t.Errorf("%s: %v, %v", entry, changes, err)
		}
	}
}

func TestShowCatalog(t *testing.T) {
	all, _, err := policies.ShowCatalog(nil)
	if err != nil || len(all) < 10 || !slices.IsSortedFunc(all, func(a, b policies.Catalog) int { return strings.Compare(a.Name, b.Name) }) {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	some, blocks, err := policies.ShowCatalog([]string{"openai/gpt-4o-mini", "mistral/"})
	if err != nil || !slices.ContainsFunc(some, func(c policies.Catalog) bool { return c.Name == "openai/gpt-4o-mini" }) || len(some) < 2 {
		t.Errorf("%v, %v", some, err)
	}
	for _, c := range some {
		if !strings.HasPrefix(c.Name, "openai/gpt-4o-mini") && !strings.HasPrefix(c.Name, "mistral/") || !strings.Contains(string(blocks), `catalog "`+c.Name+`" {`) {
			t.Errorf("%s was not asked for, or is not in\n%s", c.Name, blocks)
		}
	}
	if _, _, err := policies.ShowCatalog([]string{"openai/none", "none"}); err == nil || err.Error() != "the catalogue has no openai/none, none" {
		t.Error(err)
	}
}

func TestUpdateCatalogRefuses(t *testing.T) {
	for _, tt := range []struct{ text, add, want string }{
		{`[]`, "", "reading the price map"}, {`{}`, "", "LiteLLM"}, {priceMap, "openai/none", "has no openai/none"},
	} {
		_, _, err := policies.UpdateCatalog([]byte(tt.text), "2026-11-20", "a map", []string{tt.add}[:len(tt.add[:min(len(tt.add), 1)])])
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", tt.text[:2], err)
		}
	}
}

// Searches are booked at the price of the model's provider, and not at the highest one of any provider.
func TestCatalogPricesSearches(t *testing.T) {
	for name, want := range map[string]float64{"anthropic/claude-sonnet-4-5": 0.01, "openai/gpt-5": 0.01, "openai/gpt-4.1": 0.01, "gemini/gemini-3.5-flash": 0.014, "mistral/mistral-small-latest": 0} {
		list, _, err := policies.ShowCatalog([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if got := list[0].Price.SDK(); got.SearchUSD != want || got.HostedCallUSD != 0 {
			t.Errorf("%s: %v USD for a search, %v for other tools; want %v and the default", name, got.SearchUSD, got.HostedCallUSD, want)
		}
	}
}
