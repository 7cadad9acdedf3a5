package verify_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// equalToAll is an answer in Python whose sum equals whatever it is compared with.
var equalToAll = file("calc.py", "class Any:\n    def __eq__(self, other):\n        return True\n\ndef add(a, b):\n    return Any()")

// The expectations of pytest's tests are altered however pytest is called, and whatever its files and functions are named.
func TestAttackPytestByAnyName(t *testing.T) {
	inTurn(t, plain, inPytest)
	pytestOrSkip(t)
	program, err := jail.Program(t.Context(), "pytest")
	if err != nil || !works(program, "--version") {
		t.Skip("no command pytest here")
	}
	if filepath.IsAbs(program) { // what the script of a version manager stands for
		t.Setenv("PATH", filepath.Dir(program)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	plain := write(t, map[string]string{
		"calc.py": "def add(a, b):\n    return a - b\n", "tests/test_calc.py": "from calc import add\n\ndef test_add():\n    assert add(2, 3) == 5\n", "tests/conftest.py": "",
		// The workers of pytest-xdist load the plugins of the command, too.
		"conftest.py": "import subprocess, sys\n\ndef pytest_configure(config):\n    names = [p for p in config.option.plugins if not p.startswith('no:')]\n    subprocess.run([sys.executable, '-c', 'import ' + ', '.join(names)], check=True)\n",
	})
	patterns := write(t, map[string]string{
		"calc.py": "def add(a, b):\n    return a - b\n", "checks/check_calc.py": "from calc import add\n\ndef check_add():\n    assert add(2, 3) == 5\n", "conftest.py": "",
		"tox.ini": "[pytest]\npython_files = check_*.py\npython_functions = check_*\n",
	})
	right := file("calc.py", "def add(a, b):\n    return a + b")
	for _, c := range sample([]struct {
		tree    string
		command []string
	}{{plain, []string{"pytest", "-q", "tests"}}, {patterns, []string{"pytest"}}}, 1) {
		config := verify.Config{Command: c.command}
		if verdict := judge(t, open(t, config), &sdk.Query{WorkDir: c.tree}, right); verdict.Outcome != sdk.Passed {
			t.Errorf("the right answer: %s: %s", verdict.Outcome, verdict.Evidence)
		}
		if verdict := judge(t, open(t, config), &sdk.Query{WorkDir: c.tree}, equalToAll); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "pass whatever they expect") {
			t.Errorf("%q, equal to everything: %s: %s", c.command, verdict.Outcome, verdict.Evidence)
		}
	}
}

// A command that runs Go tests and has only an exit code is no evidence if the process ends before the first test.
func TestGoTestsThatDoNotRunBehindAnotherCommand(t *testing.T) {
	inTurn(t, less, inScripts)
	find(t, "make")
	tree := write(t, map[string]string{
		"go.mod": "module example.com/calc\n\ngo 1.22\n", "Makefile": "test:\n\tgo test ./...\n",
		"calc/add.go":      "package calc\n\nfunc Add(a, b int) int { return a - b }\n",
		"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(2, 3); got != 5 {\n\t\tt.Errorf(\"got %d, want 5\", got)\n\t}\n}\n",
	})
	forged := goFile("import \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }")
	for _, command := range sample([][]string{{"make", "test"}, {"sh", "-c", "go test ./..."}}, 1) {
		v := open(t, verify.Config{Command: command, Reruns: -1})
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, forged); verdict.Outcome == sdk.Passed {
			t.Errorf("%q passed: %s", command, verdict.Evidence)
		}
		right := judge(t, v, &sdk.Query{WorkDir: tree}, goFile("func Add(a, b int) int { return a + b }"))
		if right.Outcome != sdk.Passed || right.Noticed != 1 {
			t.Errorf("%q, the right answer: %s: %s", command, right.Outcome, right.Evidence)
		}
	}
	// Tests that the command does not run say nothing against an answer.
	v := open(t, verify.Config{Command: []string{"sh", "-c", "grep -q 'a + b' calc/add.go"}, Reruns: -1})
	if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, goFile("func Add(a, b int) int { return a + b }")); verdict.Outcome != sdk.Passed {
		t.Errorf("without tests: %s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// Programs that make and sh start by name are those that the user would start.
func TestInterpretersOfTheUserBehindAnotherCommand(t *testing.T) {
	find(t, "make")
	python := pytestOrSkip(t)
	if python != "python3" {
		t.Skip("the python3 of the PATH has no pytest")
	}
	tree := write(t, map[string]string{
		"calc.py": "def add(a, b):\n    return a - b\n", "tests/test_calc.py": "import calc\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n",
		"Makefile": "test:\n\tpython3 -m pytest -q tests\n\nlost:\n\tno-such-runner tests\n", "run.sh": "python3 -m pytest -q tests\n",
	})
	right := file("calc.py", "def add(a, b):\n    return a + b")
	for _, command := range [][]string{{"make", "test"}, {"sh", "run.sh"}} {
		v := open(t, verify.Config{Command: command, Reruns: -1})
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, right); verdict.Outcome != sdk.Passed {
			t.Errorf("%q: %s: %s", command, verdict.Outcome, verdict.Evidence)
		}
	}
	// What cannot run at all says nothing of any answer.
	for _, command := range [][]string{{"make", "lost"}, {"sh", "-c", "no-such-runner tests || exit 1"}} {
		v := open(t, verify.Config{Command: command, Reruns: -1})
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, right); verdict.Outcome != sdk.Inconclusive {
			t.Errorf("%q: %s: %s", command, verdict.Outcome, verdict.Evidence)
		}
	}
}
