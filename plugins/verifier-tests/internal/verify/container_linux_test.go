package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail/container/containertest"
)

// TestContainer uses the image that the task names, another path for the tree, and a log.
func TestContainer(t *testing.T) {
	long(t)
	command, image := containertest.Image(t)
	dir := write(t, map[string]string{
		"answer.txt": "wrong\n",
		"run.sh":     "if grep -q right answer.txt; then echo PASSED t.py::test_a; else echo FAILED t.py::test_a - no; fi; echo PASSED t.py::test_b; test ! -e evil.sh || sh ./evil.sh\n",
	})
	v := open(t, verify.Config{Command: []string{"sh", "run.sh"}, Runtime: "container", Engine: command, Image: "{image}", ContainerDir: "/testbed", Log: "pytest", Reruns: -1})
	query := &sdk.Query{ID: "i", WorkDir: dir, Labels: map[string]string{verify.ImageLabel: image}, Checks: sdk.Checks{FailToPass: []string{"t.py::test_a"}, PassToPass: []string{"t.py::test_b"}}}
	right := file("answer.txt", "right")
	verdict := judge(t, v, query, right)
	if verdict.Outcome != sdk.Passed || !strings.Contains(strings.Join(verdict.Isolation, " "), "container") {
		t.Errorf("the right answer: %+v", verdict)
	}
	if verdict := judge(t, v, query, file("answer.txt", "no")); verdict.Outcome != sdk.Failed || verdict.Score != 0.5 {
		t.Error("a wrong answer")
	}
	query.Labels = nil
	if verdict := judge(t, v, query, right); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "image") {
		t.Error("a query without an image")
	}
	if !everyAttack() { // what an answer writes is left out and found in any jail
		return
	}
	query.Labels = map[string]string{verify.ImageLabel: image}
	if verdict := judge(t, v, query, file("run.sh", "echo PASSED t.py::test_a; echo PASSED t.py::test_b")); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "left out") {
		t.Error("an answer that writes what is run")
	}
	if verdict := judge(t, v, query, right+file("evil.sh", "echo x >> run.sh")); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "tampering") {
		t.Error("an answer whose run writes what is run")
	}
}
