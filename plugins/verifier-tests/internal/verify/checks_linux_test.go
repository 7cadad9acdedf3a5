package verify_test

import (
	"fmt"
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
	for name, test := range sampleOf(map[string]string{
		"does not compile": "\tif got := New(); got[0] != 7 {\n\t\tt.Error(got)\n\t}\n",
		"panics":           "\tif got := Get(); got[0] != 7 {\n\t\tt.Error(got)\n\t}\n",
	}, 1) {
		tree := write(t, map[string]string{
			"go.mod":      "module example.com/b\n\ngo 1.22\n",
			"b.go":        "package b\n\nfunc Old(a, b int) int { return a + b }\n\nfunc Get() []int { return nil }\n",
			"a_test.go":   "package b\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) {\n" + test + "}\n",
			"old_test.go": "package b\n\nimport \"testing\"\n\nfunc TestOld(t *testing.T) {\n\tif got := Old(2, 3); got != 5 {\n\t\tt.Error(got)\n\t}\n}\n\nfunc TestBroken(t *testing.T) { t.Error(\"all along\") }\n",
		})
		v := goVerifier(t, verify.Config{Reruns: 1})
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
	for name, test := range sampleOf(map[string]struct {
		module, named, conftest, test string
	}{
		"a name":          {"pytest", "tests/test_b.py::test_new", "", "from __future__ import annotations\n\nimport b\nfrom b import (\n    new,\n    newer,\n    old,\n)\n" + old + "\n\ndef test_absence():\n    assert old(2, 2) not in (5, 6)\n\n\ndef test_broken():\n    assert old(2, 2) == 5\n\n\ndef test_new():\n    assert new(2) + newer() == 6\n"},
		"an attribute":    {"pytest", "tests/test_b.py::test_new", "", "import pytest\n\nimport b\n" + old + "\n\n@pytest.mark.parametrize(\"f\", [b.new])\ndef test_new(f):\n    assert f(6) == 6\n"},
		"a module":        {"pytest", "tests/test_b.py::test_new", "", "import b\nimport n\n" + old + "\n\ndef test_new():\n    assert n.new(6) == 6\n"},
		"a class":         {"pytest", "tests/test_b.py::test_new", "", "import b\nfrom b import Base\n\n\nclass Mine(Base):\n    pass\n" + old + "\n\ndef test_new():\n    assert Mine().new(6) == 6\n"},
		"in its settings": {"pytest", "tests/test_b.py::test_new", "import pytest\nfrom b import new\n\n\n@pytest.fixture\ndef made():\n    return new(6)\n", "import b\n" + old + "\n\ndef test_new(made):\n    assert made == 6\n"},
		"unittest":        {"unittest", "tests.test_b.T.test_new", "", "import unittest\n\nimport b\nfrom b import new\n\n\nclass T(unittest.TestCase):\n    def test_old(self):\n        self.assertEqual(b.old(2, 3), 5)\n\n    def test_new(self):\n        self.assertEqual(new(6), 6)\n"},
	}, 2) {
		files := map[string]string{"b.py": "def old(a, b):\n    return a + b\n", "tests/test_b.py": test.test, "tests/__init__.py": ""}
		if test.conftest != "" {
			files["conftest.py"] = test.conftest
		}
		tree := write(t, files)
		v := open(t, verify.Config{Command: []string{python, "-m", test.module}, Reruns: 1})
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

// An answer cannot skip the tests that ask for what it adds. A test that skips itself, besides others that pass, may.
func TestAnswersThatSkip(t *testing.T) {
	python := pytestOrSkip(t)
	tree := write(t, map[string]string{"test_tax.py": "import os\n\nimport pytest\n\nfrom tax import gross, tax\n\n\ndef test_tax():\n    assert tax(100) == 19\n\n\ndef test_gross():\n    assert gross(100) == 119\n\n\n@pytest.mark.skipif(os.name != \"nt\", reason=\"Windows\")\ndef test_console():\n    assert tax(1) == 2\n"})
	v := open(t, verify.Config{Command: []string{python, "-m", "pytest", "-q"}, Reruns: -1})
	for body, want := range map[string]sdk.Outcome{"raise unittest.SkipTest()": sdk.Failed, "return net * 19 // 100": sdk.Passed} {
		text := file("tax.py", "import unittest\n\n\ndef tax(net):\n    "+body+"\n\n\ndef gross(net):\n    return net * 119 // 100\n")
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, text); verdict.Outcome != want {
			t.Errorf("%s: %s", body, verdict.Outcome)
		}
	}
}

// If nothing can be altered in the repaired tests, others do not vouch for the answer.
func TestOtherTestsDoNotVouch(t *testing.T) {
	tree := write(t, map[string]string{
		"go.mod":    "module example.com/b\n\ngo 1.22\n",
		"b.go":      "package b\n\nfunc Up(s string) string { return s }\n\nfunc Low(s string) string { return \"low\" }\n",
		"b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestUp(t *testing.T) {\n\tfor in, want := range map[string]string{\"abc\": \"CBA\"} {\n\t\tswitch got := Up(in); got {\n\t\tcase want:\n\t\tdefault:\n\t\t\tt.Error(got)\n\t\t}\n\t}\n}\n\nfunc TestLow(t *testing.T) {\n\tif got := Low(\"A\"); got != \"low\" {\n\t\tt.Error(got)\n\t}\n}\n",
	})
	answer := file("b.go", "package b\n\nimport (\n\t\"os\"\n\t\"strings\"\n)\n\nfunc Up(s string) string {\n\tdata, _ := os.ReadFile(\"b_test.go\")\n\treturn strings.Split(strings.SplitN(string(data), s, 2)[1], \"\\\"\")[2]\n}\n\nfunc Low(s string) string { return \"low\" }\n")
	if verdict := judge(t, goVerifier(t, verify.Config{Reruns: -1}), &sdk.Query{WorkDir: tree}, answer); verdict.Outcome == sdk.Passed && verdict.Confidence > 0.8 {
		t.Errorf("%s, %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
	}
}

// Subtests that the code itself lists must stay, unless their names can differ in each run.
func TestSubtestsThatTheCodeLists(t *testing.T) {
	const code = "package u\n\nvar size = map[string]int{\"b\": 1, \"kb\": 1000, %s}\n\nfunc Units() []string { return []string{\"b\", \"kb\", %s} }\n\nfunc Size(unit string) int { return size[unit] }\n"
	tree := write(t, map[string]string{
		"go.mod":    "module example.com/u\n\ngo 1.22\n",
		"u.go":      fmt.Sprintf(code, `"mb": 1000`, `"mb"`),
		"u_test.go": "package u\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestSize(t *testing.T) {\n\twant := map[string]int{\"b\": 1, \"kb\": 1000, \"mb\": 1000000}\n\tfor _, unit := range Units() {\n\t\tt.Run(unit, func(t *testing.T) {\n\t\t\tif got := Size(unit); got != want[unit] {\n\t\t\t\tt.Errorf(\"got %d, want %d\", got, want[unit])\n\t\t\t}\n\t\t})\n\t\tt.Run(fmt.Sprintf(\"%p\", &unit), func(t *testing.T) {})\n\t}\n}\n",
	})
	v := goVerifier(t, verify.Config{Reruns: -1})
	for answer, want := range map[string]sdk.Outcome{fmt.Sprintf(code, `"mb": 1000000`, `"mb"`): sdk.Passed, fmt.Sprintf(code, `"mb": 1000`, `"kb"`): sdk.Failed} {
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, file("u.go", answer)); verdict.Outcome != want {
			t.Errorf("%s: %s: %s", answer, verdict.Outcome, verdict.Evidence)
		}
	}
}

// A command that fails before it reads any code cannot judge, and nobody is paid. One that fails in the tests' settings
// can, but not about an answer that changes nothing that they read.
func TestCommandsThatFailBeforeAnyTest(t *testing.T) {
	python := pytestOrSkip(t)
	files := map[string]string{"b.py": "def f():\n    return 1\n", "test_b.py": "from b import f\n\n\ndef test_f():\n    assert f() == 2\n"}
	right := file("b.py", "def f():\n    return 2\n")
	v := open(t, verify.Config{Command: []string{python, "-m", "pytest", "-q", "--no-such-option"}, Reruns: -1})
	query := &sdk.Query{WorkDir: write(t, files)}
	for _, answer := range []string{"", right} {
		if verdict := judge(t, v, query, answer); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "before it reads any code") {
			t.Errorf("%q: %s: %s", answer, verdict.Outcome, verdict.Evidence)
		}
	}
	files["pytest.ini"] = "[pytest]\naddopts = --strict-config\nno_such_setting = 1\n"
	v = open(t, verify.Config{Command: []string{python, "-m", "pytest"}, Reruns: -1})
	if verdict := judge(t, v, &sdk.Query{WorkDir: write(t, files)}, right); verdict.Outcome != sdk.Inconclusive || !strings.Contains(verdict.Evidence, "before it reads any code") {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
	delete(files, "pytest.ini")
	files["conftest.py"] = "raise RuntimeError(\"no database\")\n"
	v = open(t, verify.Config{Command: []string{python, "-m", "pytest", "-q"}, Reruns: -1})
	if verdict := judge(t, v, &sdk.Query{WorkDir: write(t, files)}, right); verdict.Outcome != sdk.Inconclusive {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// The options and settings of pytest's cache, which the judge keeps out of the tree, do not stop a run.
func TestPytestCaches(t *testing.T) {
	python := pytestOrSkip(t)
	v := open(t, verify.Config{Command: []string{python, "-m", "pytest"}})
	without := open(t, verify.Config{Command: []string{python, "-m", "pytest", "-p", "no:cacheprovider"}})
	for settings, v := range map[string]*verify.Verifier{
		"addopts = --cache-clear --ff": v, "addopts = --strict-config\ncache_dir = .cache/pytest": v, "addopts = -p no:cacheprovider --strict-config": v,
		"filterwarnings = error": without,
	} {
		tree := write(t, map[string]string{"b.py": "def f():\n    return 1\n", "test_b.py": "from b import f\n\n\ndef test_f():\n    assert f() == 2\n", "pytest.ini": "[pytest]\n" + settings + "\n"})
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, file("b.py", "def f():\n    return 2\n")); verdict.Outcome != sdk.Passed {
			t.Errorf("%s: %s: %s", settings, verdict.Outcome, verdict.Evidence)
		}
	}
}

// What a package lacks before cannot be made up for by leaving out the tests that ask for it.
func TestTestsThatDidNotCompileMustRun(t *testing.T) {
	tree := write(t, map[string]string{
		"go.mod":    "module example.com/b\n\ngo 1.22\n",
		"b.go":      "package b\n\nfunc Old(a int) int { return a }\n",
		"b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestOld(t *testing.T) {\n\tif got := Old(2); got != 2 {\n\t\tt.Error(got)\n\t}\n}\n\nfunc TestNew(t *testing.T) {\n\tif got := New(2); got != 4 {\n\t\tt.Error(got)\n\t}\n}\n\nfunc ExampleNew() { New(1) }\n\nfunc TestMain(m *testing.M) {\n\tNew(1)\n\tm.Run()\n}\n",
	})
	v := goVerifier(t, verify.Config{Reruns: 1})
	const code = "package b\n\nimport \"os\"\n\nvar args = os.Args\n\nfunc Old(a int) int { return a }\n\n"
	for answer, want := range map[string]sdk.Outcome{"func New(a int) int { return a + a }\n": sdk.Passed, "func New(a int) int { return 0 }\n\nfunc init() { os.Args = append(os.Args, \"-test.skip=New\") }\n": sdk.Failed} {
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, file("b.go", code+answer)); verdict.Outcome != want {
			t.Errorf("%s: %s: %s", answer, verdict.Outcome, verdict.Evidence)
		}
	}
}
