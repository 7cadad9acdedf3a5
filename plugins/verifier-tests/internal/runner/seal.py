# Loaded before anything of the work tree: it runs the framework (or, as a plugin of
# pytest, watches it), tries afterwards whether what must fail still fails, and seals
# the report. See package runner.
import functools
import hashlib
import hmac
import json
import os
import re
import sys
import types
import unittest


class Judge:
    """What is known of the framework before the tree's code has run."""

    def __init__(self, key, report, nonce):
        self.mac = hmac.new(key.encode(), digestmod=hashlib.sha256)
        self.report, self.nonce = report, nonce
        self.root = os.path.realpath(os.getcwd()) + os.sep
        self.files = set()
        self.places = {}
        self.hooks = set()
        self.failed = set()
        self.passed_wrongly = []
        self.known = list(framework(("unittest", "_pytest", "pytest", "pluggy")))
        self.modules = {n: m for n, m in sys.modules.items() if judges(n)}
        self.builtins = dict(vars(sys.modules["builtins"]))

    def saw(self, path):
        """Notes a file that tests, or options, came from."""
        if path:
            path = os.path.realpath(str(path))
            if path.startswith(self.root) and os.path.isfile(path):
                self.files.add(path[len(self.root):])

    def ran(self, name, function, path, owns):
        """Notes what ran as a test: in which file, in its own at which line and with
        which code; and which methods of the framework the test has of its own."""
        code = code_of(function)
        if code is None and not owns:
            return
        place = os.path.realpath(code.co_filename) if code else ""
        if code and path and place == os.path.realpath(str(path)):
            place += ":" + str(code.co_firstlineno) + " " + digest(code)
        place = place[len(self.root):] if place.startswith(self.root) else place
        self.places[name] = " ".join([place] + sorted(owns))

    def inside_file(self, value):
        """The file of the tree in which the code of a value is, or ""."""
        while isinstance(value, functools.partial):
            value = value.func
        code = code_of(value) or code_of(getattr(type(value), "__call__", None))
        place = os.path.realpath(code.co_filename) if code else ""
        inside = place.startswith(self.root) and place != os.path.realpath(main.__code__.co_filename)
        return place[len(self.root):] if inside else ""

    def hooked(self, impls):
        """Notes the files of the tree that hooks of pytest are in, conftest.py apart."""
        for impl in impls:
            place = self.inside_file(impl.function)
            if place and os.path.basename(place) != "conftest.py":
                self.hooks.add(place)

    def must_fail(self, name, call):
        """Tries what has to raise an AssertionError or a failure of the framework."""
        try:
            call()
        except BaseException:
            return
        self.passed_wrongly.append(name)

    def changed(self):
        """Returns the parts of frameworks and assertion libraries that are others now."""
        found = [
            f"{owner.__name__}.{name}"
            for owner, name, value, code in self.known
            if vars(owner).get(name) is not value or code is not None and getattr(value, "__code__", None) is not code
        ]
        found += [f"builtins.{n}" for n, v in self.builtins.items() if n != "_" and vars(sys.modules["builtins"]).get(n) is not v]
        for name, hook in (("settrace", sys.gettrace()), ("setprofile", sys.getprofile())):
            code = getattr(getattr(hook, "__func__", hook), "__code__", None)
            if code is not None and os.path.realpath(code.co_filename).startswith(self.root):
                found.append("sys." + name)
        found += [n for n, module in self.modules.items() if sys.modules.get(n) is not module]
        for module in list(sys.modules.values()):
            if isinstance(module, types.ModuleType) and judges(module.__name__) and not self.inside(module):
                for name, value in list(vars(module).items()):
                    if isinstance(value, type) and self.inside(sys.modules.get(value.__module__)):
                        found.append(f"{module.__name__}.{name}")
                for owner, name, _, code in members(module):
                    if code is not None and code.co_filename[:1] != "<" and os.path.realpath(code.co_filename).startswith(self.root):
                        found.append(f"{owner.__name__}.{name}")
        return sorted(set(found))

    def inside(self, module):
        return os.path.realpath(str(getattr(module, "__file__", None) or "/")).startswith(self.root)

    def try_assertions(self):
        """Tries the assertions of unittest on what is not so."""
        case = unittest.TestCase()
        for name, arguments in ASSERTIONS.items():
            self.must_fail("assert" + name, lambda: getattr(case, "assert" + name)(*arguments))
        self.must_fail("fail", case.fail)

        class Control(unittest.TestCase):
            def test_fails(self):
                raise AssertionError

            def test_errs(self):
                raise ValueError

        for name, attribute in (("test_fails", "failures"), ("test_errs", "errors")):
            result = unittest.TestResult()
            Control(name).run(result)
            if len(getattr(result, attribute)) != 1 or result.wasSuccessful():
                self.passed_wrongly.append("TestCase.run")

    def close(self):
        """Seals the report and what was seen."""
        if self.failed and os.path.exists(self.report):
            with open(self.report, "rb") as f:
                told = re.findall(rb"<(?:failure|error)\b", f.read())
            if len(told) < len(self.failed):
                self.passed_wrongly.append("the failures in the report")
        more = json.dumps({"files": sorted(self.files), "passed_wrongly": self.passed_wrongly, "changed": self.changed(), "places": self.places}).encode()
        if not os.path.exists(self.report):
            return
        with open(self.report, "rb") as f:
            data = f.read()
        self.mac.update(data + b"\0" + more)
        with open(self.report + ".more", "wb") as f:
            f.write(more)
        with open(self.report + ".seal", "w") as f:
            f.write(self.mac.hexdigest())


def code_of(function):
    return getattr(getattr(function, "__func__", function), "__code__", None)


def digest(code):
    """What code does, without what Python learns of it while it runs."""
    parts = [digest(c) if isinstance(c, types.CodeType) else sorted(map(repr, c)) if isinstance(c, frozenset) else repr(c) for c in code.co_consts]
    return hashlib.sha256(repr((code.co_code, parts, code.co_names)).encode()).hexdigest()[:16]


def own_methods(thing):
    """The methods of its class that an object has otherwise, as attributes of its own."""
    return {name for name in getattr(thing, "__dict__", ()) if callable(getattr(type(thing), name, None))}


ASSERTIONS = {
    "Equal": (1, 2), "NotEqual": (1, 1), "True": (False,), "False": (True,), "Is": (1, None), "IsNot": (None, None),
    "IsNone": (1,), "IsNotNone": (None,), "In": (1, []), "NotIn": (1, [1]), "IsInstance": (1, str), "NotIsInstance": (1, int),
    "AlmostEqual": (1, 2), "NotAlmostEqual": (1, 1), "Greater": (1, 2), "GreaterEqual": (1, 2), "Less": (2, 1), "LessEqual": (2, 1),
    "Regex": ("a", "b"), "NotRegex": ("a", "a"), "CountEqual": ([1], [2]), "ListEqual": ([1], [2]), "TupleEqual": ((1,), (2,)),
    "SetEqual": ({1}, {2}), "DictEqual": ({1: 1}, {1: 2}), "SequenceEqual": ([1], [2]), "MultiLineEqual": ("a", "b"),
    "Raises": (ValueError, int), "RaisesRegex": (ValueError, "x", int),
}


def judges(name):
    """Reports whether a module is one of a test framework or of assertions, by its name."""
    words = name.replace("_", ".").split(".")
    return any(w.startswith(("test", "assert", "unittest", "pytest", "nose", "mock", "hypothesis", "hamcrest")) or w == "sure" for w in words)


def members(module):
    """The functions and classes of a module, and what those have."""
    for name, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType):
            yield module, name, value, value.__code__
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield module, name, value, None
            for inner, method in list(vars(value).items()):
                if isinstance(method, (types.FunctionType, property, staticmethod, classmethod)):
                    yield value, inner, method, getattr(method, "__code__", None)


def framework(packages):
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType) and module.__name__.split(".")[0] in packages:
            yield from members(module)


def run_unittest(judge):
    """Takes the place of python -m unittest."""
    tests = {}

    Outcome, TestCase = unittest.case._Outcome, unittest.TestCase

    runs = [m.__file__ for m in (unittest.case, sys.modules.get("unittest.async_case")) if m]

    def owns(test, path, mark):
        """What a test has in the place of unittest's own, but for what its file says."""
        found = {"own " + name for name in own_methods(test) if getattr(code_of(vars(test)[name]), "co_filename", "") != path}
        for cls in type(test).__mro__[:type(test).__mro__.index(TestCase)] if isinstance(test, TestCase) else ():
            found |= {name + ":" + judge.inside_file(value) for name, value in vars(cls).items() if name in vars(TestCase) and judge.inside_file(value)}
        return found | ({mark} if mark else set())

    def succeeded(result, test):
        """Looks at what the run of a test that has passed knows itself."""
        if getattr(code_of(getattr(type(test), "run", None)), "co_filename", "") not in runs:
            return  # a framework with a run of its own
        outcome = test._outcome
        if type(outcome) is not Outcome or not outcome.success or outcome.expectedFailure is not None or own_methods(outcome):
            judge.passed_wrongly.append(test.id())

    def note(test, status, output="", mark=""):
        group, _, name = test.id().rpartition(".")
        path = getattr(sys.modules.get(type(test).__module__), "__file__", None)
        judge.saw(path)
        judge.ran(test.id(), getattr(type(test), getattr(test, "_testMethodName", ""), None), path, owns(test, path, mark))
        entry = tests.setdefault(test.id(), {"Group": group, "Name": name, "Status": status, "Output": output})
        if status == "fail":
            entry.update(Status=status, Output=output)

    class Result(unittest.TextTestResult):
        def addSuccess(self, test):
            super().addSuccess(test)
            note(test, "pass")
            succeeded(self, test)

        def addFailure(self, test, err):
            super().addFailure(test, err)
            note(test, "fail", self._exc_info_to_string(err, test))

        def addError(self, test, err):
            super().addError(test, err)
            note(test, "fail", self._exc_info_to_string(err, test))

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            note(test, "skip")

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            note(test, "pass", mark="is expected to fail")

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            note(test, "fail", "unexpected success")

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                note(test, "fail", self._exc_info_to_string(err, test))

    class Runner(unittest.TextTestRunner):
        resultclass = Result

    program = unittest.main(module=None, argv=["python -m unittest"] + sys.argv[1:], testRunner=Runner, exit=False)
    judge.try_assertions()
    judge.passed_wrongly += ["the result's " + name for name in own_methods(program.result)]
    with open(judge.report, "w") as f:
        json.dump(list(tests.values()), f)
    judge.close()
    return 0 if program.result.wasSuccessful() else 1


def watch_pytest(judge, pytest, control):
    """Returns the plugin of pytest."""
    from _pytest.runner import runtestprotocol

    class Control(pytest.Item):
        def runtest(self):
            self.call()

        def reportinfo(self):
            return self.path, 0, self.name

    def outcome(session, name, call):
        item = Control.from_parent(session, name=name)
        item.call = call
        return [r.outcome for r in runtestprotocol(item, log=False, nextitem=None) if r.when == "call"]

    def not_raising():
        with pytest.raises(ValueError):
            pass

    plugins = {}

    def look(manager):
        """Looks at the hooks of plugins that are new."""
        for plugin in manager.get_plugins():
            if plugins.get(id(plugin)) is not plugin:
                plugins[id(plugin)] = plugin
                for caller in manager.get_hookcallers(plugin) or ():
                    judge.hooked(i for i in caller.get_hookimpls() if i.plugin is plugin)

    class Watcher:
        def pytest_collection_finish(self, session):
            for item in session.items:
                if type(item).__name__ != "DoctestItem":  # its file is the code under test
                    judge.saw(getattr(item, "path", None) or getattr(item, "fspath", None))
            judge.saw(getattr(session.config, "inipath", None) or getattr(session.config, "inifile", None))
            for plugin in session.config.pluginmanager.get_plugins():
                if isinstance(plugin, types.ModuleType):
                    judge.saw(getattr(plugin, "__file__", None))

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            look(item.config.pluginmanager)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(self, item):
            owns = {"own " + name for name in own_methods(item)}
            kind = judge.inside_file(type(item).runtest)
            judge.ran(item.nodeid, getattr(item, "obj", None), getattr(item, "path", None) or getattr(item, "fspath", None), owns | ({kind} if kind else set()))

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report):
            if report.when == "call":
                judge.places.setdefault(report.nodeid, "not seen")
            self.count(report)

        @pytest.hookimpl(tryfirst=True)
        def pytest_collectreport(self, report):
            self.count(report)

        def count(self, report):
            if report.outcome == "failed":
                judge.failed.add(report.nodeid)

        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish(self, session):
            if not getattr(session, "items", None):
                return
            for name, call in (("fails", control.fails), ("says so", pytest.fail), ("does not raise", not_raising)):
                if outcome(session, name, call) != ["failed"]:
                    judge.passed_wrongly.append("a test that " + name)
            if outcome(session, "passes", lambda: None) != ["passed"]:
                judge.passed_wrongly.append("a test that passes")
            judge.try_assertions()
            manager = session.config.pluginmanager
            calls = [manager._inner_hookexec]
            for caller in vars(session.config.hook).values():
                if hasattr(caller, "get_hookimpls"):
                    judge.hooked(caller.get_hookimpls())
                    calls.append(getattr(caller, "_hookexec", None))
                else:
                    calls.append(caller)
            judge.hooks.update(judge.inside_file(call) for call in calls if judge.inside_file(call))
            for thing in [session, session.config, manager] + [p for p in manager.get_plugins() if not isinstance(p, types.ModuleType)]:
                judge.hooks.update(type(thing).__name__ + "." + name for name in own_methods(thing))
            if judge.failed and not session.testsfailed:
                judge.passed_wrongly.append("the count of failures")
            judge.places["the hooks of pytest"] = " ".join(sorted(judge.hooks))

        @pytest.hookimpl(trylast=True)
        def pytest_unconfigure(self, config):
            judge.close()

    return Watcher()


CONTROL = "def fails():\n    one, two = [1], [2]\n    assert one == two\n"


def load_control(directory, name):
    """Loads a failing test by way of the framework's own rewriting of assertions."""
    import importlib.util

    import pytest

    pytest.register_assert_rewrite(name)
    path = os.path.join(directory, name + ".py")
    with open(path, "w") as f:
        f.write(CONTROL)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    os.unlink(path)
    return module


def main(framework_name, key, report, nonce):
    here = os.path.dirname(os.path.abspath(__file__))
    os.unlink(__file__)
    report = os.path.abspath(report)
    # Where python -m would find modules of the tree, once all is imported that judges.
    path = [os.getcwd()] if sys.path[:1] == [here] else []
    rest = sys.path[1:] if path else sys.path[:]
    sys.path[:] = rest
    if framework_name == "unittest":
        judge = Judge(key, report, nonce)
        del key
        sys.path[:] = path + rest
        return run_unittest(judge)
    try:
        import pytest
    except ModuleNotFoundError as e:
        if e.name != "pytest":
            raise
        return f"{sys.executable}: No module named pytest"
    control = load_control(here, "stepfall_control_" + nonce)
    judge = Judge(key, report, nonce)
    del key
    watcher = watch_pytest(judge, pytest, control)
    if __name__ != "__main__":
        return watcher
    sys.path[:] = path + rest
    return pytest.main(sys.argv[1:], plugins=[watcher])


if __name__ == "__main__":
    sys.exit(main("@FRAMEWORK@", "@KEY@", "@REPORT@", "@NONCE@"))


def pytest_configure(config, watcher=main("@FRAMEWORK@", "@KEY@", "@REPORT@", "@NONCE@")):
    config.pluginmanager.register(watcher, "stepfall-seal")
