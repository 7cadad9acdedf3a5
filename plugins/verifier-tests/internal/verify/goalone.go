package verify

import (
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// needsTests returns the verdict on code in Go that passes its tests by what they declare, and on
// any that asks whether it is tested; nil where it needs nothing of them: what was built without
// tests must still be.
func (j *judgement) needsTests(a *attempt) *sdk.Verdict {
	errors, links := runner.NeedsTests(&a.tree.Tree, a.changes)
	switch {
	case len(errors) > 0:
		return j.verdict(sdk.Failed, "without its tests the code is not built: "+strings.Join(errors, "; "))
	case len(links) > 0:
		return j.verdict(sdk.Inconclusive, "the code links to what its tests alone declare: "+strings.Join(links, ", "))
	}
	if asked := a.asksIfTested(); asked != "" {
		return j.verdict(sdk.Inconclusive, "the code asks whether it is tested: "+asked)
	}
	return nil
}

// askingIfTested matches how code asks whether tests run it.
var askingIfTested = regexp.MustCompile(`PYTEST_CURRENT_TEST|["'](?:pytest|unittest)["'] (?:not )?in sys\.modules|sys\.modules\.get\(["'](?:pytest|unittest)\b|` +
	`NODE_TEST_CONTEXT|JEST_WORKER_ID|\btesting\.Testing\(\)|\bflag\.Lookup\("test\.|\bcfg!\(test\)`)

// asksIfTested returns how the changed code asks so where it did not before, or "".
func (a *attempt) asksIfTested() string {
	more := map[string]int{}
	for _, change := range slices.DeleteFunc(slices.Clone(a.changes), func(c jail.Change) bool { return !isCode(c.Path) }) {
		before, _ := a.tree.read(change.Path) // it may be new
		for _, asked := range askingIfTested.FindAllString(string(before), -1) {
			more[asked]--
		}
		for _, asked := range askingIfTested.FindAllString(string(change.Data), -1) {
			if more[asked]++; more[asked] > 0 {
				return asked
			}
		}
	}
	return ""
}
