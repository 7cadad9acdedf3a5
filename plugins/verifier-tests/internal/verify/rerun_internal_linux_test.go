package verify

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// counted counts the runs that are planned.
type counted struct {
	runner.Driver

	runs atomic.Int32
}

func (c *counted) Plan(argv []string, tree *runner.Tree, nonce string) (*runner.Plan, error) {
	c.runs.Add(1)
	return c.Driver.Plan(argv, tree, nonce)
}

// TestReruns: a test that failed on the untouched tree has already been retried.
func TestReruns(t *testing.T) {
	for _, test := range []struct {
		name, command, answer string
		reruns                int
		runs                  int32 // the pre-flight is one
	}{
		{"passes", "grep right a", "right", 1, 2},
		{"fails as before", "grep right a", "wrong too", 1, 2},
		{"fails as before, tried more often", "grep right a", "wrong too", 3, 4},
		{"fails anew", "grep wrong a", "right", 1, 4}, // the untouched tree once more
		{"never again", "grep wrong a", "right", 0, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a"), []byte("wrong\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			j, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			v := New(Config{Command: []string{"sh", "-c", test.command}, Preflight: true, Reruns: test.reruns}, j)
			counter := &counted{Driver: v.runner.Driver}
			v.runner.Driver = counter
			req := &sdk.VerifyRequest{Query: &sdk.Query{WorkDir: dir}, Answer: &sdk.Answer{Text: "```text path=a\n" + test.answer + "\n```\n"}}
			if _, err := v.Verify(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if got := counter.runs.Load(); got != test.runs {
				t.Errorf("%d runs, want %d", got, test.runs)
			}
		})
	}
}
