package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/sdk"
)

// Traces of other tools were not redacted when they were written: no command prints what looks like a key, or
// terminal control sequences.
func TestAttackTraceOfAnotherTool(t *testing.T) {
	const key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
	const evil = "key=" + key + " \x1b]0;title\x07\x1b[2J\u202e"
	trace := sdk.Trace{
		ID: "0123456789abcdef", Run: evil, Session: evil, Tenant: evil, Prompt: evil, Error: evil, Labels: map[string]string{"note": evil},
		Decisions: []sdk.Decision{{Run: "small", Note: evil}, {Answer: "small", Note: evil}},
		Calls: []sdk.Call{
			{Model: "small", Answer: evil, NotSent: []string{evil}, Verdict: &sdk.Verdict{Outcome: sdk.Inconclusive, Verifier: "tests", Evidence: evil}},
			{Model: "large", Error: evil},
		},
	}
	line, err := json.Marshal(&trace)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "traces.jsonl")
	if err := os.WriteFile(file, append(line, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"", "--json", "last", "last --json", "--why", "--why --json"} {
		var out bytes.Buffer
		args := append([]string{"trace", "--file", file}, strings.Fields(command)...)
		if code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
			t.Errorf("%s: exit code %d: %s", command, code, out.String())
		}
		if strings.Contains(out.String(), "abcdefghij") {
			t.Errorf("%s prints the key: %s", command, out.String())
		}
		forPrograms := strings.Contains(command, "--json") // which escapes what JSON must
		bad := func(r rune) bool {
			return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && !forPrograms)
		}
		if at := strings.IndexFunc(out.String(), bad); at >= 0 {
			t.Errorf("%s prints %q", command, out.String()[at:min(at+20, out.Len())])
		}
	}
}
