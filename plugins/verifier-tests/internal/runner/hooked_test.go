package runner

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Reports count up to the first that its key has not sealed, and each is sealed by a key that the one before it left.
func TestReportsOfHookedProcesses(t *testing.T) {
	plan := &Plan{}
	hook(plan, "N")
	sealed := func(key, test string) string {
		text := `[{"Group": "a.test.js", "Name": "` + test + `", "Status": "pass"}]` + "\n"
		return sign(key, []byte(text)) + " " + text
	}
	next := sign(plan.key, []byte("next"))
	for _, c := range []struct {
		reports []string
		exit    int
		want    string
	}{
		{nil, 0, "npm test"},
		{[]string{sealed(plan.key, "a"), sealed(next, "b")}, 0, "a b"},
		{[]string{sealed(plan.key, "a"), sealed(plan.key, "b")}, 0, "a"},
		{[]string{sealed("", "a")}, 0, "npm test"},
		{[]string{"short"}, 1, "npm test"},
		{[]string{sealed(plan.key, "a")}, 1, "a (rest of the command)"},
	} {
		plan.command = "npm test"
		result := &jail.Result{ExitCode: c.exit, Reports: map[string][]byte{plan.Reports[0]: []byte(strings.Join(c.reports, ""))}}
		var names []string
		report := exitCode{}.Read(plan, result)
		for _, test := range report.Tests {
			names = append(names, test.Name)
		}
		if got := strings.Join(names, " "); got != c.want || report.IsWhole != (got == "npm test") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A command that names no file of the tree runs those of the tests at hand alone, if its program is jest or vitest.
func TestNarrowedFrameworks(t *testing.T) {
	tree := &Tree{Dir: t.TempDir()}
	for command, want := range map[string]string{
		"npx jest --ci": "npx jest --ci a.test.js", "node node_modules/vitest/vitest.mjs run": "node node_modules/vitest/vitest.mjs run a.test.js",
		"npx mocha": "npx mocha", "npm test": "npm test", "npx jest -- b": "npx jest -- b", "npx jest .": "npx jest .",
	} {
		if got := strings.Join(exitCode{}.Narrow(strings.Fields(command), tree, []string{"a.test.js"}), " "); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}
