package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/cli"
)

// With a profile, plan --query supposes the costs that the profile expects, and names its strategy.
func TestExplanationSupposesCostsOfTheProfile(t *testing.T) {
	t.Chdir(t.TempDir())
	var rows strings.Builder
	for q := range 80 {
		for _, m := range []struct {
			name    string
			usd     float64
			quality int
		}{{"small", 0.00123, min(1, q%4)}, {"large", 0.0456, 1}} {
			fmt.Fprintf(&rows, `{"query_id": "q%d", "model": %q, "cost_usd": %v, "quality": %d}`+"\n", q, m.name, m.usd, m.quality)
		}
	}
	policy := "strategy \"threshold\" {\n  order = [\"small\", \"large\"]\n  threshold = 0.9\n}\n"
	for _, name := range []string{"small", "large"} {
		policy += fmt.Sprintf("model %q {\n  provider = \"go\"\n  price {\n    input_usd_per_million = 1\n    output_usd_per_million = 2\n  }\n}\n", name)
	}
	for file, text := range map[string]string{"rows.jsonl": rows.String(), "policy.hcl": policy, "fitted.hcl": policy + "fit {\n  profile = \"p.json\"\n}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	for _, args := range [][]string{
		{"fit", "--policy", "policy.hcl", "--outcomes", "rows.jsonl", "--strategy", "index", "--budget", "0.02", "--out", "p.json"},
		{"policy", "plan", "fitted.hcl", "--query", "x", "--with", "tokens=100"},
	} {
		out.Reset()
		if code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
			t.Fatalf("exit %d\n%s", code, &out)
		}
	}
	for _, want := range []string{"the profile's strategy decides: index", "supposed: large answers with quality 1.00 for 0.045600 USD"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
