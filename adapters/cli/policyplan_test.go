package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/cli"
)

// The exit code shows CI whether a plan changes something.
func TestPlanExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := `
model "small" {
  provider = "openai"
  served   = "gpt-4.1-mini"
}
strategy "route" { lambda = 1 }
`
	old := write("old.hcl", text)
	same := write("same.hcl", "# another file that says the same\n"+text+"budget {\n  at_cap = \"best\"\n}\n")
	other := write("other.hcl", strings.Replace(text, "lambda = 1", "lambda = 2", 1))
	bad := write("bad.hcl", "strategy \"route\" {}\n")
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{same, "--against", old, "--detailed-exitcode"}, 0},
		{[]string{other, "--against", old, "--detailed-exitcode"}, 2},
		{[]string{other, "--against", old}, 0},
		{[]string{bad, "--against", old, "--detailed-exitcode"}, 1},
		{[]string{other, "--detailed-exitcode"}, 1},
		{[]string{other, "--against", old, "--detailed-exitcode", "--outcomes", "nothere.csv"}, 1},
		{[]string{other, "--against", old, "--detailed-exitcode", "--traces", "nothere.jsonl"}, 1},
	} {
		var out bytes.Buffer
		if got := cli.Run(t.Context(), append([]string{"policy", "plan"}, tt.args...), cli.Streams{Out: &out, Err: &out}); got != tt.want {
			t.Errorf("%v: exit code %d, want %d\n%s", tt.args, got, tt.want, &out)
		}
	}
}
