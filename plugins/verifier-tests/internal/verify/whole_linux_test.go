package verify_test

import (
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Altered tests compile for any Go version that a module requires, and with coverage.
func TestGoProgramsOfAllKinds(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		flags   []string
		long    bool
	}{
		"old":   {"1.13", nil, false},
		"cover": {"1.22", []string{"-cover"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.long {
				onlyInCI(t)
			}
			tree := write(t, map[string]string{
				"go.mod": "module example.com/calc\n\ngo " + test.version + "\n", "calc/add.go": "package calc\n\nvar bytes, os, strings = 1, 2, 3\n\nfunc Add(a, b int) int { return a - b }\n",
				"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Fail()\n\t}\n}\n",
			})
			v := open(t, verify.Config{Command: append(append([]string{"go", "test"}, test.flags...), "./...")})
			verdict := judge(t, v, &sdk.Query{WorkDir: tree}, goFile("var bytes, os, strings = 1, 2, 3\n\nfunc Add(a, b int) int { return a + b }"))
			if verdict.Outcome != sdk.Passed {
				t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
			}
		})
	}
}

// If answers are allowed to edit tests, tests can move and become fewer.
func TestEditedTestsMayMove(t *testing.T) {
	find(t, python, "-c", "import unittest")
	tree := write(t, map[string]string{
		"calc.py":      "def add(a, b):\n    return a - b\n",
		"test_calc.py": "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n",
	})
	answer := file("calc.py", "def add(a, b):\n    return a + b\n") +
		file("test_calc.py", "# Moved down.\n\nimport unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n")
	for _, edits := range []bool{true, false} {
		v := open(t, verify.Config{Command: []string{python, "-m", "unittest"}, AllowTestEdits: edits})
		if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, answer); verdict.Outcome != sdk.Passed {
			t.Errorf("%v: %s: %s", edits, verdict.Outcome, verdict.Evidence)
		}
	}
}

// Tests that an answer adds may need existing ones.
func TestAddedTestsNeedOthers(t *testing.T) {
	long(t)
	tree := write(t, map[string]string{
		"go.mod": "module example.com/calc\n\ngo 1.22\n", "calc/add.go": "package calc\n\nfunc Add(a, b int) int { return a - b }\n",
		"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc equal(t *testing.T, got, want int) {\n\tif got != want {\n\t\tt.Errorf(\"got %d, want %d\", got, want)\n\t}\n}\n\nfunc TestAdd(t *testing.T) { equal(t, Add(2, 3), 5) }\n",
	})
	v := open(t, verify.Config{Command: []string{"go", "test", "./..."}, AllowTestEdits: true})
	answer := goFile("func Add(a, b int) int { return a + b }") + file("calc/more_test.go", "package calc\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) { equal(t, Add(1, 1), 2) }")
	if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, answer); verdict.Outcome != sdk.Passed {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}
