package verify_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

func find(t *testing.T, program string, probe ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil || len(probe) > 0 && !works(path, probe...) {
		t.Skipf("no %s %s here", program, strings.Join(probe, " "))
	}
	return path
}

func works(program string, arguments ...string) bool {
	works, _ := tried.LoadOrStore(program+"\x00"+strings.Join(arguments, "\x00"), sync.OnceValue(func() bool {
		return exec.Command(program, arguments...).Run() == nil
	}))
	return works.(func() bool)()
}

// tried are the commands that works has tried.
var tried sync.Map

var pyTree = map[string]string{
	"calc.py":      "def add(a, b):\n    return a - b\n",
	"test_calc.py": "import unittest\nimport calc\n\nclass TestCalc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n\n    def test_zero(self):\n        \"\"\"Nothing and nothing.\"\"\"\n        self.assertEqual(calc.add(0, 0), 0)\n",
}

const pyRight = "calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n"

func TestUnittest(t *testing.T) {
	python := find(t, "/usr/bin/python3", "-c", "import unittest")
	v := open(t, verify.Config{Command: []string{python, "-m", "unittest"}})
	query := &sdk.Query{WorkDir: write(t, pyTree), Checks: sdk.Checks{FailToPass: []string{"test_add"}, PassToPass: []string{"test_calc.TestCalc.test_zero"}}}
	if verdict := judge(t, v, query, pyRight); verdict.Outcome != sdk.Passed || verdict.Score != 1 {
		t.Error("the right answer")
	}
	if verdict := judge(t, v, query, strings.Replace(pyRight, "a + b", "a * b", 1)); verdict.Outcome != sdk.Failed || verdict.Score != 0.5 {
		t.Error("a wrong answer")
	}
	if verdict := judge(t, v, query, "calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    import os; os._exit(0)\n>>>>>>> REPLACE\n"); verdict.Outcome != sdk.Failed {
		t.Error("an answer that ends the process")
	}
}

func TestPytest(t *testing.T) {
	long(t)
	python := pytestOrSkip(t)
	v := open(t, verify.Config{Command: []string{python, "-m", "pytest"}})
	query := &sdk.Query{WorkDir: write(t, pyTree), Checks: sdk.Checks{FailToPass: []string{"test_add"}}}
	if verdict := judge(t, v, query, pyRight); verdict.Outcome != sdk.Passed {
		t.Error("the right answer")
	}
}

func TestNode(t *testing.T) {
	node := find(t, "node", "--test", "--version")
	v := open(t, verify.Config{Command: []string{node, "--test"}})
	query := &sdk.Query{WorkDir: write(t, map[string]string{
		"calc.js":      "exports.add = (a, b) => a - b;\n",
		"calc.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('./calc.js');\ntest('adds', () => assert.strictEqual(add(2, 3), 5));\ntest('zero', () => assert.strictEqual(add(0, 0), 0));\n",
	}), Checks: sdk.Checks{FailToPass: []string{"adds"}, PassToPass: []string{"zero"}}}
	if verdict := judge(t, v, query, "```js path=calc.js\nexports.add = (a, b) => a + b;\n```\n"); verdict.Outcome != sdk.Passed || verdict.Score != 1 {
		t.Error("the right answer")
	}
	if verdict := judge(t, v, query, "```js path=calc.js\nexports.add = (a, b) => a * b;\n```\n"); verdict.Outcome != sdk.Failed || verdict.Score != 0.5 {
		t.Error("a wrong answer")
	}
}

func TestCargo(t *testing.T) {
	long(t)
	cargo := find(t, "cargo", "--version")
	v := open(t, verify.Config{Command: []string{cargo, "test"}})
	query := &sdk.Query{WorkDir: write(t, map[string]string{
		"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a - b }\n",
		"tests/t.rs": "#[test]\nfn adds() { assert_eq!(calc::add(2, 3), 5); }\n#[test]\nfn zero() { assert_eq!(calc::add(0, 0), 0); }\n",
	}), Checks: sdk.Checks{FailToPass: []string{"adds"}, PassToPass: []string{"zero"}}}
	if verdict := judge(t, v, query, "```rust path=src/lib.rs\npub fn add(a: i32, b: i32) -> i32 { a + b }\n```\n"); verdict.Outcome != sdk.Passed {
		t.Error("the right answer")
	}
	if verdict := judge(t, v, query, "```rust path=src/lib.rs\npub fn add(a: i32, b: i32) -> i32 { a * b }\n```\n"); verdict.Outcome != sdk.Failed || verdict.Score != 0.5 {
		t.Error("a wrong answer")
	}
}

func TestExitCodeAndReport(t *testing.T) {
	dir := write(t, map[string]string{"answer.txt": "wrong\n", "report.xml": "stale"})
	right := "```text path=answer.txt\nright\n```\n"
	byCode := open(t, verify.Config{Command: []string{"sh", "-c", "grep right answer.txt"}})
	if verdict := judge(t, byCode, &sdk.Query{WorkDir: dir}, right); verdict.Outcome != sdk.Passed {
		t.Error("by exit code")
	}
	if verdict := judge(t, byCode, &sdk.Query{WorkDir: dir}, "```text path=answer.txt\nno\n```\n"); verdict.Outcome != sdk.Failed {
		t.Error("wrong by exit code")
	}
	report := `if grep -q right answer.txt; then F=""; else F="<failure message='not right'/>"; fi; echo "<testsuites><testsuite><testcase name='it' classname='c'>$F</testcase></testsuite></testsuites>" > report.xml; test -z "$F"`
	byReport := open(t, verify.Config{Command: []string{"sh", "-c", report}, Report: "report.xml"})
	query := &sdk.Query{WorkDir: dir, Checks: sdk.Checks{FailToPass: []string{"c.it"}}}
	if verdict := judge(t, byReport, query, right); verdict.Outcome != sdk.Passed {
		t.Error("by report")
	}
	if verdict := judge(t, byReport, query, "```text path=answer.txt\nno\n```\n"); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "not right") {
		t.Error("wrong by report")
	}
	none := openBlind(t, verify.Config{Command: []string{"true"}, Report: "report.xml"})
	if verdict := judge(t, none, query, right); verdict.Outcome == sdk.Passed {
		t.Error("a stale report was believed")
	}
}

// TestEnvironmentIsNotTheAnswersFault covers failures that also occur on the untouched tree.
func TestEnvironmentIsNotTheAnswersFault(t *testing.T) {
	dir := write(t, map[string]string{"answer.txt": "wrong\n"})
	answer := "```text path=answer.txt\nright\n```\n"
	for name, config := range map[string]verify.Config{
		"no such command": {Command: []string{"stepfall-no-such-command"}},
		"not runnable":    {Command: []string{"sh", "-c", "exec ./none"}},
		"too slow":        {Command: []string{"sleep", "60"}, Timeout: 100 * time.Millisecond},
	} {
		if verdict := judge(t, open(t, config), &sdk.Query{WorkDir: dir}, answer); verdict.Outcome != sdk.Inconclusive || verdict.Evidence == "" {
			t.Errorf("%s: %s", name, verdict.Outcome)
		}
	}
	hangs := open(t, verify.Config{Command: []string{"sh", "-c", "! grep slow answer.txt || sleep 60"}, Timeout: 2 * time.Second})
	if verdict := judge(t, hangs, &sdk.Query{WorkDir: dir}, file("answer.txt", "slow")); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "in time") {
		t.Errorf("too slow with the answer alone: %s", verdict.Outcome)
	}
	v := open(t, verify.Config{Command: []string{"true"}})
	for name, query := range map[string]*sdk.Query{
		"no tree named": {}, "no such tree": {WorkDir: filepath.Join(dir, "none")}, "the tree is a file": {WorkDir: filepath.Join(dir, "answer.txt")},
	} {
		if verdict := judge(t, v, query, answer); verdict.Outcome != sdk.Inconclusive {
			t.Errorf("%s: %s", name, verdict.Outcome)
		}
	}
}

func TestRequiredIsolation(t *testing.T) {
	dir := write(t, map[string]string{"answer.txt": "wrong\n"})
	answer := "```text path=answer.txt\nright\n```\n"
	without, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir(), NoNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	v := verify.New(withDefaults(verify.Config{Command: []string{"true"}, Require: []string{"pid"}}), without)
	verdict := judge(t, v, &sdk.Query{WorkDir: dir}, answer)
	if verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "pid") || verdict.IsolationMissing["pid"] == "" {
		t.Errorf("%+v", verdict)
	}
	v = verify.New(withDefaults(verify.Config{Command: []string{"true"}, Require: []string{"rlimits", "memory"}}), without)
	if verdict := judge(t, v, &sdk.Query{WorkDir: dir}, answer); verdict.Outcome != sdk.Passed || len(verdict.Isolation) == 0 || len(verdict.IsolationMissing) == 0 {
		t.Errorf("%+v", verdict)
	}
}

func TestPreflightFollowsTheTree(t *testing.T) {
	dir := write(t, map[string]string{"answer.txt": "wrong\n", "runs.txt": ""})
	v := open(t, verify.Config{Command: []string{"grep", "right", "answer.txt"}})
	query := &sdk.Query{WorkDir: dir, Checks: sdk.Checks{FailToPass: []string{"grep right answer.txt"}}}
	answer := "```text path=answer.txt\nright\n```\n"
	if verdict := judge(t, v, query, answer); verdict.Outcome != sdk.Passed {
		t.Error("before")
	}
	if err := os.WriteFile(filepath.Join(dir, "answer.txt"), []byte("right\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if verdict := judge(t, v, query, answer); verdict.Outcome != sdk.Inconclusive {
		t.Error("the tree is solved now, and the old pre-flight was used")
	}
}

func TestCancelled(t *testing.T) {
	dir := write(t, map[string]string{"answer.txt": "wrong\n"})
	v := openBlind(t, verify.Config{Command: []string{"sleep", "60"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	start := time.Now() // the command takes a minute
	_, err := v.Verify(ctx, &sdk.VerifyRequest{Query: &sdk.Query{WorkDir: dir}, Answer: &sdk.Answer{Text: "```text path=answer.txt\nright\n```\n"}})
	if !errors.Is(err, context.Canceled) || time.Since(start) > 50*time.Second && !testing.Short() {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}
