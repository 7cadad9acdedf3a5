package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// lateError is the error of a run that was stopped, or not begun, because its caller waits no longer. The time limit of
// the command itself lies behind the caller's.
type lateError struct {
	limit time.Duration
	// result is that of the run, or nil if there was no time to begin it.
	result *jail.Result
}

func (e *lateError) Error() string {
	if e.result == nil {
		return "no time is left for a further run of the tests: raise timeout in the verifier's block"
	}
	return fmt.Sprintf("a run of the tests was stopped after %s, since the verifier itself may take no longer: raise timeout in the verifier's block", e.limit.Round(time.Second/10))
}

// runInTime runs a spec. It ends the run early enough to answer a caller whose deadline comes before the limit of the
// spec.
func runInTime(ctx context.Context, walls jail.Walls, spec *jail.Spec) (*jail.Result, error) {
	const toAnswer = 3 * time.Second // on a busy machine
	own := *spec
	own.Limits = spec.Limits.WithDefaults()
	deadline, isLimited := ctx.Deadline()
	left := time.Until(deadline)
	if left -= min(toAnswer, left/5); !isLimited || left >= own.Limits.Wall {
		return walls.Run(ctx, spec)
	}
	if left <= 0 {
		return nil, &lateError{}
	}
	own.Limits.Wall = left
	result, err := walls.Run(ctx, &own)
	if err == nil && result.End == jail.EndTimeout {
		return nil, &lateError{left, result}
	}
	return result, err
}

// hasBegun reports whether a run that was stopped had begun its tests, and not only compiled the answer, which the untouched
// tree had behind it.
func hasBegun(a *attempt, result *jail.Result) bool {
	isCompiled := func(c jail.Change) bool {
		return isCode(c.Path) && !slices.Contains([]string{"python", "node"}, alter.Language(c.Path))
	}
	return bytes.Contains(result.Stdout, []byte(`"Action":"run"`)) || !slices.ContainsFunc(a.changes, isCompiled)
}

// lateVerdict returns the verdict on an answer whose tests were stopped: it has failed if those of the untouched tree
// came to their end in a fraction of the time.
func (j *judgement) lateVerdict(a *attempt, late *lateError) *sdk.Verdict {
	const fraction, enough = 5, 4 * time.Second
	j.result = late.result
	if j.before == nil || j.before.report.Broken != "" {
		return j.verdict(sdk.Inconclusive, late.Error())
	}
	if took := j.before.result.Duration; took > 0 && hasBegun(a, late.result) && late.limit >= max(enough, fraction*took) {
		return j.verdict(sdk.Failed, fmt.Sprintf("%s: it took more than %s, and that on the untouched tree %s", ends[jail.EndTimeout], late.limit.Round(time.Second/10), took.Round(time.Second/10)))
	}
	return j.verdict(sdk.Inconclusive, late.Error())
}
