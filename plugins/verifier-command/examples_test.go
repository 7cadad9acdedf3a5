package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// TestExamples runs the programs of docs/first-party-plugins.md, sandboxed.
func TestExamples(t *testing.T) {
	for _, test := range []struct {
		program, needs, answer string
		want                   sdk.Outcome
		score                  float64
		says                   string
	}{
		{"numbered.sh", "jq", "1. a\n2. b\n3. c", sdk.Passed, 1, ""},
		{"numbered.sh", "jq", "1. a", sdk.Failed, 0, "a list of 1 points"},
		{"sums.py", "python3", "2 + 2 = 4", sdk.Passed, 1, ""},
		{"sums.py", "python3", "2 + 2 = 4 and 3 + 4 = 8", sdk.Failed, 0.5, "3 + 4 is 7, not 8"},
		{"sums.py", "python3", "four", sdk.Inconclusive, 0, "no sum"},
	} {
		t.Run(test.program, func(t *testing.T) {
			if _, err := exec.LookPath(test.needs); err != nil {
				t.Skip(err)
			}
			v, err := open(t.Context(), Config{
				Command: []string{"examples/" + test.program}, Contract: "json", Timeout: 20 * time.Second, Parallel: 1, OutputKiB: 64,
				Isolation: "sandboxed",
			})
			if err != nil {
				t.Fatal(err)
			}
			verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Answer: &sdk.Answer{Text: test.answer}})
			if err != nil || verdict.Outcome != test.want || verdict.Score != test.score || !strings.Contains(verdict.Evidence, test.says) {
				t.Errorf("%+v, %v", verdict, err)
			}
		})
	}
}
