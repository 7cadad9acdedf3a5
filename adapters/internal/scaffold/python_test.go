package scaffold_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/scaffold"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/process"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// pythonProgram creates a Python project whose verifier raises for an answer that asks for it.
func pythonProgram(t *testing.T) string {
	t.Helper()
	interpreter, ok := scaffold.FindPython()
	if !ok {
		t.Skip("there is no python3 with grpcio, protobuf and cryptography")
	}
	path := filepath.Join(project(t, scaffold.Options{Name: "verifier-words", Lang: "python", Python: cmp.Or(interpreter, "/usr/bin/env python3")}), "verifier-words")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at, fault := range map[string]string{
		`        self.words, self.log =`: `        if config["words"] == 7:
            raise SystemExit(7)
`,
		`        words = len(`: `        if "boom" in request.answer.text:
            raise KeyError("boom")
        if "exit" in request.answer.text:
            raise SystemExit(3)
        if "interrupt" in request.answer.text:
            raise KeyboardInterrupt()
        if "typo" in request.answer.text:
            return Verdict("pass")
`,
	} {
		if strings.Count(string(text), at) != 1 {
			t.Fatalf("the template has changed: it has no %q", at)
		}
		text = []byte(strings.Replace(string(text), at, fault+at, 1))
	}
	if err := os.WriteFile(path, text, 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return path
}

// A Python plugin has the same commands for people as a Go one: docs, check and help.
func TestPythonAnswersAPerson(t *testing.T) {
	path := pythonProgram(t)
	for _, c := range []struct {
		args  []string
		stdin string
		code  int
		want  string
	}{
		{[]string{"docs"}, "", 0, "| `words` | integer | `5` | Words that a good answer has at least. At least 1. At most 10000. |"},
		{[]string{"check", "-"}, `{"words": 3}`, 0, "the config is good"},
		{[]string{"check", "verifier", "-"}, `{"words": 0}`, 1, "error: words: 0 is too small"},
		{[]string{"check", "-"}, `{"wrods": 3}`, 1, "error: wrods: unknown argument"},
		{[]string{"check", "-"}, `[]`, 1, "not a JSON object"},
		{[]string{"check", "missing.json"}, "", 1, "missing.json"},
		{[]string{"check", "cost-estimator", "-"}, `{}`, 2, "has no role cost-estimator"},
		{[]string{"--help"}, "", 0, "verifier-words check [ROLE] FILE"},
		{[]string{"bogus"}, "", 2, "Usage:"},
	} {
		cmd := exec.Command(path, c.args...)
		cmd.Stdin = strings.NewReader(c.stdin)
		out, _ := cmd.CombinedOutput() // the exit code is looked at
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: exit code %d, want %d with %q:\n%s", c.args, code, c.code, c.want, out)
		}
	}
}

// An exception in a plugin is an error of the call, and is logged with the line that raised it.
func TestPythonLogsExceptions(t *testing.T) {
	var log strings.Builder
	p, err := process.Start(t.Context(), process.Spec{
		Path: pythonProgram(t), Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, StartTimeout: time.Minute,
		Log: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Debug}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	configure := func(words float64) (schema.Diagnostics, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return p.Client().Configure(ctx, &wire.ConfigureRequest{Instance: "words", Role: wire.Verifier, Config: map[string]any{"words": words}})
	}
	if ds, err := configure(7); err != nil || !strings.Contains(ds.Error(), "SystemExit(7)") {
		t.Errorf("an exit of the constructor came as %v, %v", ds, err)
	}
	if ds, err := configure(2); err != nil || ds.HasErrors() {
		t.Fatal(err, ds)
	}
	ask := func(text string) (*sdk.Verdict, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return p.Client().Verify(ctx, &sdk.VerifyRequest{Query: &sdk.Query{}, Answer: &sdk.Answer{Model: "m", Text: text}})
	}
	if v, err := ask("two words"); err != nil || v.Outcome != sdk.Passed {
		t.Errorf("got %+v, %v", v, err)
	}
	for text, want := range map[string]string{
		"boom": "KeyError('boom')", "exit": "SystemExit(3)", "interrupt": "KeyboardInterrupt()",
		"typo": "the outcome 'pass' is none of passed, failed, inconclusive",
	} {
		if _, err := ask(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an exception came as %v, want %s", err, want)
		}
	}
	if v, err := ask("two words"); err != nil || v.Outcome != sdk.Passed {
		t.Errorf("after exceptions: %+v, %v", v, err)
	}
	p.Stop()
	if !strings.Contains(log.String(), "raise KeyError") || !strings.Contains(log.String(), "verifier-words") {
		t.Errorf("the log has no traceback:\n%s", log.String())
	}
}
