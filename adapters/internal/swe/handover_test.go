package swe_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// The result's patch is the one that was judged: without left-out edits, and with the judge's confidence.
func TestPatchIsWhatWasJudged(t *testing.T) {
	b := newBench(t)
	onlySmall(b)
	b.judgedBy(verdicts(&sdk.Verdict{Outcome: sdk.Failed}, &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Confidence: 0.85, LeftOut: []string{"a_test.txt", "b\u00fc.txt"}}))
	b.answering(t, func(req *scripted.Request) scripted.Reply {
		if req.Turns() == 0 {
			return scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "shell", Arguments: `{"command": "for f in a_test.txt bü.txt code.txt z.txt; do echo $f > $f; done"}`}}}
		}
		return scripted.Reply{Text: "Done."}
	})
	r := b.solve(t, "ledger-01")
	if !r.Solved || strings.Contains(r.Patch, "a_test") || strings.Contains(r.Patch, "b\\") || !strings.Contains(r.Patch, "+code.txt\n") || !strings.HasSuffix(r.Patch, "+z.txt\n") {
		t.Errorf("solved %t, patch:\n%s", r.Solved, r.Patch)
	}
	if !slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, "a_test.txt") }) {
		t.Errorf("notes %q", r.Notes)
	}
	if r.Verdict.Confidence != 0.85 || r.Attempts[0].Verdict.Confidence != 0.85 {
		t.Errorf("confidence %v and %v, want that of the verifier", r.Verdict.Confidence, r.Attempts[0].Verdict.Confidence)
	}
}

// Of hidden tests the next model sees only the names.
func TestHiddenTestsAreNotShownToTheNextModel(t *testing.T) {
	for _, hidden := range []bool{true, false} {
		b := newBench(t)
		b.solver.ShowFailures = true
		task := b.tasks["ledger-01"]
		task.FailToPass = []string{"hidden.Test", "hidden.Other"}
		if hidden {
			task.TestPatch = "--- /dev/null\n+++ b/hidden_test.txt\n@@ -0,0 +1 @@\n+gross(10) == 11\n"
		}
		b.judgedBy(step.Verifier{Name: "known", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
			return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "1 of 2 tests failed\nhidden.Test failed\n    assert gross(10) == 11"}, nil
		})})
		shown := ""
		b.answering(t, func(req *scripted.Request) scripted.Reply {
			if req.Turns() == 0 {
				shown = req.LastUser()
				return scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "shell", Arguments: `{"command": "touch a"}`}}}
			}
			return scripted.Reply{Text: "Done."}
		})
		b.solve(t, "ledger-01")
		if !strings.Contains(shown, "1 of 2 tests failed") || !strings.Contains(shown, "hidden.Test") || strings.Contains(shown, "gross(10)") == hidden || hidden && strings.Contains(shown, "hidden.Other") {
			t.Errorf("hidden %t, shown:\n%s", hidden, shown)
		}
	}
}
