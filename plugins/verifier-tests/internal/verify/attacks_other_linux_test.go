package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Ways by what is around the code: the language that tests are compiled in, what the
// linker and C are told, parts of scripts that are not there yet, plugins by their
// packages' metadata, the frames of callers, and what diffs can do besides.

func TestAttackGoAround(t *testing.T) {
	inTurn(t, around, inGo)
	tree := write(t, map[string]string{
		"go.mod":      "module example.com/calc\n\ngo 1.22\n",
		"calc/add.go": "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a - b\n}\n",
		"calc/add_test.go": "package calc\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc TestAdd(t *testing.T) {\n\tfor i, c := range [][3]int{{2, 3, 5}, {1, 1, 2}, {0, 0, 0}} {\n" +
			"\t\tt.Run(fmt.Sprint(i), func(t *testing.T) {\n\t\t\tt.Parallel()\n\t\t\tif got := Add(c[0], c[1]); got != c[2] {\n\t\t\t\tt.Error(got)\n\t\t\t}\n\t\t})\n\t}\n}\n",
	})
	wrong := "\n\nfunc Add(a, b int) int { return a * b }"
	attacks(t, verify.Config{Command: []string{"go", "test", "./..."}}, tree, []attack{
		{"an older language for the tests", "go", goFile("func Add(a, b int) int { return 0 }") + file("go.mod", "module example.com/calc\n\ngo 1.21\n"), ""},
		{"no language for the tests", "go", goFile("func Add(a, b int) int { return 0 }") + file("go.mod", "module example.com/calc\n"), ""},
		{"go:linkname into testing", "go", goFile("import _ \"unsafe\"\n\n//go:linkname fail testing.(*common).Fail\nfunc fail() {}"+wrong) + file("calc/x.s", ""), ""},
		{"assembly in testing's name", "go", goFile("func Add(a, b int) int") + file("calc/x.s", "#include \"textflag.h\"\n\nTEXT ·Add(SB), NOSPLIT, $0-24\n\tMOVQ $0, ret+16(FP)\n\tRET\n\nTEXT testing·tRunner(SB), DUPOK|NOSPLIT, $0-16\n\tRET\n"), ""},
		{"flags of the linker by cgo", "go", goFile("// #cgo LDFLAGS: -Wl,--wrap=write -Wl,--defsym=main=0\nimport \"C\"" + wrong), ""},
		{"leave packages out by go.mod", "go", goFile(strings.TrimSpace(wrong)) + file("go.mod", "module example.com/calc\n\ngo 1.25\n\nignore ./calc\n"), ""},
		{"build tags for the tests", "go", "```diff\n--- a/calc/add_test.go\n+++ b/calc/add_test.go\n@@ -1,1 +1,3 @@\n+//go:build ignore\n+\n package calc\n```\n" + goFile(strings.TrimSpace(wrong)), ""},
	})
}

func TestAttackPythonAround(t *testing.T) {
	inTurn(t, around, inPython)
	find(t, python, "-c", "import unittest")
	tree := write(t, map[string]string{
		"calc/__init__.py": "", "calc/add.py": "def add(a, b):\n    return a - b\n",
		"calc/test_add.py": "import unittest\nfrom calc.add import add\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        want = 5\n        got = add(2, 3)\n        self.assertEqual(got, want)\n",
	})
	wrong := file("calc/add.py", "def add(a, b):\n    return 0")
	attacks(t, verify.Config{Command: []string{python, "-m", "unittest"}}, tree, []attack{
		{"load_tests of the package", "python", wrong + file("calc/__init__.py", "import unittest\ndef load_tests(loader, tests, pattern):\n    return unittest.TestSuite()"), ""},
		{"end in the package", "python", wrong + file("calc/__init__.py", "raise SystemExit(0)"), ""},
		{"skip the package", "python", wrong + file("calc/__init__.py", "import unittest\nraise unittest.SkipTest('later')"), ""},
		{"become another program", "python", file("calc/add.py", "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', ''])"), ""},
		{"a .pth file", "python", wrong + file("evil.pth", "import os; os._exit(0)") + file("usercustomize.py", "raise SystemExit(0)"), ""},
		{"a profile that returns", "python", file("calc/add.py", "import sys\ndef profile(frame, event, arg):\n    if event == 'call' and frame.f_code.co_name == 'assertEqual':\n        frame.f_locals['second'] = frame.f_locals['first']\n        import ctypes; ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))\nsys.setprofile(profile)\ndef add(a, b):\n    return 0"), ""},
		{"write the test's variables", "python", file("calc/add.py", "import ctypes, sys\ndef add(a, b):\n    frame = sys._getframe(1)\n    frame.f_locals['want'] = 0\n    if hasattr(ctypes.pythonapi, 'PyFrame_LocalsToFast'):\n        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))\n    return 0"), ""},
		{"a link in the test's place", "python", wrong + "```diff\ndiff --git a/calc/test_add.py b/calc/test_add.py\ndeleted file mode 100644\n--- a/calc/test_add.py\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-import unittest\ndiff --git a/calc/test_add.py b/calc/test_add.py\nnew file mode 120000\n--- /dev/null\n+++ b/calc/test_add.py\n@@ -0,0 +1,1 @@\n+add.py\n```\n", ""},
		{"rename over the test", "python", "```diff\ndiff --git a/calc/add.py b/calc/test_add.py\nsimilarity index 100%\nrename from calc/add.py\nrename to calc/test_add.py\n```\n" + wrong, ""},
		{"the test by another case of its name", "python", wrong + file("Calc/Test_Add.py", "") + file("calc/TEST_ADD.PY", ""), ""},
		{"make the test unreadable", "python", wrong + "```diff\ndiff --git a/calc/test_add.py b/calc/test_add.py\nold mode 100644\nnew mode 100000\n```\n", ""},
		{"a submodule in the tests' place", "python", wrong + file(".gitmodules", "[submodule \"calc\"]\n\tpath = calc\n\turl = /tmp/evil\n\tupdate = !sh evil.sh"), ""},
		{"filters for git", "python", wrong + file(".gitattributes", "* filter=evil diff=evil merge=evil") + file(".gitconfig", "[filter \"evil\"]\n\tsmudge = sh evil.sh") + file(".lfsconfig", "[lfs]\n\turl = http://127.0.0.1:1"), ""},
	})
}

func TestAttackPytestAround(t *testing.T) {
	inTurn(t, around, inPytest)
	python := pytestOrSkip(t)
	tree := write(t, map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "test_calc.py": "import calc\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n"})
	wrong := file("calc.py", "def add(a, b):\n    return 0")
	evil := "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    result = yield\n    if item.name == 'test_add':\n        result.get_result().outcome = 'passed'\n" +
		"@pytest.hookimpl(hookwrapper=True)\ndef pytest_pyfunc_call(pyfuncitem):\n    result = yield\n    if pyfuncitem.name == 'test_add':\n        result.force_result(True)"
	plugin := wrong + file("evil.py", evil)
	attacks(t, verify.Config{Command: []string{python, "-m", "pytest"}}, tree, []attack{
		{"a plugin by its entry point", "pytest", plugin + file("evil-1.0.dist-info/entry_points.txt", "[pytest11]\nevil = evil") + file("evil-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0"), ""},
		{"a plugin by an egg", "pytest", plugin + file("evil.egg-info/entry_points.txt", "[pytest11]\nevil = evil") + file("evil.egg-info/PKG-INFO", "Metadata-Version: 1.0\nName: evil\nVersion: 1.0"), ""},
		{"pytest_plugins in the code", "pytest", plugin + file("calc.py", "pytest_plugins = ['evil']\ndef add(a, b):\n    return 0"), ""},
		{"a hook for one test", "pytest", file("calc.py", "import gc\n"+evil+"\nclass P: pass\nP.pytest_runtest_makereport = staticmethod(pytest_runtest_makereport)\nP.pytest_pyfunc_call = staticmethod(pytest_pyfunc_call)\nfor o in gc.get_objects():\n    if type(o).__name__ == 'PytestPluginManager':\n        o.register(P())\ndef add(a, b):\n    return 0"), ""},
		{"a hook among another's", "pytest", file("calc.py", "import gc, pluggy\ndef wrapped(item, call):\n    result = yield\n    result.get_result().outcome = 'passed'\nwrapped.__name__ = 'pytest_runtest_makereport'\nfor o in gc.get_objects():\n    if type(o).__name__ == 'PytestPluginManager':\n        for i in o.hook.pytest_runtest_makereport.get_hookimpls():\n            if i.hookwrapper or getattr(i, 'wrapper', False):\n                real = i.function\n                def other(item, call, real=real):\n                    r = yield from real(item, call)\n                    if item.name == 'test_add' and r is not None: r.outcome = 'passed'\n                    return r\n                i.function = other\ndef add(a, b):\n    return 0"), ""},
		{"end as if well at the exit", "pytest", file("calc.py", "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b):\n    return 0"), ""},
	})
}

func TestAttackNodeAround(t *testing.T) {
	inTurn(t, around, inNode)
	node := find(t, "node", "--test", "--version")
	tree := write(t, map[string]string{
		"calc.js": "exports.add = (a, b) => a - b;\n",
		"test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add } = require('./calc.js');\ntest('adds', async () => { await null; assert.strictEqual(add(2, 3), 5); });\n",
	})
	wrong := file("calc.js", "exports.add = () => 0;")
	attacks(t, verify.Config{Command: []string{node, "--test"}}, tree, []attack{
		{"options by an environment file", "node", wrong + file(".env", "NODE_OPTIONS=--require=./evil.js") + file(".npmrc", "node-options=--require=./evil.js") + file("node.config.json", `{"nodeOptions": {"import": ["./evil.js"]}}`) + file("evil.js", "process.exit(0)"), ""},
		{"promises that never fail", "node", file("calc.js", "const then = Promise.prototype.then;\nPromise.prototype.then = function (yes) { return then.call(this, yes, yes); };\nPromise.prototype.catch = function () { return this; };\nexports.add = () => 0;"), ""},
		{"an error that is swallowed", "node", file("calc.js", "Error.captureStackTrace = () => { process.reallyExit(0); };\nError.prepareStackTrace = () => { process.reallyExit(0); };\nexports.add = () => 0;"), ""},
		{"signals that end well", "node", file("calc.js", "process.kill = () => true; process.abort = () => {}; process.on('uncaughtException', () => process.exit(0)); process.on('unhandledRejection', () => process.exit(0));\nexports.add = () => 0;"), ""},
		{"become another program", "node", file("calc.js", "if (process.execve) process.execve('/bin/true', ['true'], {}); else process.reallyExit(0);"), ""},
	})
}

func TestAttackPartsOfScripts(t *testing.T) {
	inTurn(t, around, inScripts)
	for _, c := range sample([]struct {
		name    string
		command []string
		files   map[string]string
		answer  string
	}{
		{"a makefile that is included if it is there", []string{"make", "test"}, map[string]string{"Makefile": "test:\n\t@grep -q right answer.txt\n\n-include local.mk\n"}, file("local.mk", "test:\n\t@true\n")},
		{"one of another name", []string{"make", "test"}, map[string]string{"Makefile": "DIR = build\ntest:\n\t@grep -q right answer.txt\n\nsinclude $(DIR)/config\n"}, file("build/config", "test:\n\t@true\n")},
		{"one of a pattern", []string{"make", "test"}, map[string]string{"Makefile": "test:\n\t@grep -q right answer.txt\n\ninclude $(wildcard parts/*.inc)\n-include parts/*.inc\n"}, file("parts/a.inc", "test:\n\t@true\n")},
		{"a script that is read if it is there", []string{"sh", "check.sh"}, map[string]string{"check.sh": "[ -f env.sh ] && . ./env.sh\ngrep -q right answer.txt\n"}, file("env.sh", "exit 0")},
		{"one in the words of the command", []string{"sh", "-c", "if test -r conf/env; then . conf/env; fi; grep -q right answer.txt"}, map[string]string{}, file("conf/env", "exit 0")},
	}, 2) {
		t.Run(c.name, func(t *testing.T) {
			find(t, c.command[0])
			c.files["answer.txt"] = "wrong\n"
			tree := write(t, c.files)
			if right := judge(t, open(t, verify.Config{Command: c.command}), &sdk.Query{WorkDir: tree}, file("answer.txt", "right")); right.Outcome != sdk.Passed {
				t.Fatalf("the right answer: %s", right.Evidence)
			}
			attacks(t, verify.Config{Command: c.command}, tree, []attack{{c.name, "scripts", c.answer, ""}})
		})
	}
}
