package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Ways by the framework's own objects: what one test, one result or one report is
// told, and nothing that all share.

func TestAttackPythonObjects(t *testing.T) {
	inTurn(t, objects, inPython)
	find(t, python, "-c", "import unittest")
	tree := write(t, map[string]string{
		"calc.py":     "def add(a, b):\n    return a - b\n",
		"testcalc.py": "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        got = calc.add(2, 3)\n        self.assertEqual(got, 5)\n\n    def test_more(self):\n        for n in (1, 2):\n            with self.subTest(n=n):\n                self.assertEqual(calc.add(n, 3), n + 3)\n",
	})
	add := func(body string) string {
		return file("calc.py", "import gc, sys\n\ndef add(a, b):\n    case = sys._getframe(1).f_locals['self']\n    "+strings.ReplaceAll(body, "\n", "\n    ")+"\n    return 0")
	}
	attacks(t, verify.Config{Command: []string{python, "-m", "unittest"}}, tree, []attack{
		{"expect the failure from within", "python", add("case._outcome.expecting_failure = True"), ""},
		{"expect it, and leave no outcome", "python", add("if case._outcome: case._outcome.expecting_failure = True\ncase._outcome = None"), ""},
		{"expect the failure of a class", "python", add("type(case).__unittest_expecting_failure__ = True\ncase._outcome.expecting_failure = True"), ""},
		{"an assertion of one test's own", "python", add("case.assertEqual = lambda *a: None\ntype(case).assertEqual = lambda *a: None"), ""},
		{"a result's own failures", "python", add("r = case._outcome.result\nr.addFailure = lambda t, e: r.addSuccess(t)\nr.addSubTest = lambda *a: None"), ""},
		{"another result", "python", add("r = case._outcome.result\nclass R:\n    def addFailure(self, t, e): r.addSuccess(t)\n    addSubTest = lambda *a: None\n    def __getattr__(self, n): return getattr(r, n)\nif type(r).__name__ != 'R': case._outcome.result = R()"), ""},
		{"a part of the run that swallows", "python", add("import contextlib\n@contextlib.contextmanager\ndef part(*a, **k):\n    try: yield\n    except Exception: pass\ncase._outcome.testPartExecutor = part\ncase._outcome.expecting_failure = True"), ""},
		{"another class for the test", "python", add("class T(type(case)):\n    def assertEqual(self, *a): pass\ncase.__class__ = T\nT.__name__ = 'T'; T.__qualname__ = 'T'; T.__module__ = 'testcalc'"), ""},
	})
}

// Uses of the framework that occur in real tests are not attacks.
func TestPythonRightAnswersOfManyKinds(t *testing.T) {
	tree := write(t, map[string]string{
		"calc.py": "def add(a, b):\n    return a - b\n",
		"base.py": "import unittest\n\nclass Base(unittest.TestCase):\n    def setUp(self):\n        self.assertEqual = self.assertSame\n\n    def assertSame(self, a, b):\n        if a != b:\n            self.fail((a, b))\n\n    def run(self, result=None):\n        return super().run(result)\n",
		"test_calc.py": `import functools
import unittest
from unittest import mock

import calc
from base import Base


def wrapped(f):
    @functools.wraps(f)
    def inner(*a):
        return f(*a)
    return inner


class Plain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.two = 2

    @wrapped
    def test_add(self):
        self.assertEqual(calc.add(self.two, 3), 5)

    @unittest.expectedFailure
    def test_not_yet(self):
        self.assertEqual(calc.add(1, 1), 3)

    @unittest.skip("later")
    def test_later(self):
        self.fail()

    def test_parts(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertIn(calc.add(n, n), {0, 2, 4})

    @mock.patch("calc.add", return_value=7)
    def test_mocked(self, add):
        self.assertEqual(calc.add(1, 2), 7)


class Own(Base):
    def test_add(self):
        self.assertEqual(calc.add(2, 3), 5)


class Later(unittest.IsolatedAsyncioTestCase):
    async def test_add(self):
        self.assertEqual(calc.add(2, 3), 5)
`,
	})
	for _, framework := range sample([]string{"unittest", "pytest"}, 1) {
		t.Run(framework, func(t *testing.T) {
			python := find(t, python, "-c", "import unittest")
			if framework == "pytest" {
				python = pytestOrSkip(t)
			}
			config := verify.Config{Command: []string{python, "-m", framework}, Reruns: -1}
			right := judge(t, open(t, config), &sdk.Query{WorkDir: tree}, file("calc.py", "# Sums.\n\ndef add(a, b):\n    return b + a"))
			if right.Outcome != sdk.Passed {
				t.Errorf("%s: %s", right.Outcome, right.Evidence)
			}
		})
	}
}

func TestAttackPytestObjects(t *testing.T) {
	inTurn(t, objects, inPytest)
	python := pytestOrSkip(t)
	tree := write(t, map[string]string{
		"calc.py":  "def add(a, b):\n    return a - b\n",
		"tests.py": "import calc\n\ndef test_a():\n    calc.add(0, 0)\n\ndef test_add():\n    assert calc.add(2, 3) == 5\n",
	})
	each := func(kind, body string) string {
		return file("calc.py", "import gc\n\ndef add(a, b):\n    for o in gc.get_objects():\n        if type(o).__name__ == '"+kind+"':\n            "+strings.ReplaceAll(body, "\n", "\n            ")+"\n    return 0")
	}
	for _, command := range [][]string{{python, "-m", "pytest", "tests.py"}} {
		attacks(t, verify.Config{Command: command}, tree, []attack{
			{"a run of one item's own", "pytest", each("Function", "o.runtest = lambda: None"), ""},
			{"a run that is built in", "pytest", each("Function", "o.runtest = dict"), ""},
			{"another class for an item", "pytest", each("Function", "class Function(type(o)):\n    __slots__ = ()\n    def runtest(self): pass\nif o.name == 'test_add': o.__class__ = Function"), ""},
			{"a report's own testcase", "pytest", each("LogXML", "real = o._opentestcase\ndef other(report, real=real):\n    r = real(report)\n    r.append_failure = r.append_pass\n    return r\no._opentestcase = other") + "", ""},
			{"a session without failures", "pytest", strings.Replace(each("LogXML", "real = o._opentestcase\ndef other(report, real=real):\n    r = real(report)\n    r.append_failure = r.append_pass\n    return r\no._opentestcase = other"), "        if", "        if type(o).__name__ == 'Session':\n            type(o.__class__.__name__, (o.__class__,), {})\n            o.shouldfail = False\n            o.config.pluginmanager.register(type('P', (), {'pytest_sessionfinish': lambda self, session: setattr(session, 'testsfailed', 0)})()) if not hasattr(o, 'seen') else None\n            o.seen = 1\n        if", 1), ""},
			{"a hook in the relay", "pytest", each("HookRelay", "real = o.pytest_runtest_call\no.pytest_runtest_call = lambda item: None if item.name == 'test_add' else real(item=item)"), ""},
			{"a manager's own call", "pytest", each("PytestPluginManager", "real = o._inner_hookexec\no._inner_hookexec = lambda name, methods, kw, first: None if name == 'pytest_runtest_call' and kw['item'].name == 'test_add' else real(name, methods, kw, first)"), ""},
			{"a hook's own call", "pytest", each("HookRelay", "real = o.pytest_runtest_call._hookexec\no.pytest_runtest_call._hookexec = lambda name, methods, kw, first: None if kw['item'].name == 'test_add' else real(name, methods, kw, first)"), ""},
			{"a test's code", "pytest", each("Function", "if o.name == 'test_add': o.obj.__code__ = o.obj.__code__.replace(co_code=(lambda: None).__code__.co_code, co_consts=(None,), co_names=())"), ""},
		})
	}
}

func TestAttackNodeObjects(t *testing.T) {
	inTurn(t, objects, inNode)
	node := find(t, "node", "--test", "--version")
	tree := write(t, map[string]string{
		"calc.js": "exports.add = (a, b) => a - b;\n",
		"test.js": "const calc = require('./calc.js');\nconst assert = require('node:assert');\nconst { describe, it } = require('node:test');\ndescribe('sums', () => { it('adds', async () => { await new Promise(setImmediate); calc.add(0, 0); assert.strictEqual(calc.add(2, 3), 5); }); });\n",
	})
	attacks(t, verify.Config{Command: []string{node, "--test"}}, tree, []attack{
		{"calls of tests that swallow", "node", file("calc.js", "const ah = require('async_hooks'); const r = ah.AsyncResource.prototype.runInAsyncScope; ah.AsyncResource.prototype.runInAsyncScope = function(fn, ...a) { if (this.name && typeof fn === 'function') { return r.call(this, (...x) => { try { const p = fn(...x); return p && p.catch ? p.catch(() => {}) : p } catch {} }, ...a) } return r.call(this, fn, ...a) };exports.add = () => 0;"), ""},
		{"the test from its own call", "node", file("calc.js", "exports.add = () => { const r = require('async_hooks').executionAsyncResource(); for (let p = r; p && p !== Object.prototype; p = Object.getPrototypeOf(p)) { if (Object.hasOwn(p, 'fail')) { const pass = p.pass; p.fail = function () { return pass.call(this); }; } } return 0; };"), ""},
		{"the test from a hook of calls", "node", file("calc.js", "require('node:async_hooks').createHook({ init(id, type, t, r) { if (/Test/.test(type) || r.fail) { Object.defineProperty(r, 'fail', { value() { this.pass(); } }); } } }).enable(); exports.add = () => 0;"), ""},
		{"the test from its own call, imported", "node", file("calc.js", "const own = import('node:async_hooks'); own.then(({ executionAsyncResource }) => { exports.add = () => { const r = executionAsyncResource(); if (r.fail) Object.defineProperty(r, 'fail', { value() { this.pass(); } }); return 0; }; }); exports.add = () => 0;"), ""},
	})
}
