package swe_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// TestStepsEscalateInTheMiddleOfAnAttempt: the first call is answered by the cheapest model; at the second call only
// the most expensive model's answer is accepted. There is one patch, verified at the end.
func TestStepsEscalateInTheMiddleOfAnAttempt(t *testing.T) {
	for _, names := range [][]string{{"small", "large"}, {"small", "medium", "large"}} {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			b := newBench(t)
			script := b.suite.Script()
			server := b.answering(t, func(req *scripted.Request) scripted.Reply {
				if req.Turns() == 1 && req.Model != "large" {
					return scripted.Reply{Text: "I am not sure what to do."}
				}
				own := *req
				own.Model = "large" // whoever is asked plays the same part
				return script(t.Context(), &own)
			})
			r, err := full.Open(t.Context(), stepPolicy(t, server.URL(), names), full.Options{Checks: []step.Check{{
				Name: "unsure", Fault: func(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
					if strings.Contains(a.Text, "not sure") {
						return "unsure"
					}
					return ""
				},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			verifiers := b.solver.Setup.Step.Verifiers
			b.solver.Mode, b.solver.Setup = swe.PerStep, swe.FromRouter(r)
			b.solver.Setup.Step.Verifiers = verifiers
			result := b.solve(t, "ledger-04")
			if !result.Solved || len(result.Attempts) != 1 || b.verified.Load() == 0 {
				t.Fatalf("solved %t in %d attempts, %d verifications: %s", result.Solved, len(result.Attempts), b.verified.Load(), result.Error)
			}
			if server.Calls("large") != 1 || server.Calls("small") < 3 {
				t.Errorf("%d calls of large, %d of small; want one escalation", server.Calls("large"), server.Calls("small"))
			}
			if math.Abs(result.CostUSD-b.solver.Spend.SpentUSD()) > 1e-12 || result.CostUSD <= 0 {
				t.Errorf("cost %g, spend %g", result.CostUSD, b.solver.Spend.SpentUSD())
			}
		})
	}
}

// stepPolicy writes a policy that asks the models in order until an answer is not rejected.
func stepPolicy(t *testing.T, url string, names []string) string {
	t.Helper()
	text := ""
	for _, name := range names {
		text += fmt.Sprintf(`model %q {
  provider = "openai"
  base_url = %q
  price {
    input_usd_per_million  = %g
    output_usd_per_million = %g
  }
  context_tokens    = 128000
  max_output_tokens = 4096
  capabilities      = ["tools"]
}
`, name, url, prices[name].Input, prices[name].Output)
	}
	text += "strategy \"threshold\" {\n  threshold = 0.3\n}\ntrajectory {\n  unit = \"step\"\n}\n"
	path := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
