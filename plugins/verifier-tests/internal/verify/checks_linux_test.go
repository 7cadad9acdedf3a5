package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// A correct answer may have to change a test that passed before: the verdict is inconclusive if it changes tests, and
// the test does not count if answers are allowed to edit tests or the lists name the regression tests.
func TestAnswersThatChangeWhatPassedBefore(t *testing.T) {
	tree := write(t, map[string]string{
		"price.py":      "def show(n): return str(n)\n\ndef old(n): return n\n",
		"test_price.py": "import unittest\nimport price\n\nclass T(unittest.TestCase):\n    def test_show(self):\n        self.assertEqual(price.show(1), '1.00')\n\n    def test_zero(self):\n        self.assertEqual(price.show(0), '0')\n\n    def test_old(self):\n        self.assertEqual(price.old(2), 2)\n",
	})
	const code = "```python path=price.py\ndef show(n): return f'{n}.00'\n"
	const keeps, breaks = code + "\ndef old(n): return n\n```\n", code + "\ndef old(n): return n + 1\n```\n"
	const tests = "```python path=test_price.py\nimport unittest\nimport price\n\nclass T(unittest.TestCase):\n    def test_show(self):\n        self.assertEqual(price.show(1), '1.00')\n\n    def test_zero(self):\n        self.assertEqual(price.show(0), '0.00')\n```\n"
	show := []string{"test_price.T.test_show"}
	for _, test := range []struct {
		name, answer string
		checks       sdk.Checks
		edits        bool
		want         sdk.Outcome
		says         string
	}{
		{"a test is changed, and another removed", keeps + tests, sdk.Checks{FailToPass: show}, false, sdk.Inconclusive, "it changes tests (test_price.py), and fails some as they were"},
		{"none is changed", keeps, sdk.Checks{FailToPass: show}, false, sdk.Failed, "test_price.T.test_zero failed, and passed on the untouched tree"},
		{"the lists leave it out", keeps, sdk.Checks{FailToPass: show, PassToPass: []string{"test_old"}}, false, sdk.Passed, "2 of 2"},
		{"the lists leave it out, and what must stay is broken", breaks, sdk.Checks{FailToPass: show, PassToPass: []string{"test_old"}}, false, sdk.Failed, "test_old failed"},
		{"answers may edit tests", keeps + tests, sdk.Checks{FailToPass: show}, true, sdk.Passed, "2 of 2"},
		{"answers may edit tests, and one breaks", breaks, sdk.Checks{FailToPass: show}, true, sdk.Failed, "test_old failed"},
	} {
		python := find(t, python, "-c", "import unittest")
		v := open(t, verify.Config{Command: []string{python, "-m", "unittest"}, AllowTestEdits: test.edits, Reruns: -1})
		verdict := judge(t, v, &sdk.Query{WorkDir: tree, Checks: test.checks}, test.answer)
		if verdict.Outcome != test.want || !strings.Contains(verdict.Evidence, test.says) {
			t.Errorf("%s: %s, want %s with %q", test.name, verdict.Outcome, test.want, test.says)
		}
	}
}

// Tests that did not run on the untouched tree, because a test in their program uses what it lacks or panics, must pass as
// well if they would have passed there, even if others are named.
func TestAnswersThatBreakWhatDidNotRun(t *testing.T) {
	for name, test := range map[string]string{
		"does not compile": "\tif got := New(); got[0] != 7 {\n\t\tt.Error(got)\n\t}\n",
		"panics":           "\tif got := Get(); got[0] != 7 {\n\t\tt.Error(got)\n\t}\n",
	} {
		tree := write(t, map[string]string{
			"go.mod":      "module example.com/b\n\ngo 1.22\n",
			"b.go":        "package b\n\nfunc Old(a, b int) int { return a + b }\n\nfunc Get() []int { return nil }\n",
			"a_test.go":   "package b\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) {\n" + test + "}\n",
			"old_test.go": "package b\n\nimport \"testing\"\n\nfunc TestOld(t *testing.T) {\n\tif got := Old(2, 3); got != 5 {\n\t\tt.Error(got)\n\t}\n}\n\nfunc TestBroken(t *testing.T) { t.Error(\"all along\") }\n",
		})
		v := goVerifier(t, verify.Config{Reruns: -1})
		for answer, want := range map[string]sdk.Outcome{"a + b": sdk.Passed, "a * b": sdk.Failed} {
			text := file("b.go", "package b\n\nfunc Old(a, b int) int { return "+answer+" }\n\nfunc New() []int { return []int{7} }\n\nfunc Get() []int { return New() }\n")
			verdict := judge(t, v, &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: []string{"TestNew"}}}, text)
			if verdict.Outcome != want {
				t.Errorf("%s, %s: %s: %s", name, answer, verdict.Outcome, verdict.Evidence)
			}
		}
	}
}

// The same where what the answer adds is missing when a module of tests is loaded.
func TestAnswersThatBreakWhatWasNotLoaded(t *testing.T) {
	python := pytestOrSkip(t)
	const old = "\n\ndef test_old():\n    assert b.old(2, 3) == 5\n"
	for name, test := range map[string]struct {
		module, named, conftest, test string
	}{
		"a name":          {"pytest", "tests/test_b.py::test_new", "", "from __future__ import annotations\n\nimport b\nfrom b import (\n    new,\n    newer,\n    old,\n)\n" + old + "\n\ndef test_absence():\n    assert old(2, 2) not in (5, 6)\n\n\ndef test_broken():\n    assert old(2, 2) == 5\n\n\ndef test_new():\n    assert new(2) + newer() == 6\n"},
		"an attribute":    {"pytest", "tests/test_b.py::test_new", "", "import pytest\n\nimport b\n" + old + "\n\n@pytest.mark.parametrize(\"f\", [b.new])\ndef test_new(f):\n    assert f(6) == 6\n"},
		"a module":        {"pytest", "tests/test_b.py::test_new", "", "import b\nimport n\n" + old + "\n\ndef test_new():\n    assert n.new(6) == 6\n"},
		"a class":         {"pytest", "tests/test_b.py::test_new", "", "import b\nfrom b import Base\n\n\nclass Mine(Base):\n    pass\n" + old + "\n\ndef test_new():\n    assert Mine().new(6) == 6\n"},
		"in its settings": {"pytest", "tests/test_b.py::test_new", "import pytest\nfrom b import new\n\n\n@pytest.fixture\ndef made():\n    return new(6)\n", "import b\n" + old + "\n\ndef test_new(made):\n    assert made == 6\n"},
		"unittest":        {"unittest", "tests.test_b.T.test_new", "", "import unittest\n\nimport b\nfrom b import new\n\n\nclass T(unittest.TestCase):\n    def test_old(self):\n        self.assertEqual(b.old(2, 3), 5)\n\n    def test_new(self):\n        self.assertEqual(new(6), 6)\n"},
	} {
		files := map[string]string{"b.py": "def old(a, b):\n    return a + b\n", "tests/test_b.py": test.test, "tests/__init__.py": ""}
		if test.conftest != "" {
			files["conftest.py"] = test.conftest
		}
		tree := write(t, files)
		v := open(t, verify.Config{Command: []string{python, "-m", test.module}, Reruns: -1})
		for answer, want := range map[string]sdk.Outcome{"a + b": sdk.Passed, "a * b": sdk.Failed} {
			text := file("b.py", "def old(a, b):\n    return "+answer+"\n\n\ndef new(a):\n    return a\n\n\ndef newer():\n    return 4\n\n\nclass Base:\n    def new(self, a):\n        return a\n") +
				file("n.py", "def new(a):\n    return a\n")
			verdict := judge(t, v, &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: []string{test.named}}}, text)
			if verdict.Outcome != want {
				t.Errorf("%s, %s: %s: %s", name, answer, verdict.Outcome, verdict.Evidence)
			}
		}
	}
}
