package verify_test

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// The verdict on an empty answer describes the untouched tree.
func TestEmptyAnswerTellsOfTheUntouchedTree(t *testing.T) {
	long(t)
	mended := with(map[string]string{"calc/add.go": strings.Replace(goTree["calc/add.go"], "a - b", "a + b", 1)})
	broken := with(map[string]string{"calc/add.go": "package calc\n\nfunc Add() {\n"})
	for _, test := range []struct {
		name  string
		files map[string]string
		want  sdk.Outcome
		score float64
		says  string
	}{
		{"some fail", goTree, sdk.Failed, 0.5, "1 of 2 tests pass on the untouched tree"},
		{"all pass", mended, sdk.Failed, 1, "2 of 2 tests pass on the untouched tree"},
		{"does not compile", broken, sdk.Failed, 0, "syntax error"},
		{"no Go", pyTree, sdk.Inconclusive, 0, "the command cannot test it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			verdict := judge(t, goVerifier(t, verify.Config{}), &sdk.Query{WorkDir: write(t, test.files)}, "")
			if verdict.Outcome != test.want || verdict.Score != test.score || !strings.Contains(verdict.Evidence, test.says) {
				t.Errorf("%s, score %g; want %s, score %g, with %q", verdict.Outcome, verdict.Score, test.want, test.score, test.says)
			}
		})
	}
}

func TestPythonWithoutPytestCannotJudge(t *testing.T) {
	python := find(t, "/usr/bin/python3", "-c", "pass")
	// A python that does not look for installed packages.
	dir := t.TempDir()
	shim := dir + "/python3"
	if err := os.WriteFile(shim, []byte("#!/bin/sh\nexec "+python+" -S \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	v := open(t, verify.Config{Command: []string{shim, "-m", "pytest"}, ReadOnly: []string{dir}})
	for _, answer := range []string{"", pyRight} {
		if verdict := judge(t, v, &sdk.Query{WorkDir: write(t, pyTree)}, answer); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "No module named pytest") {
			t.Errorf("%q: %s", answer, verdict.Outcome)
		}
	}
}

// A wrong answer has failed even if it also adds or changes tests.
func TestWrongAnswersWithTestsOfTheirOwn(t *testing.T) {
	v := open(t, verify.Config{Command: []string{pytestOrSkip(t), "-m", "pytest", "-q"}})
	tree := write(t, map[string]string{
		"m_test.py": "def test_m():\n    from m import f\n    assert f(2) == 4\n", "m.py": "def f(n):\n    return n\n",
		"tests/test_other.py": "def test_f():\n    assert True\n",
	})
	for _, file := range sample([]string{"m_test.py", "tests/test_new.py", "tests/test_other.py", "new_test.py"}, 2) {
		answer := "```python path=m.py\ndef f(n):\n    return n + 1\n```\n\n```python path=" + file + "\nfrom m import f\n\n\ndef test_m():\n    assert f(2) == 3\n```\n"
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, answer); verdict.Outcome != sdk.Failed {
			t.Errorf("%s: %s", file, verdict.Outcome)
		}
	}
}

// A command that cannot be run is named in the evidence.
func TestCommandThatIsNotThere(t *testing.T) {
	find(t, "sh")
	v := open(t, verify.Config{Command: []string{"sh", "-c", "./missing-tool"}})
	if verdict := judge(t, v, &sdk.Query{WorkDir: write(t, pyTree)}, pyRight); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "missing-tool: not found") {
		t.Error(verdict.Outcome)
	}
}

// A command that ends before it reads the tests or the changed files does not fail because of an answer. One that reads
// them does, even if its output stays as it was.
func TestCommandThatLacksATool(t *testing.T) {
	find(t, "node")
	tree := map[string]string{"add.js": "exports.add = (a, b) => a - b;\n", "test/add.test.js": "if (require('../add').add(1, 1) !== 2) throw 'wrong sum';\n"}
	for script, want := range map[string]sdk.Outcome{
		"ls missing-tool.json && node test/add.test.js": sdk.Inconclusive,
		"node test/add.test.js":                         sdk.Failed,
	} {
		v := open(t, verify.Config{Command: []string{"sh", "-c", script}})
		verdict := judge(t, v, &sdk.Query{WorkDir: write(t, tree)}, file("add.js", "exports.add = (a, b) => a * b - b;"))
		if verdict.Outcome != want || want == sdk.Inconclusive && !strings.Contains(verdict.Evidence, "missing-tool.json") {
			t.Errorf("%s: %s: %s", script, verdict.Outcome, verdict.Evidence)
		}
	}
}

// A command that starts no test on the untouched tree is no evidence about any answer, unless answers add the tests.
func TestCommandThatStartsNoTest(t *testing.T) {
	nodeTree := map[string]string{"add.js": "exports.add = (a, b) => a - b;\n", "test/add.test.js": "require('node:test')('adds', () => require('assert').equal(require('../add').add(1, 1), 2));\n"}
	nodeRight := file("add.js", "exports.add = (a, b) => a + b;")
	for _, test := range []struct {
		tree   map[string]string
		answer string
		config verify.Config
		says   string
	}{
		{nodeTree, nodeRight, verify.Config{Command: []string{"node", "--test", "test/missing.js"}}, "Could not find"},
		{pyTree, pyRight, verify.Config{Command: []string{pytestOrSkip(t), "-m", "pytest", "missing_test.py"}}, "not found: missing_test.py"},
		{map[string]string{"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": "pub fn one() -> u8 {\n    0\n}\n\n#[test]\nfn ones() {\n    assert_eq!(one(), 1);\n}\n"}, file("src/lib.rs", "pub fn one() -> u8 {\n    1\n}"), verify.Config{Command: []string{"cargo", "test"}, Env: map[string]string{"RUSTUP_HOME": "/tmp/missing"}}, "rustup"},
	} {
		t.Run(test.config.Command[0], func(t *testing.T) {
			find(t, test.config.Command[0])
			query := &sdk.Query{WorkDir: write(t, test.tree)}
			for _, answer := range []string{"", test.answer} {
				if verdict := judge(t, open(t, test.config), query, answer); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, test.says) {
					t.Errorf("%q: %s", answer, verdict.Outcome)
				}
			}
			test.config.AllowTestEdits = true
			if verdict := judge(t, open(t, test.config), query, ""); (verdict.Outcome == sdk.Inconclusive) != (test.config.Env != nil) {
				t.Error("tests that answers may bring need not be there")
			}
		})
	}
}

// A framework that can load no test file, whatever is in them, is no evidence about any answer. One that lacks what an answer
// must add is.
func TestFrameworkThatLacksItsPreset(t *testing.T) {
	find(t, "node", "--version")
	right := file("calc.js", "exports.add = (a, b) => a + b;\nexports.twice = (a) => 2 * a;") + file("sum.js", "module.exports = require('./calc.js').add;")
	v := open(t, verify.Config{Command: []string{"node", "node_modules/jest/bin/jest.js", "calc.test.js"}})
	for preset, want := range map[string]sdk.Outcome{"require('missing-preset'); ": sdk.Inconclusive, "": sdk.Passed} {
		tree := maps.Clone(smallTests)
		tree["node_modules/jest/bin/jest.js"] = strings.Replace(smallJest, "try { require", "try { "+preset+"require", 1)
		tree["calc.test.js"] = strings.Replace(tree["calc.test.js"], "const { add", "const sum = require('./sum.js');\nconst { add", 1)
		query := &sdk.Query{WorkDir: write(t, tree)}
		if verdict := judge(t, v, query, right); verdict.Outcome != want || want == sdk.Inconclusive && !strings.Contains(verdict.Evidence, "before it reads any code: ") {
			t.Errorf("right, %q: %s", preset, verdict.Outcome)
		}
		if verdict := judge(t, v, query, strings.ReplaceAll(right, "a + b", "a * b")); verdict.Outcome == sdk.Passed || want == sdk.Passed && verdict.Outcome != sdk.Failed {
			t.Errorf("wrong, %q: %s", preset, verdict.Outcome)
		}
	}
}

// unittest's tracebacks name the judge's own module, which is another in each run, and yet a failure is the same.
func TestUnittestBesideWhatIsBroken(t *testing.T) {
	v := open(t, verify.Config{Command: []string{find(t, python, "-c", "import unittest"), "-m", "unittest"}, Reruns: -1})
	tree := maps.Clone(pyTree)
	tree["test_old.py"] = "import unittest\n\nclass T(unittest.TestCase):\n    def test_items(self):\n        self.assertItemsEqual([1], [1])\n"
	if verdict := judge(t, v, &sdk.Query{WorkDir: write(t, tree)}, pyRight); verdict.Outcome != sdk.Passed || verdict.Confidence > 0.85 || !strings.Contains(verdict.Evidence, "left out, because they fail as on the untouched tree: test_old.T.test_items") {
		t.Errorf("%s %v", verdict.Outcome, verdict.Confidence)
	}
}
