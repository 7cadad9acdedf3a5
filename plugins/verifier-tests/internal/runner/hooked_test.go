package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

// A report counts if its key has sealed all of it.
func TestReportsOfHookedProcesses(t *testing.T) {
	plan := &Plan{}
	hook(plan, "N")
	sealed := func(key, status string) string {
		text := `[{"Group": "a.test.js", "Name": "a", "Status": "` + status + `"}]`
		return sign(key, []byte(text)) + " " + text
	}
	for _, c := range []struct {
		report   string
		exit     int
		want     string
		isEntire bool
	}{
		{"", 0, "tampering", false},
		{sealed(plan.key, "pass"), 0, "a", true},
		{sealed(plan.key, "fail"), 1, "a", true},
		{sealed(plan.key, "fail"), 0, "a", false},
		{sealed(plan.key, "pass")[:90], 0, "tampering", false},
		{sealed(plan.key, "pass") + "\n" + sealed(plan.key, "pass"), 0, "tampering", false},
		{sealed("", "pass"), 0, "tampering", false},
		{"short", 1, "broken", false},
		{sealed(plan.key, "pass"), 1, "a (rest of the command)", false},
		{sign(plan.key, []byte("[]")) + " []", 0, "", false},
	} {
		report := exitCode{}.Read(plan, &jail.Result{ExitCode: c.exit, Stdout: []byte("said"), Reports: map[string][]byte{plan.Reports[0]: []byte(c.report)}})
		var names []string
		for _, test := range report.Tests {
			names = append(names, test.Name)
		}
		if len(report.Tampering) > 0 {
			names = append(names, "tampering")
		}
		if report.Broken != "" {
			names = append(names, "broken")
		}
		if got := strings.Join(names, " "); got != c.want || report.IsEntire != c.isEntire || report.IsWhole {
			t.Errorf("%s: %q, entire %t", c.report, got, report.IsEntire)
		}
	}
}

// Only a command that is one process of a framework, and nothing else, has its tests reported.
func TestCommandsThatRunAFramework(t *testing.T) {
	tree := &Tree{Dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(tree.Dir, "node_modules", "tape"), 0o700); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]bool{
		"jest": true, "jest --ci a.test.js": true, "vitest run": true, "mocha 'test/**/*.js'": true, "NODE_ENV=test mocha --exit": true, "npx vitest run": true, "node tape.test.js": true, "tape test/*.js": true,
		"npm run unit": true, "npm run unit -- --bail": true, "node --require x node_modules/.bin/_mocha": true, "node -r x node_modules/.bin/_mocha": true, "sh -c 'jest --ci'": true,
		"": false, "mocha a.js && node b.js": false, "mocha; jest": false, "jest || true": false, "mocha | cat": false, "mocha &": false, "! mocha": false, "mocha > out": false, "jest $WHAT": false, "jest `echo a`": false,
		"tsc && mocha dist": false, "NODE_OPTIONS=--no-warnings mocha": false, "jest --clearCache": false, "jest --listTests": false, "jest --showConfig": false, "vitest bench": false, "vitest run --typecheck.only": false,
		"mocha --parallel": false, "mocha -p": false, "vitest --workspace=w.ts": false, "jest --projects a b": false, "npm run two": false, "npm run pre": false, "npm run unit --workspaces": false, "npm run loop": false,
		"concurrently mocha jest": false, "nyc mocha": false, "node -e 1": false, "node --test": false, "ava": false, "sh run.sh": false, "make test": false, "yarn workspaces run test": false,
	} {
		scripts, err := json.Marshal(map[string]any{"scripts": map[string]string{"test": script, "unit": "mocha", "two": "mocha; mocha", "pre": "mocha", "prepre": "node build.js", "loop": "npm run loop"}})
		if err == nil {
			err = os.WriteFile(filepath.Join(tree.Dir, "package.json"), scripts, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"npm test --silent", "npm run test", "yarn test", "pnpm run test"} {
			if RunsFramework(strings.Fields(command), tree) != want {
				t.Errorf("%s of %q: want %t", command, script, want)
			}
		}
	}
}

// A command that names no file of the tree runs those of the tests at hand alone, if its program is jest or vitest.
func TestNarrowedFrameworks(t *testing.T) {
	tree := &Tree{Dir: t.TempDir(), IsHooked: true}
	for command, want := range map[string]string{
		"npx jest --ci": "npx jest --ci a.test.js", "node node_modules/vitest/vitest.mjs run": "node node_modules/vitest/vitest.mjs run a.test.js",
		"npx mocha": "npx mocha", "npm test": "npm test", "npx jest -- b": "npx jest -- b", "npx jest .": "npx jest .",
	} {
		if got := strings.Join(exitCode{}.Narrow(strings.Fields(command), tree, []string{"a.test.js"}), " "); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}
