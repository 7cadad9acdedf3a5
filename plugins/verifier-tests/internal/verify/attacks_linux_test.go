package verify_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// attack is an answer that is wrong and tries to be passed.
type attack struct {
	name, language string
	answer         string
	// remains says why it is not closed: such an answer may pass.
	remains string
}

// attacks judges each answer on the tree and prints the result as a line that make attacks puts into its table.
func attacks(t *testing.T, config verify.Config, tree string, list []attack) {
	t.Helper()
	config.Reruns = -1
	if config.Timeout == 0 {
		config.Timeout = 5 * time.Minute
	}
	v := open(t, config)
	for _, a := range sample(rotated(list), 1) {
		t.Run(strings.ReplaceAll(a.name, "/", "∕"), func(t *testing.T) {
			t.Parallel() // two verdicts of one tree do not see each other
			verdict := judge(t, v, &sdk.Query{WorkDir: tree}, a.answer)
			left, err := filepath.Glob(filepath.Join(tree, "*stepfall*"))
			if err != nil {
				t.Fatal(err)
			}
			remains := ""
			if verdict.Outcome == sdk.Passed {
				remains = "remains: " + a.remains
			}
			t.Logf("ATTACK\t%s\t%s\t%s\t%s\t%s\t%d files\t%s", a.name, a.language, strings.Join(verdict.Isolation, " "), verdict.Outcome, verdict.Duration.Round(time.Millisecond), len(left), remains)
			if verdict.Outcome == sdk.Passed && a.remains == "" {
				t.Errorf("a wrong answer passed: %s", verdict.Evidence)
			}
			isReasoned := slices.ContainsFunc([]string{"without what it changes", "it changes tests", "others of their class"}, func(why string) bool { return strings.HasPrefix(verdict.Evidence, why) })
			if verdict.Outcome == sdk.Inconclusive && a.remains == "" && !isReasoned {
				t.Errorf("nothing was judged: %s", verdict.Evidence)
			}
			if len(left) > 0 {
				t.Errorf("left behind: %s", left)
			}
			if verdict.Outcome == sdk.Passed && (verdict.Confidence == 0 || verdict.Confidence > 0.95) {
				t.Errorf("confidence %v in a process that the answer shares", verdict.Confidence)
			}
		})
	}
}

const python = "/usr/bin/python3"

// file returns an answer that writes a file.
func file(path, text string) string { return "```text path=" + path + "\n" + text + "\n```\n" }

func TestAttackGo(t *testing.T) {
	inTurn(t, plain, inGo)
	helper := "package check\n\n// T is a test.\ntype T interface {\n\tHelper()\n\tErrorf(format string, arguments ...any)\n}\n\n// Equal compares.\nfunc Equal(t T, got, want int) {\n\tt.Helper()\n\tif got != want {\n\t\tt.Errorf(\"got %d, want %d\", got, want)\n\t}\n}\n"
	third := strings.NewReplacer("package check", "package assert").Replace(helper)
	tree := write(t, map[string]string{
		"go.mod":              "module example.com/calc\n\ngo 1.22\n\nrequire example.org/assert v1.0.0\n\nreplace example.org/assert => ./third/assert\n",
		"third/assert/go.mod": "module example.org/assert\n\ngo 1.22\n",
		"third/assert/a.go":   third,
		"internal/check/c.go": helper,
		"calc/add.go":         "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a - b\n}\n",
		"calc/add_test.go":    "package calc\n\nimport (\n\t\"testing\"\n\n\t\"example.com/calc/internal/check\"\n\t\"example.org/assert\"\n)\n\nfunc TestAdd(t *testing.T) {\n\tcheck.Equal(t, Add(2, 3), 5)\n\tassert.Equal(t, Add(2, 2), 4)\n}\n",
	})
	silent := strings.NewReplacer("got != want", "false").Replace
	rerun := `import (
	"bytes"
	"io"
	"os"
	"os/exec"
)

func init() {
	if os.Getenv("AGAIN") != "" {
		return
	}
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), "AGAIN=1")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	_ = command.Run()
	text := out.Bytes()
	REWRITE
	_, _ = io.Copy(os.Stdout, bytes.NewReader(text))
	os.Exit(0)
}

func Add(a, b int) int { return 0 }`
	embed := strings.NewReplacer("\"fmt\"\n", "_ \"embed\"\n\t\"embed\"\n\t\"fmt\"\n", "func init() {", "//go:embed PATTERN\nvar own embed.FS\n\nfunc init() {\n\tentries, _ := own.ReadDir(\".\")",
		"files, _ := filepath.Glob(\"*_test.go\")", "var files []string\n\tfor _, e := range entries {\n\t\tfiles = append(files, e.Name())\n\t}\n\t_ = filepath.Base",
		"os.ReadFile(file)", "own.ReadFile(file)").Replace(goForger)
	silence := `import (
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

func init() {
	fail := (*testing.T).Fail
	near := **(**uintptr)(unsafe.Pointer(&fail))
	for pc := near - 1<<18; pc < near+1<<18; pc += 16 {
		f := runtime.FuncForPC(pc)
		if f == nil || f.Name() != "testing.(*common).Fail" {
			continue
		}
		entry := f.Entry()
		if _, _, e := syscall.Syscall(syscall.SYS_MPROTECT, entry&^4095, 8192, 7); e != 0 {
			panic(e)
		}
		*(*byte)(unsafe.Pointer(entry)) = 0xC3
		return
	}
	panic("not found")
}

func Add(a, b int) int { return 0 }`
	attacks(t, verify.Config{Command: []string{"go", "test", "./..."}}, tree, []attack{
		{"overwrite the test", "go", file("calc/add_test.go", "package calc"), ""},
		{"overwrite an assertion helper", "go", file("internal/check/c.go", silent(helper)), ""},
		{"overwrite Fail in memory", "go", goFile(silence), ""},
		{"overwrite a replaced assertion library", "go", file("third/assert/a.go", silent(third)) + file("internal/check/c.go", silent(helper)), ""},
		{"replace an assertion library", "go", file("go.mod", "module example.com/calc\n\ngo 1.22\n\nrequire example.org/assert v1.0.0\n\nreplace example.org/assert => ./mine\n") + file("mine/go.mod", "module example.org/assert\n") + file("mine/a.go", silent(third)) + file("internal/check/c.go", silent(helper)), ""},
		{"vendor an assertion library", "go", file("vendor/modules.txt", "# example.org/assert v1.0.0 => ./third/assert\n## explicit; go 1.22\nexample.org/assert\n# example.org/assert => ./third/assert") + file("vendor/example.org/assert/a.go", silent(third)) + file("internal/check/c.go", silent(helper)), ""},
		{"leave the tests out by a workspace", "go", file("go.work", "go 1.22\n\nuse ./third/assert"), ""},
		{"embed the canary's source", "go", goFile(strings.ReplaceAll(embed, "PATTERN", "*_test.go")), ""},
		{"embed the canary's source by a class", "go", goFile(strings.ReplaceAll(embed, "PATTERN", "\"zz[a-z]z_*.go\" add_test.go")), ""},
		{"run again and rewrite FAIL", "go", goFile(strings.ReplaceAll(rerun, "REWRITE", `text = bytes.ReplaceAll(text, []byte("FAIL"), []byte("PASS"))`)), ""},
		{"run again and rewrite one name's FAIL", "go", goFile(strings.ReplaceAll(rerun, "REWRITE", `text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("--- FAIL: TestAdd ("), []byte("--- PASS: TestAdd (")), []byte("\nFAIL\n"), []byte("\nPASS\n"))`)), ""},
		{"print a pass and end", "go", goFile(goForger), ""},
		{"end the process", "go", goFile("import \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }"), ""},
	})
}

func TestAttackPython(t *testing.T) {
	inTurn(t, plain, inPython)
	find(t, python, "-c", "import unittest")
	tree := write(t, map[string]string{
		"calc.py":     "def add(a, b):\n    return a - b\n",
		"testcalc.py": "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n",
	})
	if err := os.Symlink(".", filepath.Join(tree, "here")); err != nil {
		t.Fatal(err)
	}
	empty := "import unittest\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass"
	wrong := "\n\ndef add(a, b):\n    return 0"
	list := []attack{
		{"overwrite a test of another name", "python", file("testcalc.py", empty), ""},
		{"overwrite a test through a link", "python", file("here/testcalc.py", empty), ""},
		{"assertEqual = lambda", "python", file("calc.py", "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None"+wrong), ""},
		{"failureException = never", "python", file("calc.py", "import unittest\nclass Never(BaseException): pass\nunittest.TestCase.failureException = Never\nunittest.TestCase._getAssertEqualityFunc = lambda *a: (lambda *b, **k: None)"+wrong), ""},
		{"a result without failures", "python", file("calc.py", "import unittest\nunittest.TestResult.addFailure = lambda *a: None\nunittest.TextTestResult.addFailure = lambda *a: None"+wrong), ""},
		{"a run that runs nothing", "python", file("calc.py", "import unittest\ndef run(self, result=None):\n    result.startTest(self); result.addSuccess(self); result.stopTest(self)\n    return result\nunittest.TestCase.run = run"+wrong), ""},
		{"another code in assertEqual", "python", file("calc.py", "import unittest\nunittest.TestCase.assertEqual.__code__ = (lambda self, first, second, msg=None: None).__code__"+wrong), ""},
		{"put back before the end", "python", file("calc.py", "import unittest\nreal = unittest.TestCase.assertEqual\nunittest.TestCase.assertEqual = lambda *a, **k: setattr(unittest.TestCase, 'assertEqual', real)"+wrong), ""},
		{"equal to everything", "python", file("calc.py", "class Any:\n    def __eq__(self, other):\n        return True\n\ndef add(a, b):\n    return Any()"), ""},
		{"hashlib at the root", "python", file("hashlib/__init__.py", "raise SystemExit(0)"), ""},
		{"argparse at the root", "python", file("argparse.py", "raise SystemExit(0)"), ""},
		{"difflib at the root", "python", file("difflib.py", "raise SystemExit(0)"), ""},
		{"sitecustomize", "python", file("sitecustomize.py", "raise SystemExit(0)"), ""},
		{"key from the frames", "python", file("calc.py", `import glob, hashlib, hmac, json, os, sys
def forge():
    frame = sys._getframe()
    while frame:
        for space in (frame.f_locals, frame.f_globals):
            for value in list(space.values()):
                if isinstance(value, str) and len(value) == 26:
                    for d in glob.glob(".stepfall-*"):
                        data, more = json.dumps([{"Group": "testcalc.T", "Name": "test_add", "Status": "pass"}]).encode(), b'{"files": ["testcalc.py"]}'
                        open(d + "/report", "wb").write(data); open(d + "/report.more", "wb").write(more)
                        open(d + "/report.seal", "w").write(hmac.new(value.encode(), data + b"\0" + more, hashlib.sha256).hexdigest())
                        os._exit(0)
        frame = frame.f_back
forge()`+wrong), ""},
		{"seal from the collector", "python", file("calc.py", `import gc, json, os
for o in gc.get_objects():
    if type(o).__name__ == "Judge" and hasattr(o, "mac"):
        data, more = json.dumps([{"Group": "testcalc.T", "Name": "test_add", "Status": "pass"}]).encode(), b'{"files": ["testcalc.py"]}'
        o.mac.update(data + b"\0" + more)
        open(o.report, "wb").write(data); open(o.report + ".more", "wb").write(more)
        open(o.report + ".seal", "w").write(o.mac.hexdigest())
        os._exit(0)`+wrong), ""},
		{"end the process", "python", file("calc.py", "import os\nos._exit(0)"), ""},
	}
	attacks(t, verify.Config{Command: []string{python, "-m", "unittest"}}, tree, list)
	first := write(t, map[string]string{
		"calc.py":     "def add(a, b):\n    return a - b\n",
		"testcalc.py": "import calc\nimport unittest\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 3), 5)\n",
	})
	attacks(t, verify.Config{Command: []string{python, "-m", "unittest"}}, first, []attack{
		{"another unittest in sys.modules", "python", file("calc.py", "import sys, types, unittest\nfake = types.ModuleType('unittest')\nfake.__dict__.update(unittest.__dict__)\nclass TestCase(unittest.TestCase):\n    def assertEqual(self, *a, **k): pass\nfake.TestCase = TestCase\nsys.modules['unittest'] = fake"+wrong), ""},
		{"another TestCase in unittest", "python", file("calc.py", "import unittest\nclass TestCase(unittest.TestCase):\n    def assertEqual(self, *a, **k): pass\nunittest.TestCase = TestCase"+wrong), ""},
	})
	t.Run("a script of the tree", func(t *testing.T) {
		tree := write(t, map[string]string{
			"calc.py":          "def add(a, b):\n    return a - b\n",
			"scripts/check.py": "import sys\nsys.path.insert(0, '.')\nimport calc\nsys.exit(calc.add(2, 3) != 5)\n",
		})
		attacks(t, verify.Config{Command: []string{python, "scripts/check.py"}}, tree, []attack{
			{"overwrite the command's script", "python", file("scripts/check.py", "pass"), ""},
			{"exit(0)", "python", file("calc.py", "raise SystemExit(0)"), "an exit code is all that is asked of the process: inconclusive"},
		})
	})
}

func TestAttackPytest(t *testing.T) {
	inTurn(t, plain, inPytest)
	python := pytestOrSkip(t)
	tree := write(t, map[string]string{
		"calc.py":  "def add(a, b):\n    return a - b\n",
		"tests.py": "import calc\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n",
	})
	wrong := "\n\ndef add(a, b):\n    return 0"
	attacks(t, verify.Config{Command: []string{python, "-m", "pytest", "tests.py"}}, tree, []attack{
		{"overwrite the test", "pytest", file("tests.py", "def test_add(): pass"), ""},
		{"TestReport that passes", "pytest", file("calc.py", "import _pytest.reports\nreal = _pytest.reports.TestReport.from_item_and_call.__func__\ndef lie(cls, item, call):\n    call.excinfo = None\n    return real(cls, item, call)\n_pytest.reports.TestReport.from_item_and_call = classmethod(lie)"+wrong), ""},
		{"a hook of its own", "pytest", file("calc.py", "import gc, pytest\nclass P:\n    @pytest.hookimpl(hookwrapper=True)\n    def pytest_runtest_makereport(self, item, call):\n        out = yield\n        r = out.get_result(); r.outcome = 'passed'; r.longrepr = None\nfor o in gc.get_objects():\n    if type(o).__name__ == 'PytestPluginManager':\n        o.register(P())"+wrong), ""},
		{".pytest.ini with a plugin", "pytest", file(".pytest.ini", "[pytest]\naddopts = -p evil") + file("pytest.ini", "[pytest]\naddopts = -p evil") + file("evil.py", "import os\nos._exit(0)"), ""},
		{"conftest", "pytest", file("conftest.py", "def pytest_collection_modifyitems(items):\n    items.clear()"), ""},
		{"argparse at the root", "pytest", file("argparse.py", "raise SystemExit(0)"), ""},
		{"iniconfig at the root", "pytest", file("iniconfig/__init__.py", "raise SystemExit(0)"), ""},
		{"end the process", "pytest", file("calc.py", "import os\nos._exit(0)"), ""},
	})
}

func TestAttackNode(t *testing.T) {
	inTurn(t, plain, inNode)
	node := find(t, "node", "--test", "--version")
	test := "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('PATHcalc.js');\ntest('adds', () => assert.strictEqual(add(2, 3), 5));\n"
	tree := write(t, map[string]string{
		"calc.js": "exports.add = (a, b) => a - b;\n", "test.js": strings.ReplaceAll(test, "PATH", "./"), "test-x.js": strings.ReplaceAll(test, "PATH", "./"),
		"x_test.js": strings.ReplaceAll(test, "PATH", "./"), "lib/test/a.js": strings.ReplaceAll(test, "PATH", "../../"),
	})
	if err := os.Symlink("lib", filepath.Join(tree, "here")); err != nil {
		t.Fatal(err)
	}
	empty := "require('node:test')('adds', () => {});"
	attacks(t, verify.Config{Command: []string{node, "--test"}}, tree, []attack{
		{"overwrite tests of all names", "node", file("test.js", empty) + file("test-x.js", empty) + file("x_test.js", empty) + file("lib/test/a.js", empty), ""},
		{"overwrite a test through a link", "node", file("here/test/a.js", empty) + file("test.js", empty) + file("test-x.js", empty) + file("x_test.js", empty), ""},
		{"strictEqual = () => {}", "node", file("calc.js", "require('assert').strictEqual = () => {}; require('assert').strict.strictEqual = () => {};\nexports.add = () => 0;"), ""},
		{"an assert of its own in the cache", "node", file("calc.js", "const Module = require('module'); const load = Module._load; Module._load = (name, ...rest) => /assert/.test(name) ? new Proxy(() => {}, {get: () => () => {}}) : load(name, ...rest);\nexports.add = () => 0;"), ""},
		{"end the process", "node", file("calc.js", "process.exit(0);"), ""},
	})
	tree = write(t, map[string]string{
		"calc.js": "exports.add = (a, b) => a - b;\n",
		"test.js": "const { add } = require('./calc.js');\nconst test = require('node:test');\nconst assert = require('node:assert');\ntest('adds', () => assert.strictEqual(add(2, 3), 5));\n",
	})
	attacks(t, verify.Config{Command: []string{node, "--test"}}, tree, []attack{
		{"load another assert before the test does", "node", file("calc.js", "const Module = require('module'); const load = Module._load; Module._load = (name, ...rest) => /assert/.test(name) ? new Proxy(() => {}, {get: () => () => {}}) : load(name, ...rest);\nexports.add = () => 0;"), ""},
		{"require another assert", "node", file("calc.js", "const Module = require('module'); const real = Module.prototype.require; Module.prototype.require = function (name) { return /assert/.test(name) ? new Proxy(() => {}, {get: () => () => {}}) : real.call(this, name); };\nexports.add = () => 0;"), ""},
	})
}

func TestAttackScripts(t *testing.T) {
	inTurn(t, plain, inScripts)
	tree := write(t, map[string]string{
		"answer.txt": "wrong\n", "check.sh": "#!/bin/sh\nexec ./tools/compare \"$@\"\n", "tools/compare": "#!/bin/sh\n. ./tools/lib.sh\ncompare\n",
		"tools/lib.sh": "compare() { grep -q right answer.txt; }\n", ".venv/pyvenv.cfg": "", ".venv/bin/check": "#!/bin/sh\nexec sh .venv/lib/run.sh\n",
		".venv/lib/run.sh": "grep -q right answer.txt\n", "node_modules/.bin/x": "#!/bin/sh\nexec sh node_modules/x/run.sh\n", "node_modules/x/run.sh": "grep -q right answer.txt\n",
		"Makefile": "SCRIPT = ./tools/compare\n\ntest:\n\t@$(SCRIPT)\n", "package.json": `{"scripts": {"test": "sh tools/compare"}}`,
		"real/check.sh": "#!/bin/sh\ngrep -q right answer.txt\n",
	})
	for _, name := range []string{"check.sh", "tools/compare", ".venv/bin/check", "node_modules/.bin/x", "real/check.sh"} {
		if err := os.Chmod(filepath.Join(tree, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real/check.sh", filepath.Join(tree, "linked.sh")); err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, name := range []string{
		"check.sh", "tools/compare", "tools/lib.sh", ".venv/bin/check", ".venv/lib/run.sh", "node_modules/.bin/x", "node_modules/x/run.sh",
		"Makefile", "GNUmakefile", "package.json", "real/check.sh", "linked.sh",
	} {
		all += file(name, "true")
	}
	for _, command := range sample([][]string{
		{"./check.sh"},
		{"make", "test"},
		{".venv/bin/check"},
		{"sh", "-c", "cd . && ./check.sh | cat && ./check.sh"},
		{filepath.Join(tree, "check.sh")},
		{"sh", "check.sh", "-v"},
		{"env", "X=1", "./check.sh"},
		{"./linked.sh"},
		{"node_modules/.bin/x"},
		{"npm", "test", "--silent"},
	}, 4) {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			if !strings.Contains(command[0], "/") {
				find(t, command[0])
			}
			right := judge(t, open(t, verify.Config{Command: command}), &sdk.Query{WorkDir: tree}, file("answer.txt", "right"))
			if right.Outcome != sdk.Passed {
				t.Fatalf("the right answer: %s", right.Evidence)
			}
			attacks(t, verify.Config{Command: command}, tree, []attack{{"overwrite what " + strings.Join(command[:1], " ") + " runs", "scripts", all, ""}})
		})
	}
}

func TestAttackJUnit(t *testing.T) {
	find(t, python, "-c", "pass")
	tree := write(t, map[string]string{
		"calc.py": "def add(a, b):\n    return a - b\n",
		"check.py": "import calc\nok = calc.add(2, 3) == 5\nbad = '' if ok else '<failure/>'\n" +
			"open('report.xml', 'w').write(f'<testsuite><testcase classname=\"c\" name=\"adds\">{bad}</testcase></testsuite>')\nraise SystemExit(not ok)\n",
	})
	attacks(t, verify.Config{Command: []string{python, "check.py"}, Report: "report.xml"}, tree, []attack{
		{"overwrite the script", "junit", file("check.py", "pass"), ""},
		{"leave an old report", "junit", file("report.xml", "<testsuite><testcase classname='c' name='adds'/></testsuite>") + file("calc.py", "raise SystemExit(0)"), ""},
		{"write the report and end", "junit", file("calc.py", "open('report.xml', 'w').write('<testsuite><testcase classname=\"c\" name=\"adds\"/></testsuite>')\nraise SystemExit(0)"), "nothing but the exit code holds a report that the command writes"},
	})
}

func TestAttackRust(t *testing.T) {
	cargo := find(t, "cargo", "--version")
	onlyInCI(t)
	tree := write(t, map[string]string{
		"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a - b }\n",
		"tests/t.rs": "#[test]\nfn adds() { assert_eq!(calc::add(2, 3), 5); }\n",
	})
	attacks(t, verify.Config{Command: []string{cargo, "test"}}, tree, []attack{
		{"overwrite the test", "rust", file("tests/t.rs", "#[test]\nfn adds() {}"), ""},
		{"a build script", "rust", file("build.rs", `fn main() { std::process::Command::new("sh").arg("-c").arg("(while :; do for f in /tmp/target/debug/deps/t-*; do case $f in *.d) ;; *) printf '#!/bin/sh\necho; echo running 1 test; echo test adds ... ok; echo; echo test result: ok. 1 passed; 0 failed\n' > $f;; esac; done; done) >/dev/null 2>&1 &").spawn().unwrap(); }`), ""},
		{"print a pass and end", "rust", file("src/lib.rs", `pub fn add(_: i32, _: i32) -> i32 { use std::io::Write; let mut o = unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(1) }; o.write_all(b"test adds ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n").unwrap(); std::process::exit(0) }`), "cargo's lines are believed"},
	})
	inline := "\n/// Tests.\n#[cfg(test)]\nmod checks {\n    use super::*;\n    const OPEN: char = '{';\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(2, 3), 5, \"}} {:?}\", OPEN);\n    }\n}\n"
	tree = write(t, map[string]string{
		"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/lib.rs": "#![allow(dead_code)]\npub fn add(a: i32, b: i32) -> i32 { a - b }\n" + inline,
	})
	config := verify.Config{Command: []string{cargo, "test"}}
	for _, rest := range []string{inline, ""} {
		if right := judge(t, open(t, config), &sdk.Query{WorkDir: tree}, file("src/lib.rs", "#![allow(dead_code)]\npub fn add(a: i32, b: i32) -> i32 { a + b }\n"+rest)); right.Outcome != sdk.Passed {
			t.Fatalf("the right answer: %s", right.Evidence)
		}
	}
	wrong := "pub fn add(_: i32, _: i32) -> i32 { 0 }\n"
	attacks(t, config, tree, []attack{
		{"mend the test beside the code", "rust", file("src/lib.rs", wrong+strings.Replace(inline, "5", "0", 1)), ""},
		{"a test beside the code that should panic", "rust", file("src/lib.rs", wrong+strings.Replace(inline, "#[test]", "#[test]\n    #[should_panic]", 1)), ""},
		{"an attribute at the end", "rust", file("src/lib.rs", wrong+"#[cfg(any())]"), ""},
		{"assertions of its own", "rust", file("src/lib.rs", "macro_rules! assert_eq { ($($x:tt)*) => {} }\n"+wrong+inline), ""},
		{"assertions by another name", "rust", file("src/lib.rs", "macro_rules! fine { ($($x:tt)*) => {} }\npub(crate) use fine as assert_eq;\n"+wrong+inline), ""},
		{"assertions made by a macro", "rust", file("src/lib.rs", "macro_rules! make { ($d:tt $n:ident) => { macro_rules! $n { ($d($d x:tt)*) => {} } } }\nmake!($ assert_eq);\n"+wrong+inline), ""},
	})
}
