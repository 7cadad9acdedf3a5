package verify_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Ways past a command that does not say what it runs: modules, what configurations
// load, and languages whose tests lie in the files that they test.

func TestAttackBehindAnotherCommand(t *testing.T) {
	inTurn(t, objects, inScripts)
	find(t, python, "-c", "pass")
	t.Run("a module of the tree", func(t *testing.T) {
		tree := write(t, map[string]string{
			"calc.py": "def add(a, b):\n    return a - b\n", "checks/__init__.py": "", "checks/run.py": "import calc, sys\nsys.exit(calc.add(2, 3) != 5)\n", "checks/all/__main__.py": "import calc, sys\nsys.exit(calc.add(2, 3) != 5)\n",
		})
		for _, module := range sample([]string{"checks.run", "checks.all"}, 1) {
			attacks(t, verify.Config{Command: []string{python, "-m", module}}, tree, []attack{
				{"overwrite the module of -m " + module, "scripts", file("checks/run.py", "pass") + file("checks/all/__main__.py", "pass"), ""},
				{"end in its package", "scripts", file("checks/__init__.py", "raise SystemExit(0)"), ""},
			})
		}
	})
	t.Run("parts of configurations", func(t *testing.T) {
		find(t, "npm", "--version")
		mocha := "for (const file of JSON.parse(require('fs').readFileSync('.mocharc.json')).require) require(require('path').resolve(file));\nrequire('../../test/a.js');\n"
		tree := write(t, map[string]string{
			"package.json": `{"scripts": {"test": "node node_modules/mocha/run.js"}, "exports": {"import": "./calc.js", "require": "./calc.js"}, "jest": {"setupFiles": ["<rootDir>/support/globals"]}}`, ".mocharc.json": `{"require": ["./support/hooks.js"]}`, "node_modules/mocha/run.js": mocha,
			"support/hooks.js": "global.same = (a, b) => { if (a !== b) process.exit(1); };\n", "support/globals.js": "", "calc.js": "exports.add = (a, b) => a - b;\n", "test/a.js": "same(require('../calc').add(2, 3), 5);\n",
			"vitest.config.ts": "export default { test: { setupFiles: ['./support/globals.js'] } }\n",
		})
		config := verify.Config{Command: []string{"npm", "test", "--silent"}}
		if right := judge(t, open(t, config), &sdk.Query{WorkDir: tree}, file("calc.js", "exports.add = (a, b) => a + b;")); right.Outcome != sdk.Passed {
			t.Fatalf("the right answer: %s", right.Evidence)
		}
		attacks(t, config, tree, []attack{
			{"overwrite what a configuration loads", "node", file("support/hooks.js", "global.same = () => {};"), ""},
		})
	})
	t.Run("cargo in a script", func(t *testing.T) {
		onlyInCI(t) // as the other attacks in Rust
		find(t, "rustc", "--version")
		out, err := exec.Command("rustc", "--print", "sysroot").Output()
		if err != nil {
			t.Fatal(err)
		}
		rust := strings.TrimSpace(string(out))
		config := verify.Config{Command: []string{"sh", "-c", "RUSTC=" + rust + "/bin/rustc " + rust + "/bin/cargo test --offline --target-dir /tmp/target"}, ReadOnly: []string{rust}}
		tree := write(t, map[string]string{
			"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a - b }\n\n#[cfg(test)]\nmod checks {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(2, 3), 5);\n    }\n}\n",
		})
		attacks(t, config, tree, []attack{
			{"mend the test beside the code, in a script", "rust", file("src/lib.rs", "pub fn add(_: i32, _: i32) -> i32 { 0 }\n"), ""},
			{"assertions of its own, in a script", "rust", file("src/lib.rs", "macro_rules! assert_eq { ($($x:tt)*) => {} }\npub fn add(_: i32, _: i32) -> i32 { 0 }\n"), ""},
		})
	})
}
