package verify_test

import (
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Node says no more than "test failed" of a file that fails while it is loaded, as it would of one that cannot be parsed:
// an answer may be what it lacks.
func TestNodeFilesThatFailWhileTheyLoad(t *testing.T) {
	find(t, "node")
	const head = "const { test } = require('node:test');\nconst assert = require('node:assert');\nconst app = require('./app.js');\n"
	for name, before := range map[string]string{"throws": "exports.f = () => 1;\n", "exits": "exports.make = () => process.exit(1);\n"} {
		v := open(t, verify.Config{Command: []string{"node", "--test", "a.test.js"}})
		tree := write(t, map[string]string{"app.js": before, "a.test.js": head + "const made = app.make(3);\ntest('a', () => { assert.strictEqual(made, 33); });\n"})
		if got := judge(t, v, &sdk.Query{WorkDir: tree}, file("app.js", "exports.make = (n) => 11 * n;")); got.Outcome != sdk.Passed {
			t.Errorf("%s: %s", name, got.Evidence)
		}
	}
}

// A condition around a comparison does not hide it.
func TestConditionsAroundComparisons(t *testing.T) {
	find(t, "node")
	const each = "exports.each = (n, g) => { for (let i = 1; i <= n; i++) g(i); return true; };\n"
	const skips = "exports.each = (n, g) => { for (let i = 1; i <= n; i++) try { g(i) } catch (e) {}; return true; };\n"
	for answer, want := range map[string]bool{"exports.f = () => 3;\n" + each + "exports.two = (x) => 22 * x;": true, "exports.f = () => 3;\n" + skips + "exports.two = (x) => 0;": false} {
		v := open(t, verify.Config{Command: []string{"sh", "run.sh"}})
		tree := write(t, map[string]string{
			"run.sh": "node check.js\n", "app.js": "exports.f = () => 0;\n" + each + "exports.two = (x) => 0;\n",
			"check.js": "const assert = require('assert');\nconst app = require('./app.js');\nassert.strictEqual(app.f(1), 3);\nassert(app.each(1, (x) => { assert.strictEqual(app.two(x), 22); }));\n",
		})
		if got := judge(t, v, &sdk.Query{WorkDir: tree}, file("app.js", answer)); (got.Outcome == sdk.Passed) != want {
			t.Errorf("%s\n%s: %s", answer, got.Outcome, got.Evidence)
		}
	}
}
