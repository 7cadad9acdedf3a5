package verify_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Where the caller waits for less than the limit of the command, an answer that hangs still has a verdict: it has failed
// if the untouched tree's tests end soon, and otherwise the limit may be too low for them.
func TestVerdictBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	judgeWithin := func(v *verify.Verifier, limit time.Duration, dir, text string) *sdk.Verdict {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		verdict, err := v.Verify(ctx, &sdk.VerifyRequest{Query: &sdk.Query{WorkDir: dir}, Answer: &sdk.Answer{Text: text}})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s in %s: %s", verdict.Outcome, verdict.Duration, verdict.Evidence)
		return verdict
	}
	const check = "read time word < answer.txt; sleep $time; test $word = right\n"
	config := verify.Config{Command: []string{"sh", "check.sh"}, CacheDir: t.TempDir()}
	dir := write(t, map[string]string{"check.sh": check, "answer.txt": "0 wrong\n"})
	hangs := file("answer.txt", "100 right")
	v := open(t, config)
	if verdict := judge(t, v, &sdk.Query{WorkDir: dir}, file("answer.txt", "0 right")); verdict.Outcome != sdk.Passed {
		t.Errorf("the right answer: %+v", verdict)
	}
	if verdict := judgeWithin(v, 8*time.Second, dir, hangs); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "that on the untouched tree") {
		t.Errorf("it hangs: %+v", verdict)
	}
	if verdict := judgeWithin(v, 2*time.Second, dir, hangs); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "raise timeout in the verifier's block") {
		t.Errorf("this is no proof: %+v", verdict)
	}
	// The untouched tree's own tests take longer than the caller waits, and are not kept as ones that hang.
	slow := write(t, map[string]string{"check.sh": "sleep 3; " + check, "answer.txt": "0 wrong\n"})
	if verdict := judgeWithin(v, 2*time.Second, slow, file("answer.txt", "0 right")); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "raise timeout in the verifier's block") {
		t.Errorf("slow tests: %+v", verdict)
	}
	if verdict := judge(t, v, &sdk.Query{WorkDir: slow}, file("answer.txt", "0 right")); verdict.Outcome != sdk.Passed {
		t.Errorf("with enough time: %+v", verdict)
	}
}
