package verify_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Ways round the judge that need no knowledge of it: tests that are skipped, left out
// or replaced by the code under test, and files that decide under names of their own.

func TestAttackGoLess(t *testing.T) {
	inTurn(t, less, inGo)
	tree := write(t, map[string]string{
		"go.mod":      "module example.com/calc\n\ngo 1.22\n",
		"calc/add.go": "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a - b\n}\n",
		"calc/add_test.go": "package calc\n\nimport (\n\t\"os\"\n\t\"strings\"\n\t\"testing\"\n)\n\nfunc TestAdd(t *testing.T) {\n\tfor name, want := range map[string]int{\"zero\": 0, \"five\": 5} {\n\t\tt.Run(name, func(t *testing.T) {\n\t\t\tif got := Add(want, 0); got != want {\n\t\t\t\tt.Error(got)\n\t\t\t}\n\t\t\tif got := Add(0, want); got != want {\n\t\t\t\tt.Error(got)\n\t\t\t}\n\t\t})\n\t}\n}\n" +
			"\nfunc TestGolden(t *testing.T) {\n\twant, err := os.ReadFile(\"golden/sum.txt\")\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tif Add(2, 3) == 5 != strings.HasPrefix(string(want), \"5\") {\n\t\tt.Error(Add(2, 3), string(want))\n\t}\n}\n\nfunc TestNothing(t *testing.T) {}\n",
		"calc/golden/sum.txt": "5\n",
	})
	wrong := "\n\nfunc Add(a, b int) int { return a * 1 }"
	overwrite := `import (
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

func init() {
	fail := (*testing.T).Fail
	near := **(**uintptr)(unsafe.Pointer(&fail))
	for pc := near - 1<<20; pc < near+1<<20; pc += 16 {
		f := runtime.FuncForPC(pc)
		if f == nil || f.Name() != "example.com/calc/calc.TestAdd.func1" && f.Name() != "example.com/calc/calc.TestGolden" {
			continue
		}
		entry := f.Entry()
		if _, _, e := syscall.Syscall(syscall.SYS_MPROTECT, entry&^4095, 8192, 7); e != 0 {
			panic(e)
		}
		*(*byte)(unsafe.Pointer(entry)) = 0xC3
	}
}`
	attacks(t, verify.Config{Command: []string{"go", "test", "./..."}}, tree, []attack{
		{"leave subtests out by a flag", "go", goFile("import \"os\"\n\nfunc init() { os.Args = append(os.Args, \"-test.skip=TestAdd/five\") }\n\nfunc Add(a, b int) int { return 0 }") + file("calc/golden/sum.txt", "0"), ""},
		{"leave subtests out by a pattern", "go", goFile("import \"os\"\n\nfunc init() { os.Args = append(os.Args, \"-test.run=./[^f]\") }\n\nfunc Add(a, b int) int { return 0 }") + file("calc/golden/sum.txt", "0"), ""},
		{"overwrite the tests in memory", "go", goFile(overwrite + wrong), ""},
		{"a golden file that fits", "go", goFile(strings.TrimSpace("func Add(a, b int) int { return max(a, b) }")) + file("calc/golden/sum.txt", "3"), ""},
		{"a TestMain that ends", "go", file("calc/main_test.go", "package calc\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(*testing.M) { os.Exit(0) }"), ""},
		{"a module of its own round the tests", "go", file("calc/go.mod", "module example.com/other\n"), ""},
		{"a toolchain", "go", file("go.mod", "module example.com/calc\n\ngo 1.22\n\ntoolchain go1.99.0"), ""},
		{"a panic that is recovered as nothing", "go", goFile("import \"runtime\"\n\nfunc Add(a, b int) int { runtime.Goexit(); return 0 }"), ""},
		{"a constructor in C", "go", goFile("// #include <unistd.h>\n// __attribute__((constructor)) static void end(void) { _exit(0); }\nimport \"C\"\n\nfunc Add(a, b int) int { return 0 }"), ""},
		{"an environment for go", "go", file("go.env", "GOFLAGS=-run=None") + file(".config/go/env", "GOFLAGS=-run=None") + file(".env", "GOFLAGS=-run=None"), ""},
	})
}

func TestAttackPythonLess(t *testing.T) {
	inTurn(t, less, inPython)
	find(t, python, "-c", "import unittest")
	tree := write(t, map[string]string{
		"calc.py":     "def add(a, b):\n    return a - b\n",
		"checks.py":   "def equal(a, b):\n    if a != b:\n        raise AssertionError((a, b))\n",
		"testcalc.py": "import unittest\nimport calc\nimport checks\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        checks.equal(calc.add(2, 3), 5)\n\n    def test_nothing(self):\n        pass\n",
	})
	wrong := "\n\ndef add(a, b):\n    return 0"
	fake := "import unittest\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass\n\n    def test_nothing(self):\n        pass"
	list := []attack{
		{"skip from within", "python", file("calc.py", "import unittest\n\ndef add(a, b):\n    raise unittest.SkipTest('later')"), ""},
		{"a helper of tests", "python", file("checks.py", "def equal(a, b):\n    pass") + file("calc.py", "def add(a, b):\n    return 0"), ""},
		{"a package in a helper's place", "python", file("checks/__init__.py", "def equal(a, b):\n    pass") + file("calc.py", "def add(a, b):\n    return 0"), ""},
		{"a package in the tests' place", "python", file("testcalc/__init__.py", fake), ""},
		{"another test by a thread", "python", file("calc.py", "import sys, threading, time\ndef wait():\n    for _ in range(10000):\n        t = getattr(sys.modules.get('testcalc'), 'T', None)\n        if t:\n            t.test_add = lambda self: None\n            return\n        time.sleep(0.0001)\nthreading.Thread(target=wait, daemon=True).start()\n\ndef add(a, b):\n    time.sleep(1)\n    return 0"), ""},
		{"another test by the import", "python", file("calc.py", "import sys, unittest\nclass T(unittest.TestCase):\n    def test_add(self): pass\n    def test_nothing(self): pass\nT.__module__ = 'testcalc'\nclass Meta(type(sys)):\n    def __setattr__(self, name, value): super().__setattr__(name, value)\nm = sys.modules['testcalc']\nimport types\nn = types.ModuleType('testcalc'); n.__file__ = m.__file__; n.T = T\nsys.modules['testcalc'] = n"+wrong), ""},
		{"end as if well at the exit", "python", file("calc.py", "import atexit, os\natexit.register(lambda: os._exit(0))"+wrong), ""},
		{"another Python", "python", file(".python-version", "none") + file("python3", "#!/bin/sh\nexit 0") + file("pyvenv.cfg", "home = ."), ""},
		{"a trace that returns", "python", file("calc.py", "import sys\ndef trace(frame, event, arg):\n    if frame.f_code.co_name == 'equal':\n        frame.f_locals['b'] = frame.f_locals['a']\n        import ctypes; ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))\nsys.settrace(trace)"+wrong), ""},
		{"AssertionError that is none", "python", file("calc.py", "import builtins\nclass E(BaseException): pass\nbuiltins.AssertionError = E"+wrong), ""},
	}
	attacks(t, verify.Config{Command: []string{python, "-m", "unittest"}}, tree, list)
	t.Run("by name", func(t *testing.T) { // where a module of another kind is loaded
		onlyInCI(t)
		attacks(t, verify.Config{Command: []string{python, "-m", "unittest", "testcalc"}}, tree, list[1:5])
	})
}

func TestAttackPytestLess(t *testing.T) {
	inTurn(t, less, inPytest)
	python := pytestOrSkip(t)
	tree := write(t, map[string]string{
		"calc.py":  "def add(a, b):\n    return a - b\n",
		"tests.py": "import calc\nimport pytest\n\n@pytest.mark.parametrize('a', [0, 5])\ndef test_add(a):\n    assert calc.add(0, a) == a\n\ndef test_nothing():\n    pass\n",
	})
	wrong := "\n\ndef add(a, b):\n    return 0"
	attacks(t, verify.Config{Command: []string{python, "-m", "pytest", "tests.py"}}, tree, []attack{
		{"skip from within", "pytest", file("calc.py", "import pytest\n\ndef add(a, b):\n    pytest.skip('later')"), ""},
		{"fail as expected from within", "pytest", file("calc.py", "import pytest\n\ndef add(a, b):\n    pytest.xfail('known')"), ""},
		{"leave parameters out", "pytest", file("calc.py", "import gc\nclass P:\n    def pytest_collection_modifyitems(self, items):\n        items[:] = [i for i in items if i.name != 'test_add[5]']\nfor o in gc.get_objects():\n    if type(o).__name__ == 'PytestPluginManager':\n        o.register(P())"+wrong), ""},
		{"another function in the item", "pytest", file("calc.py", "import gc\nclass P:\n    def pytest_collection_modifyitems(self, items):\n        for i in items:\n            i.obj = lambda a=0: None\nfor o in gc.get_objects():\n    if type(o).__name__ == 'PytestPluginManager':\n        o.register(P())"+wrong), ""},
		{"a package in the tests' place", "pytest", file("tests/__init__.py", "def test_add(): pass"), ""},
	})
	if !everyAttack() { // TestAttackBehindAnotherCommand has one that a script's tests load
		return
	}
	where, err := exec.Command(python, "-c", "import os, sys\nprint(os.path.realpath(sys.executable), sys.prefix)").Output()
	if err != nil {
		t.Fatal(err)
	}
	python, prefix, _ := strings.Cut(strings.TrimSpace(string(where)), " ")
	tree = write(t, map[string]string{
		"calc.py": "def add(a, b):\n    return a - b\n", "tests.py": "import calc\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n",
		"run.sh": "#!/bin/sh\nexec " + python + " -m pytest tests.py\n",
	})
	executable(t, tree, "run.sh")
	config := verify.Config{Command: []string{"./run.sh"}, ReadOnly: []string{prefix}}
	if right := judge(t, open(t, config), &sdk.Query{WorkDir: tree}, file("calc.py", "def add(a, b):\n    return a + b")); right.Outcome != sdk.Passed {
		t.Fatalf("the right answer: %s", right.Evidence)
	}
	attacks(t, config, tree, []attack{
		{"options in pyproject.toml", "pytest", file("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"--collect-only\""), ""},
		{"options in setup.cfg", "pytest", file("setup.cfg", "[tool:pytest]\naddopts = --collect-only"), ""},
		{"a pytest at the root", "pytest", file("pytest.py", "raise SystemExit(0)") + file("pytest/__main__.py", "raise SystemExit(0)") + file("pytest/__init__.py", ""), ""},
	})
}

func TestAttackNodeLess(t *testing.T) {
	inTurn(t, less, inNode)
	node := find(t, "node", "--test", "--version")
	tree := write(t, map[string]string{
		"calc.js": "exports.add = (a, b) => a - b;\n", "checks.js": "exports.equal = (a, b) => { if (a !== b) throw new Error(a + ' is not ' + b); };\n",
		"test.js": "const test = require('node:test');\nconst { equal } = require('./checks');\nconst { add } = require('./calc.js');\ntest('adds', () => equal(add(2, 3), 5));\ntest('nothing', () => {});\n",
	})
	attacks(t, verify.Config{Command: []string{node, "--test"}}, tree, []attack{
		{"skip from a hook", "node", file("calc.js", "require('node:test').beforeEach((t) => { if (t.name === 'adds') t.skip(); });\nexports.add = () => 0;"), ""},
		{"a helper of tests", "node", file("checks.js", "exports.equal = () => {};") + file("calc.js", "exports.add = () => 0;"), ""},
		{"a file in a helper's place", "node", file("checks", "exports.equal = () => {};") + file("calc.js", "exports.add = () => 0;"), ""},
		{"options in package.json", "node", file("package.json", `{"type": "module", "imports": {"#x": "./x.js"}}`), ""},
		{"end when asked", "node", file("calc.js", "exports.add = () => process.exit(0);"), ""},
		{"exit code 0", "node", file("calc.js", "process.on('exit', () => { process.exitCode = 0; process.reallyExit(0); });\nexports.add = () => 0;"), ""},
		{"mock the runner", "node", file("calc.js", "const {mock} = require('node:test'); try { mock.method(require('node:assert'), 'strictEqual', () => {}); } catch {}\nexports.add = () => 0;"), ""},
		{"an Error that is none", "node", file("calc.js", "globalThis.Error = function () { return undefined; };\nexports.add = () => 0;"), ""},
	})
}

func executable(t *testing.T, tree, name string) {
	t.Helper()
	if err := os.Chmod(filepath.Join(tree, name), 0o755); err != nil {
		t.Fatal(err)
	}
}
