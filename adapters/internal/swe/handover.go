package swe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

// withoutFiles returns a git patch without its changes to files.
func withoutFiles(text string, files []string) string {
	const head = "diff --git "
	var b strings.Builder
	for i, section := range strings.Split("\n"+text, "\n"+head) {
		if i == 0 {
			b.WriteString(strings.TrimPrefix(section, "\n"))
			continue
		}
		section = head + strings.TrimSuffix(section, "\n") + "\n"
		edits := patch.Parse(&sdk.Answer{Text: section}, "")
		if len(edits) == 0 || slices.ContainsFunc(edits, func(e patch.Edit) bool { return !slices.Contains(files, e.Path) }) {
			b.WriteString(section)
		}
	}
	return b.String()
}

// handOver adjusts the result to what was judged: the patch without the edits that the verifier left out, and the
// verdict with its confidence, which the cascade does not see.
func (w *work) handOver(r *Result) {
	r.Verdict = w.withConfidence(r.Verdict, r.Patch)
	if r.Verdict == nil || len(r.Verdict.LeftOut) == 0 {
		return
	}
	if judged := withoutFiles(r.Patch, r.Verdict.LeftOut); judged != "" && judged != r.Patch {
		r.Patch = judged
		r.Notes = append(r.Notes, "the patch has only what was judged, no edits of "+strings.Join(r.Verdict.LeftOut, ", "))
	}
}

func (w *work) withConfidence(v *sdk.Verdict, patch string) *sdk.Verdict {
	confidence := w.confidences[patch]
	if v == nil || v.Outcome != sdk.Passed || confidence == 0 {
		return v
	}
	judged := *v
	judged.Confidence = confidence
	return &judged
}

// failure returns the evidence of a rejected patch for the next model's prompt. Of hidden tests it holds only the
// names.
func (t *Task) failure(evidence string) string {
	if t.TestPatch == "" {
		return shorten(evidence, 3000)
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(evidence), "\n")
	names := slices.DeleteFunc(slices.Concat(t.FailToPass, t.PassToPass), func(name string) bool { return !strings.Contains(rest, name) })
	if len(names) == 0 {
		return first
	}
	return fmt.Sprintf("%s: %s", first, strings.Join(names, ", "))
}
