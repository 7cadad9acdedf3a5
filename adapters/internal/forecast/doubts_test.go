package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// Which tools a process doubts depends on chance where two answers differ on about one call in ten: a replay of 200
// runs does not determine the cost of as many others, and the interval is wide enough.
func TestDoubtsWidenTheInterval(t *testing.T) {
	p, err := policies.Parse("policy.hcl", []byte(`
model "small" {
  provider = "go"
  capabilities = ["tools"]
  price {
    input_usd_per_million = 0.1
    output_usd_per_million = 0.1
  }
}
model "other" {
  provider = "go"
  capabilities = ["tools"]
  price {
    input_usd_per_million = 0.1
    output_usd_per_million = 0.1
  }
}
model "large" {
  provider = "go"
  capabilities = ["tools"]
  price {
    input_usd_per_million = 10
    output_usd_per_million = 10
  }
}
estimator "agreement" {
  plugin = "agreement"
  doubt_up_to = 0.9
}
strategy "threshold" {
  order = ["small", "other", "large"]
  threshold = 0.9
  answer = "last"
}
`), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &forecast.Traces{Seed: 1}
	call := func(model, text string, usd float64) sdk.Call {
		return sdk.Call{Model: model, Key: text, Tools: []string{"act"}, CostUSD: usd, Usage: sdk.Usage{InputTokens: 1000, OutputTokens: 10}}
	}
	for n := range 400 {
		s := &sdk.Trace{ID: fmt.Sprint(n), Run: fmt.Sprint(n / 2), Start: time.Unix(int64(n), 0), InputTokens: 1000, Tools: []string{"act"}}
		s.Calls = []sdk.Call{call("small", "a", 0.0001), call("other", "a", 0.0001), call("large", "a", 0.01)}
		if n%10 == 9 {
			s.Calls[1].Key = "b"
		}
		w.Steps = append(w.Steps, s)
	}
	f, err := forecast.New(t.Context(), p, w, forecast.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Never doubted the tool costs 0.0012 a step, always doubted most of 0.01.
	low, high := forecast.RepeatInterval(f.CostUSD, f.CostStdError)
	t.Logf("%.6f ± %.6f: %.6f to %.6f", f.CostUSD, f.CostStdError, low, high)
	if low > 0.0025 || high < 0.007 {
		t.Errorf("%.6f to %.6f, want 0.0025 to 0.007 in it", low, high)
	}
}
