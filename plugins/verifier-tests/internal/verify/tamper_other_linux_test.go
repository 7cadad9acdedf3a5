package verify_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// pyForger writes what a run would that passes all tests, where the run would.
const pyForger = "```python path=calc.py\n" + `import glob, json, os, sys

def forge():
    for dir in glob.glob(".stepfall-*"):
        with open(dir + "/report", "w") as f:
            if "pytest" in sys.modules:
                f.write('<testsuites><testsuite><testcase classname="test_calc.TestCalc" name="test_add"/><testcase classname="test_calc.TestCalc" name="test_zero"/></testsuite></testsuites>')
            else:
                json.dump([{"Group": "test_calc.TestCalc", "Name": name, "Status": "pass"} for name in ("test_add", "test_zero")], f)
        for file in glob.glob(dir + "/*.py"):
            exec(open(file).read())
    sys.stderr.write("test_add (test_calc.TestCalc) ... ok\ntest_zero (test_calc.TestCalc) ... ok\n\nRan 2 tests\n\nOK\n")
    os._exit(0)

forge()
` + "```\n"

func pytestOrSkip(t *testing.T) string {
	t.Helper()
	program := pythonWithPytest()
	if program == "" {
		t.Skip("no pytest here")
	}
	return program
}

// pythonWithPytest is the program itself where a version manager has a script in its place,
// as the plugin has it; "" where there is none.
var pythonWithPytest = sync.OnceValue(func() string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if program, err := jail.Program(context.Background(), name); err == nil && works(program, "-m", "pytest", "--version") {
			return program
		}
	}
	return ""
})

func TestPythonTampering(t *testing.T) {
	long(t)
	for _, framework := range []string{"unittest", "pytest"} {
		python := find(t, "/usr/bin/python3", "-c", "import unittest")
		if framework == "pytest" {
			python = pytestOrSkip(t)
		}
		v := open(t, verify.Config{Command: []string{python, "-m", framework}, Reruns: -1})
		query := &sdk.Query{WorkDir: write(t, pyTree)}
		for _, test := range sample([]struct {
			name, answer string
			want         sdk.Outcome
			says         string
		}{
			{"ends the process", strings.Replace(pyRight, "return a + b", "import os; os._exit(0)", 1), sdk.Failed, "tampering"},
			{"forges the report", pyForger, sdk.Failed, "tampering"},
			{"brings its own framework", "```python path=unittest.py\nraise SystemExit(0)\n```\n```python path=pytest.py\nraise SystemExit(0)\n```\n", sdk.Inconclusive, "left out"},
			{"changes the report in the end", "```python path=calc.py\nimport atexit, glob\ndef forge():\n    for f in glob.glob('.stepfall-*/report'):\n        open(f, 'a').write(' ')\natexit.register(forge)\ndef add(a, b):\n    return a + b\n```\n", sdk.Failed, "tampering"},
			{"brings hooks", "```python path=conftest.py\nimport pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    out = yield\n    out.get_result().outcome = 'passed'\n```\n", sdk.Inconclusive, "left out"},
			{"brings options", "```toml path=pyproject.toml\n[tool.pytest.ini_options]\naddopts = \"--deselect test_calc.py::TestCalc::test_add\"\n```\n", sdk.Inconclusive, "left out"},
			{"wrong", strings.Replace(pyRight, "a + b", "a * b", 1), sdk.Failed, "test_add failed"},
			{"right", pyRight, sdk.Passed, "2 of 2"},
			{"does not parse", "```python path=calc.py\ndef add(a, b:\n```\n", sdk.Failed, "SyntaxError"},
		}, 3) {
			t.Run(framework+"/"+test.name, func(t *testing.T) {
				if verdict := judge(t, v, query, test.answer); verdict.Outcome != test.want || !strings.Contains(verdict.Evidence, test.says) {
					t.Errorf("outcome %s, want %s with %q", verdict.Outcome, test.want, test.says)
				}
			})
		}
	}
}

func TestScriptsAreGuarded(t *testing.T) {
	long(t)
	node, npm := find(t, "node", "--test", "--version"), find(t, "npm", "--version")
	files := map[string]string{
		"package.json": `{"name": "calc", "scripts": {"test": "node check.js"}}`,
		"check.js":     "process.exit(require('./calc.js').add(2, 3) === 5 ? 0 : 1);\n",
		"calc.js":      "exports.add = (a, b) => a - b;\n",
		"Makefile":     "test:\n\t" + node + " check.js\n",
	}
	right := "```js path=calc.js\nexports.add = (a, b) => a + b;\n```\n"
	for _, command := range sample([][]string{{"make", "test"}, {npm, "test"}}, 1) {
		find(t, command[0])
		v := open(t, verify.Config{Command: command, Protect: []string{"check.js"}})
		query := &sdk.Query{WorkDir: write(t, files)}
		if verdict := judge(t, v, query, right); verdict.Outcome != sdk.Passed {
			t.Errorf("%s: the right answer", command[0])
		}
		for _, answer := range []string{
			"```json path=package.json\n{\"name\": \"calc\", \"scripts\": {\"test\": \"true\"}}\n```\n```make path=Makefile\ntest:\n\ttrue\n```\n",
			"```text path=.npmrc\nscript-shell=/bin/true\n```\n```make path=GNUmakefile\ntest:\n\ttrue\n```\n",
			"```js path=check.js\nprocess.exit(0);\n```\n",
		} {
			if verdict := judge(t, v, query, answer); verdict.Outcome == sdk.Passed || !strings.Contains(verdict.Evidence, "left out") {
				t.Errorf("%s: %s", command[0], verdict.Outcome)
			}
		}
	}
}

func TestNodeTampering(t *testing.T) {
	long(t)
	node := find(t, "node", "--test", "--version")
	v := open(t, verify.Config{Command: []string{node, "--test"}, Reruns: -1})
	query := &sdk.Query{WorkDir: write(t, map[string]string{
		"calc.js":      "exports.add = (a, b) => a - b;\n",
		"calc.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('./calc.js');\ntest('adds', () => assert.strictEqual(add(2, 3), 5));\n",
	})}
	forge := `const fs = require('fs'); for (const d of fs.readdirSync('.')) if (d.startsWith('.stepfall-')) fs.writeFileSync(d + '/report', JSON.stringify([{Group: 'calc.test.js', Name: 'adds', Status: 'pass'}]));`
	for name, body := range sampleOf(map[string]string{
		"ends the process":   "process.exit(0);",
		"kills the command":  "process.kill(process.ppid, 'SIGKILL');",
		"writes the report":  forge + "process.exit(0);",
		"forges and kills":   forge + "process.kill(process.ppid, 'SIGKILL');",
		"removes the report": "const fs = require('fs'); for (const d of fs.readdirSync('.')) if (d.startsWith('.stepfall-')) fs.rmSync(d, {recursive: true}); process.exit(0);",
	}, 2) {
		t.Run(name, func(t *testing.T) {
			if verdict := judge(t, v, query, "```js path=calc.js\n"+body+"\n```\n"); verdict.Outcome != sdk.Failed {
				t.Errorf("outcome %s", verdict.Outcome)
			}
		})
	}
}

// TestCargoKeepsWhatItCompiled: from the untouched tree, and nothing from an answer.
func TestCargoKeepsWhatItCompiled(t *testing.T) {
	onlyInCI(t) // TestCargo compiles the same
	cargo := find(t, "cargo", "--version")
	state := t.TempDir()
	v := open(t, verify.Config{Command: []string{cargo, "test"}, CacheDir: state})
	query := &sdk.Query{WorkDir: write(t, map[string]string{
		"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a - b }\n",
		"tests/t.rs": "#[test]\nfn adds() { assert_eq!(calc::add(2, 3), 5); }\n",
	})}
	right := "```rust path=src/lib.rs\npub fn add(a: i32, b: i32) -> i32 { a + b }\n```\n"
	for wrong, want := range map[string]sdk.Outcome{
		"```rust path=tests/t.rs\n#[test]\nfn adds() {}\n```\n":                            sdk.Failed,
		"```toml path=.cargo/config.toml\n[target.'cfg(all())']\nrunner = \"true\"\n```\n": sdk.Inconclusive, // it touches what decides
	} {
		if verdict := judge(t, v, query, wrong); verdict.Outcome != want || !strings.Contains(verdict.Evidence, "left out") {
			t.Errorf("%s, want %s", verdict.Outcome, want)
		}
	}
	before := kept(t, state)
	if before == 0 {
		t.Error("nothing was kept of the pre-flight")
	}
	if verdict := judge(t, v, query, right); verdict.Outcome != sdk.Passed {
		t.Error("the right answer")
	}
	if after := kept(t, state); after != before {
		t.Errorf("%d files were kept before, %d after an answer", before, after)
	}
}

func kept(t *testing.T, state string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join(state, "cargo"), func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
