package verify_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// disturbedWalls are a jail beside which another process changes a file of the tests in one of the runs.
type disturbedWalls struct {
	*jail.Jail
	runs, at atomic.Int32
}

func (d *disturbedWalls) Run(ctx context.Context, spec *jail.Spec) (*jail.Result, error) {
	result, err := d.Jail.Run(ctx, spec)
	if d.runs.Add(1) == d.at.Load() {
		result.Disturbed = []string{"check.sh"}
	}
	return result, err
}

// A file that another process changes while the tests run is no tampering: nothing is known, and nothing is kept.
func TestDisturbedTree(t *testing.T) {
	j, err := openJail()
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{"answer.txt": "wrong\n", "check.sh": "grep right answer.txt\n"})
	walls := &disturbedWalls{Jail: j}
	v := verify.New(withDefaults(verify.Config{Command: []string{"sh", "check.sh"}, CacheDir: t.TempDir()}), walls)
	query, right := &sdk.Query{WorkDir: dir}, file("answer.txt", "right")
	for _, at := range []int32{1, 2} { // the run on the untouched tree, and that on the answer
		walls.runs.Store(0)
		walls.at.Store(at)
		if verdict := judge(t, v, query, right); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "changed files of the tree meanwhile: check.sh") {
			t.Errorf("disturbed in run %d: %+v", at, verdict)
		}
	}
	walls.at.Store(0)
	if verdict := judge(t, v, query, right); verdict.Outcome != sdk.Passed {
		t.Errorf("judged again in peace: %+v", verdict)
	}
}
