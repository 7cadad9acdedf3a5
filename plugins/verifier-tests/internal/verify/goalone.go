package verify

import (
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
)

// needsTests returns the verdict on code in Go that passes its tests by what they declare, nil
// where it needs nothing of them: what was built without tests must still be.
func (j *judgement) needsTests(a *attempt) *sdk.Verdict {
	errors, links := runner.NeedsTests(&a.tree.Tree, a.changes)
	switch {
	case len(errors) > 0:
		return j.verdict(sdk.Failed, "without its tests the code is not built: "+strings.Join(errors, "; "))
	case len(links) > 0:
		return j.verdict(sdk.Inconclusive, "the code links to what its tests alone declare: "+strings.Join(links, ", "))
	}
	return nil
}
