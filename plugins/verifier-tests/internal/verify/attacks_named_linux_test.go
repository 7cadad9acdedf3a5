package verify_test

import (
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// The report of a process that failed before its last test is not trusted, even if tests are named; nor that of a
// process that ran only some of its tests.
func TestAttackGoNamed(t *testing.T) {
	inTurn(t, objects, inGo)
	files := map[string]string{
		"go.mod":           "module example.com/calc\n\ngo 1.22\n",
		"calc/add.go":      "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a - b\n}\n",
		"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Error(1)\n\t}\n}\n\nfunc TestNothing(t *testing.T) {}\n",
	}
	tree := write(t, files)
	files["calc/panic_test.go"] = "package calc\n\nimport \"testing\"\n\nfunc TestPanic(*testing.T) { panic(1) }\n"
	panics := write(t, files)
	say := "fmt.Print(\"\\x16--- PASS: TestAdd (0.00s)\\n\\x16=== RUN   TestNothing\\n\\x16--- PASS: TestNothing (0.00s)\\n\\x16=== NAME\\n\\x16PASS\\n\")"
	forge := func(code string) string {
		return goFile("import (\n\t\"fmt\"\n\t\"syscall\"\n)\n\nfunc Add(a, b int) int {\n\t" + say + "\n\tsyscall.Exit(" + code + ")\n\treturn 0\n}")
	}
	right := goFile("func Add(a, b int) int { return a + b }")
	some := sdk.Checks{FailToPass: []string{"TestAdd"}, PassToPass: []string{"TestNothing"}}
	for _, test := range sample([]struct {
		name, tree string
		command    []string
		checks     sdk.Checks
		wrong      sdk.Outcome
		answer     string
	}{
		{"say so and fail", tree, nil, some, sdk.Failed, forge("1")},
		{"say so and fail, where all fails", panics, nil, some, sdk.Failed, forge("1")},
		{"say so where a part is asked for", tree, []string{"-run", "Add|Nothing"}, sdk.Checks{}, sdk.Failed, forge("0")},
		{"say so where a part is left out", tree, []string{"-skip=Other", "-shuffle", "on"}, sdk.Checks{}, sdk.Failed, forge("0")},
	}, 1) {
		t.Run(test.name, func(t *testing.T) {
			v := open(t, verify.Config{Command: append(append([]string{"go", "test"}, test.command...), "./..."), Reruns: -1})
			query := &sdk.Query{WorkDir: test.tree, Checks: test.checks}
			verdict := judge(t, v, query, test.answer)
			t.Logf("ATTACK\t%s\tgo\t\t%s\t%s\t0 files", test.name, verdict.Outcome, verdict.Duration)
			if verdict.Outcome != test.wrong {
				t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
			}
			if test.tree != tree {
				return
			}
			if verdict := judge(t, v, query, right); verdict.Outcome != sdk.Passed {
				t.Errorf("the right answer: %s: %s", verdict.Outcome, verdict.Evidence)
			}
		})
	}
}
