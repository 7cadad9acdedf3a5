package policies_test

import (
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
	// A policy that holds the blocks is priced by them.
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
