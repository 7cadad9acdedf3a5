package policies_test

import (
	"fmt"
	"testing"

	"github.com/stepfall/stepfall/policies"
)

// A model named with a snapshot date has the facts of the undated name, unless the catalogue has an entry for that
// date.
func TestModelsNamedWithADay(t *testing.T) {
	for _, c := range []struct {
		provider, served string
		output           float64 // 0: unknown
	}{
		{"openai", "gpt-4.1-mini-2025-04-14", 1.6}, {"go", "gpt-4.1-mini-2025-04-14", 1.6}, {"anthropic", "claude-sonnet-4-5-20250929", 15}, {"go", "claude-sonnet-4-5-20250929", 15},
		{"openai", "gpt-4o-2024-11-20", 10}, {"openai", "gpt-4o-2024-05-13", 15},
		{"openai", "gpt-4.1-mini-tuned", 0}, {"openai", "gpt-4.1-mini-1234", 0}, {"openai", "o3-2025-04-16", 8}, {"openai", "o1-2024-12-17", 0}, {"mistral", "gpt-4.1-2025-04-14", 0},
	} {
		text := fmt.Sprintf("model \"m\" {\n  provider = %q\n  served = %q\n}\nstrategy \"route\" {\n  worth_usd = 1\n}\n", c.provider, c.served)
		p, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{WithoutSecrets: true})
		if (err == nil) != (c.output > 0) || err == nil && p.Models[0].Price.Output != c.output {
			t.Errorf("%s %s: %v, %v", c.provider, c.served, p, err)
		}
	}
}
