package verify_test

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/patch"
)

// answer is one of a list of answers.
type answer struct {
	// list is the name of the list, without its ending.
	list, name, command, text string
	// verdict is what must come of it.
	verdict string
	tree    map[string]string
}

// answers returns the answers of the lists in a folder of testdata: all if every attack is run, and otherwise the first of
// each test tool, for a rotating third of the tools.
func answers(t *testing.T, folder string) []answer {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no lists of answers: ", err)
	}
	var all []answer
	tools := map[string]bool{}
	for _, file := range files {
		for _, a := range readAnswers(t, file) {
			tool, _, _ := strings.Cut(a.command, " ")
			if everyAttack() || !tools[tool] && (len(tools)+turn)%3 == 0 {
				all = append(all, a)
			}
			tools[tool] = true
		}
	}
	return all
}

// readAnswers reads a list: files NAME/command, NAME/answer, NAME/verdict and NAME/tree/PATH; base has the defaults.
func readAnswers(t *testing.T, file string) []answer {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	base := answer{list: strings.TrimSuffix(filepath.Base(file), ".txtar"), tree: map[string]string{}}
	var list []answer
	for _, f := range archive.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		a := &base
		if name != "base" {
			if len(list) == 0 || list[len(list)-1].name != name {
				list = append(list, answer{list: base.list, name: name, command: base.command, text: base.text, verdict: base.verdict, tree: maps.Clone(base.tree)})
			}
			a = &list[len(list)-1]
		}
		switch path, inTree := strings.CutPrefix(part, "tree/"); {
		case inTree:
			a.tree[path] = string(f.Data)
		case part == "command":
			a.command = strings.TrimSpace(string(f.Data))
		case part == "verdict":
			a.verdict = strings.TrimSpace(string(f.Data))
		default:
			a.text = string(f.Data)
		}
	}
	return list
}

// argv returns the command of an answer, with the programs of this machine.
func (a *answer) argv(t *testing.T) []string {
	t.Helper()
	words := strings.Fields(a.command)
	switch words[0] {
	case "pytest":
		return append([]string{pytestOrSkip(t), "-m"}, words...)
	case "unittest":
		return append([]string{find(t, python, "-c", "import unittest"), "-m"}, words...)
	case "cargo": // rustup's is there for users without a toolchain, too
		find(t, words[0], "--version")
	default:
		find(t, words[0])
	}
	return words
}

// run reports whether the command succeeds in a copy of the tree, outside of any jail.
func (a *answer) run(t *testing.T, argv []string, apply bool) bool {
	t.Helper()
	tree := a.tree
	if apply {
		changed, err := patch.ApplyToMap(tree, patch.Parse(&sdk.Answer{Text: a.text}, ""))
		if err != nil {
			t.Fatal(err)
		}
		tree = changed
	}
	command := exec.Command(argv[0], argv[1:]...)
	command.Dir = write(t, tree)
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "GOFLAGS=-buildvcs=false")
	out, err := command.CombinedOutput()
	t.Logf("outside, applied %v: %v\n%s", apply, err, out)
	return err == nil
}

// Correct answers pass, or the verdict explains why that cannot be decided. A sample is judged; with STEPFALL_ATTACKS=all
// every answer is, and is proved to be correct.
func TestRightAnswers(t *testing.T) {
	for _, a := range answers(t, "right") {
		t.Run(a.list+"/"+a.name, func(t *testing.T) {
			t.Parallel()
			argv := a.argv(t)
			v := open(t, verify.Config{Command: argv})
			query := &sdk.Query{WorkDir: write(t, a.tree)}
			verdict := judge(t, v, query, a.text)
			want := cmp.Or(a.verdict, "passed")
			t.Logf("RIGHT\t%s\t%s\t%.2f", a.name, verdict.Outcome, verdict.Confidence)
			if verdict.Outcome.String() != want || verdict.Confidence > 0.95 {
				t.Errorf("%s with confidence %v, want %s", verdict.Outcome, verdict.Confidence, want)
			}
			if everyAttack() && !a.tells(t, argv, judge(t, v, query, ""), verdict) {
				t.Error("the command does not tell before from after")
			}
		})
	}
}

// tells reports whether the command fails without the answer and passes with it. Runs that the judge has made itself,
// before for the empty answer and after for a pass, are not repeated.
func (a *answer) tells(t *testing.T, argv []string, before, after *sdk.Verdict) bool {
	t.Helper()
	if !(before.Outcome == sdk.Failed && before.Score < 1) && a.run(t, argv, false) {
		return false
	}
	return after.Outcome == sdk.Passed || strings.Contains(a.name, "broken all along") || a.run(t, argv, true)
}

// A whole file that an answer names without its folder is the only file of that name.
func TestAFileWithoutItsFolder(t *testing.T) {
	tree := write(t, map[string]string{
		"calc/__init__.py": "", "calc/ops.py": "def add(a, b):\n    return a - b\n",
		"test_ops.py": "from calc.ops import add\n\ndef test_add():\n    assert add(2, 3) == 5\n",
	})
	v := open(t, verify.Config{Command: []string{pytestOrSkip(t), "-m", "pytest"}})
	for name, want := range map[string]sdk.Outcome{"ops.py": sdk.Passed, "calc/ops.py": sdk.Passed, "other.py": sdk.Failed} {
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, file(name, "def add(a, b):\n    return a + b")); verdict.Outcome != want {
			t.Errorf("%s: %s: %s", name, verdict.Outcome, verdict.Evidence)
		}
	}
}

// Wrong answers that make their tests pass are detected. At most two of them may pass, which is inherent to sharing a
// process, besides those listed in docs/rough-edges.md, such as answers that have memorized what is expected.
func TestForgedAnswers(t *testing.T) {
	var passed atomic.Int32
	t.Cleanup(func() {
		if n := passed.Load(); n > 2 {
			t.Errorf("%d passed", n)
		}
	})
	for _, a := range answers(t, "forged") {
		t.Run(a.list+"/"+a.name, func(t *testing.T) {
			t.Parallel()
			v := open(t, verify.Config{Command: a.argv(t), Reruns: -1})
			verdict := judge(t, v, &sdk.Query{WorkDir: write(t, a.tree)}, a.text)
			remains := ""
			switch {
			case verdict.Outcome == sdk.Passed && a.verdict == "passed":
				remains = "remains: known"
			case verdict.Outcome == sdk.Passed:
				passed.Add(1)
				remains = "remains: one process"
			}
			t.Logf("ATTACK\t%s\t%s\t%s\t%s\t%s\t0 files\t%s", a.name, a.list, strings.Join(verdict.Isolation, " "), verdict.Outcome, verdict.Duration, remains)
			if verdict.Confidence > 0.95 || a.verdict == "inconclusive" && verdict.Outcome == sdk.Passed {
				t.Errorf("%s with confidence %v", verdict.Outcome, verdict.Confidence)
			}
		})
	}
}

// Earlier versions of the tree, in .git or compiled by Python, reveal what the tests expect before it is altered.
func TestEarlierVersionsAreNotSeen(t *testing.T) {
	find(t, python, "-c", "import unittest")
	for _, earlier := range []string{".git/expected", "sub/.git/expected", "__pycache__/test_calc.pyc"} {
		verdict := judge(t, open(t, verify.Config{Command: []string{python, "-m", "unittest"}}), &sdk.Query{WorkDir: write(t, map[string]string{
			"calc.py":      "def add(a, b):\n    return a - b\n",
			"test_calc.py": "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n",
			earlier:        "5",
		})}, file("calc.py", "def add(a, b):\n    return int(open('"+earlier+"').read())\n"))
		if verdict.Outcome != sdk.Failed {
			t.Errorf("%s: %s: %s", earlier, verdict.Outcome, verdict.Evidence)
		}
	}
}

// An answer that detects altered runs by file times, and returns wrong values there, does not pass.
func TestTimesTellNothing(t *testing.T) {
	find(t, python, "-c", "import unittest")
	tree := write(t, map[string]string{
		"calc.py":      "def add(a, b):\n    return a - b\n",
		"test_calc.py": "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n",
	})
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(tree, "test_calc.py"), before, before); err != nil {
		t.Fatal(err)
	}
	verdict := judge(t, open(t, verify.Config{Command: []string{python, "-m", "unittest"}}), &sdk.Query{WorkDir: tree},
		file("calc.py", "import os, re, time\n\ndef add(a, b):\n    if os.stat('test_calc.py').st_mtime > time.time() - 60:\n        return 0\n    return int(re.search(r'\\), (\\d+)', open('test_calc.py').read())[1])\n"))
	if verdict.Outcome == sdk.Passed {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// Dependencies can be outside of the tree, behind links.
func TestLinkedDependencies(t *testing.T) {
	elsewhere := write(t, map[string]string{"node_modules/left/index.js": "exports.pad = (s) => ' ' + s;\n"})
	t.Run("node_modules", func(t *testing.T) {
		node := find(t, "node", "--test", "--version")
		tree := write(t, map[string]string{
			"row.js":      "exports.row = (s) => s;\n",
			"row.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\ntest('row', () => assert.equal(require('./row').row('a'), ' a'));\n",
		})
		if err := os.Symlink(filepath.Join(elsewhere, "node_modules"), filepath.Join(tree, "node_modules")); err != nil {
			t.Fatal(err)
		}
		verdict := judge(t, open(t, verify.Config{Command: []string{node, "--test"}}), &sdk.Query{WorkDir: tree}, file("row.js", "const { pad } = require('left');\nexports.row = (s) => pad(s);\n"))
		if verdict.Outcome != sdk.Passed {
			t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
		}
	})
	t.Run("workspace", func(t *testing.T) {
		onlyInCI(t)
		node := find(t, "node", "--test", "--version")
		tree := write(t, map[string]string{
			"packages/row/index.js":    "exports.row = (s) => s;\n",
			"packages/cli/cli.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\ntest('row', () => assert.equal(require('@acme/row').row('a'), ' a'));\n",
			"node_modules/.keep":       "",
		})
		if err := errors.Join(os.Mkdir(filepath.Join(tree, "node_modules/@acme"), 0o755), os.Symlink("../../packages/row", filepath.Join(tree, "node_modules/@acme/row"))); err != nil {
			t.Fatal(err)
		}
		verdict := judge(t, open(t, verify.Config{Command: []string{node, "--test"}}), &sdk.Query{WorkDir: tree}, file("packages/row/index.js", "exports.row = (s) => ' ' + s;\n"))
		if verdict.Outcome != sdk.Passed {
			t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
		}
	})
	for name, installed := range map[string][2]string{
		".venv":                       {"calc.py", ""},
		".venv, editable":             {"src/calc.py", "calc.pth"},
		".venv, editable by a finder": {"lib/calc.py", "__editable___calc_1_finder.py"},
	} {
		t.Run(name, func(t *testing.T) {
			find(t, python, "-c", "import unittest")
			tree := write(t, map[string]string{
				installed[0]:         "def add(a, b):\n    return a - b\n",
				"tests/test_calc.py": "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n",
			})
			venv := filepath.Join(t.TempDir(), "venv")
			if out, err := exec.Command(python, "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
				t.Skipf("no virtual environments here: %s", out)
			}
			if installed[1] != "" { // by the path of another copy of the tree, which runs do not see
				sites, err := filepath.Glob(filepath.Join(venv, "lib/python*/site-packages"))
				another := filepath.Join(write(t, map[string]string{installed[0]: ""}), filepath.Dir(installed[0]))
				text := another + "\n"
				if strings.HasSuffix(installed[1], ".py") {
					text = "MAPPING = {'calc': '" + another + "/calc'}\n"
				}
				if err := errors.Join(err, os.WriteFile(filepath.Join(sites[0], installed[1]), []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(venv, filepath.Join(tree, ".venv")); err != nil {
				t.Fatal(err)
			}
			verdict := judge(t, open(t, verify.Config{Command: []string{".venv/bin/python", "-m", "unittest", "discover", "tests"}}), &sdk.Query{WorkDir: tree}, file(installed[0], "def add(a, b):\n    return a + b\n"))
			if verdict.Outcome != sdk.Passed || verdict.Confidence != 0.95 || verdict.Way != "tests in process" || !strings.Contains(verdict.Evidence, "1 of 1 tests are answered right") {
				t.Errorf("%s %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
			}
		})
	}
}
