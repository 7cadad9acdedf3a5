# Loaded before anything of the work tree: it runs the framework (or, as a plugin of
# pytest, watches it) and seals the report when the tests have come to their end. See
# package runner.
import contextlib
import functools
import hashlib
import hmac
import inspect
import json
import os
import re
import sys
import traceback
import types
import unittest


# The events of what leads to the frames of callers: see PEP 578.
TO_FRAMES = ("sys._getframe", "sys._getframemodulename", "sys._current_frames", "sys.settrace", "sys.setprofile", "gc.get_objects", "gc.get_referrers")
FRAMES = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")


class Seal:
    """The report's seal, the files that tests came from, and where their code is."""

    def __init__(self, key, report):
        self.mac = hmac.new(key.encode(), digestmod=hashlib.sha256)
        self.report = report
        self.root = os.path.realpath(os.getcwd()) + os.sep
        self.files, self.places, self.callers = set(), {}, set()

    def saw(self, path):
        """Notes a file that tests, or options, came from."""
        if path:
            path = os.path.realpath(str(path))
            if path.startswith(self.root) and os.path.isfile(path):
                self.files.add(path[len(self.root):])

    def ran(self, name, function):
        """Notes in which file the code of a test is."""
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code:
            self.places[name] = os.path.relpath(code.co_filename, self.root)

    def watch_callers(self):
        """Notes the files of the tree whose code looks at the frames that call it."""
        busy = []

        @functools.lru_cache(None)
        def place(path):
            return os.path.realpath(path) if os.path.isfile(path) else ""

        def note(event, arguments):
            is_frame = event == "object.__getattr__" and arguments[1] in FRAMES
            if busy or not (is_frame or event in TO_FRAMES):
                return
            busy.append(event)
            frame = first = sys._getframe(1)
            while frame and frame.f_code.co_filename in (inspect.__file__, traceback.__file__):
                frame = frame.f_back
            while frame and not place(frame.f_code.co_filename):
                frame = frame.f_back
            if frame and (frame is first or not is_frame):  # the text of a traceback leads to none
                path = place(frame.f_code.co_filename)
                if path.startswith(self.root):
                    self.callers.add(path[len(self.root):])
            busy.clear()

        sys.addaudithook(note)

    def replaced(self):
        """What the tree's code, but not its tests, has put in the place of something in the standard library."""
        @functools.lru_cache(None)
        def is_product(path):
            path = os.path.realpath(path) if isinstance(path, str) and os.path.isabs(path) else ""
            return path.startswith(self.root) and "site-packages" not in path and path[len(self.root):] not in self.files

        def file_of(v):
            v = v.__func__ if isinstance(v, (classmethod, staticmethod, types.MethodType)) else v
            if isinstance(v, types.FunctionType):
                return v.__code__.co_filename
            return getattr(sys.modules.get(vars(v if isinstance(v, type) else type(v)).get("__module__")), "__file__", None)

        @functools.lru_cache(None)
        def source_of(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                return f.read()

        def is_added(module, name):
            """Whether a module had nothing of a name, by its source."""
            path = getattr(module, "__file__", None) or ""
            return path.endswith(".py") and not re.search(r"^\s*(?:(?:async )?def|class)\s+%s\b|\b%s[\"']?\s*(?:=|:|,|\)|$)|\bimport\b.*(?:\b%s\b|\*)" % ((re.escape(name),) * 3), source_of(path), re.M)

        names = []
        known = set(getattr(sys, "stdlib_module_names", ())) - {"sys", "__main__"}
        for name, module in [(n, m) for n, m in list(sys.modules.items()) if n.split(".")[0] in known and isinstance(m, types.ModuleType)]:
            if is_product(getattr(module, "__file__", None)):
                names.append(name)
                continue
            for key, v in [(k, v) for k, v in list(vars(module).items()) if k[:1] != "_" and not isinstance(v, types.ModuleType)]:
                methods = list(vars(v).items()) if isinstance(v, type) and v.__module__ == name else []
                names += [name + "." + key] * any(is_product(file_of(x)) and not is_added(module, n) for n, x in [(key, v)] + methods)
        return sorted(names)

    def close(self):
        """Seals the report and what was seen."""
        if not os.path.exists(self.report):
            return
        path = [os.path.relpath(p, self.root) for p in map(os.path.realpath, sys.path) if (p + os.sep).startswith(self.root)]
        more = json.dumps({"files": sorted(self.files), "places": self.places, "replaced": self.replaced(), "callers": sorted(self.callers), "path": path}).encode()
        with open(self.report, "rb") as f:
            self.mac.update(f.read() + b"\0" + more)
        with open(self.report + ".more", "wb") as f:
            f.write(more)
        with open(self.report + ".seal", "w") as f:
            f.write(self.mac.hexdigest())


def run_unittest(seal):
    """Takes the place of python -m unittest."""
    tests = {}

    def note(test, status, output=""):
        group, _, name = test.id().rpartition(".")
        seal.ran(test.id(), getattr(type(test), getattr(test, "_testMethodName", ""), None))
        seal.saw(getattr(sys.modules.get(type(test).__module__), "__file__", None))
        entry = tests.setdefault(test.id(), {"Group": group, "Name": name, "Status": status, "Output": output})
        if status == "fail":
            entry.update(Status=status, Output=output)

    class Result(unittest.TextTestResult):
        def addSuccess(self, test):
            super().addSuccess(test)
            note(test, "pass")

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
            note(test, "pass")

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
    with open(seal.report, "w") as f:
        json.dump(list(tests.values()), f)
    seal.close()
    return 0 if program.result.wasSuccessful() else 1


def without_coverage(early_config):
    """Switches pytest-cov off: how much of the code a part of the tests covers says nothing about an answer."""
    if hasattr(early_config.known_args_namespace, "no_cov"):
        early_config.known_args_namespace.no_cov = True
    yield


def watch_pytest(seal, pytest):
    """Returns the plugin of pytest."""

    class Watcher:
        def pytest_collection_finish(self, session):
            for item in session.items:
                if type(item).__name__ != "DoctestItem":  # its file is the code under test
                    seal.saw(getattr(item, "path", None) or getattr(item, "fspath", None))
            seal.saw(getattr(session.config, "inipath", None) or getattr(session.config, "inifile", None))
            for plugin in session.config.pluginmanager.get_plugins():
                if isinstance(plugin, types.ModuleType):
                    seal.saw(getattr(plugin, "__file__", None))

        pytest_load_initial_conftests = staticmethod(pytest.hookimpl(hookwrapper=True)(without_coverage))

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(self, item):
            seal.ran(item.nodeid, getattr(item, "obj", None))

        @pytest.hookimpl(trylast=True)
        def pytest_unconfigure(self, config):
            seal.close()

    return Watcher()


def watch_stops():
    """Has a test fail that ends by an exception with which unittest ends those that have failed."""
    outcome, stop = (getattr(unittest.case, name, None) for name in ("_Outcome", "_ShouldStop"))
    if not outcome or not stop:  # a version that ends them in another way
        return
    execute = outcome.testPartExecutor

    @contextlib.contextmanager
    def watched(self, *arguments, **named):
        with execute(self, *arguments, **named):
            try:
                yield
            except stop as e:
                if self.success and not self.expectedFailure:
                    raise AssertionError("the test was stopped before its end") from e
                raise

    outcome.testPartExecutor = watched


def editable_folders():
    """Returns the folders of the tree that the environment imports from another copy of it: pip install --editable notes
    the path of the tree that it was called in, which a run does not see. Processes of tests find them, too."""
    found = []
    for site in [p for p in sys.path if p.endswith("-packages") and os.path.isdir(p)]:
        for name in sorted(os.listdir(site)):
            file = os.path.join(site, name)
            if not re.fullmatch(r".*\.pth|__editable__\w+_finder\.py", name) or not os.access(file, os.R_OK):
                continue
            with open(file, encoding="utf-8", errors="replace") as f:
                text = f.read()
            folders = re.findall(r"^(/.*?)\s*$", text, re.M) if name.endswith(".pth") else [os.path.dirname(p) for p in re.findall(r"'(/[^'\n]+)'", text)]
            found += [here(folder) for folder in folders if not is_readable(folder)]
    found = [folder for at, folder in enumerate(found) if folder not in found[:at]]
    if found:
        os.environ["PYTHONPATH"] = os.pathsep.join([p for p in [os.environ.get("PYTHONPATH")] if p] + found)
    return found


def here(folder):
    """Returns the folder of the tree whose path ends like that of another copy's."""
    parts = folder.strip(os.sep).split(os.sep)
    return next(p for p in (os.path.join(os.getcwd(), *parts[at:]) for at in range(len(parts) + 1)) if os.path.isdir(p))


def is_readable(folder):
    try:
        os.listdir(folder)
    except OSError:
        return False
    return True


def main(framework_name, key, report, held):
    watch_stops()
    here = os.path.dirname(os.path.abspath(__file__))
    if __name__ == "__main__":
        os.unlink(__file__)
    else:
        open(__file__, "w").close()  # the workers of xdist load it, too
    report = os.path.abspath(report)
    # Where python -m, and the held PYTHONPATH, would find modules of the tree, once all is imported that judges.
    path = [os.getcwd()] if sys.path[:1] == [here] and not getattr(sys.flags, "safe_path", False) else []
    rest = sys.path[1:] if path else sys.path[:]
    sys.path[:] = rest
    if held and here in rest:
        os.environ["PYTHONPATH"] = held
        at = rest.index(here)
        rest = rest[:at] + list(map(os.path.abspath, held.split(os.pathsep))) + rest[at:]
    if framework_name == "unittest":
        seal = Seal(key, report)
        del key
        seal.watch_callers()
        sys.path[:] = path + rest + editable_folders()
        return run_unittest(seal)
    try:
        import pytest
    except ModuleNotFoundError as e:
        if e.name != "pytest":
            raise
        return f"{sys.executable}: No module named pytest"
    seal = Seal(key, report)
    del key
    seal.watch_callers()
    watcher = watch_pytest(seal, pytest)
    sys.path[:] = path + rest + editable_folders()
    if __name__ != "__main__":
        return watcher
    return pytest.main(sys.argv[1:], plugins=[watcher])


if __name__ == "__main__":
    sys.exit(main("@FRAMEWORK@", "@KEY@", "@REPORT@", "@PATH@"))


def pytest_configure(config, watcher=main("@FRAMEWORK@", "@KEY@", "@REPORT@", "@PATH@")):
    config.pluginmanager.register(watcher, "stepfall-seal")


pytest_load_initial_conftests = without_coverage
