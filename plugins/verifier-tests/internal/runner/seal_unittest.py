# Run in place of unittest, before anything of the work tree. See package runner.
import hashlib
import hmac
import json
import os
import sys
import unittest


def main(key="@KEY@", report=os.path.abspath("@REPORT@")):
    tests = {}

    def note(test, status, output=""):
        group, _, name = test.id().rpartition(".")
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
    data = json.dumps(list(tests.values())).encode()
    with open(report, "wb") as f:
        f.write(data)
    with open(report + ".seal", "w") as f:
        f.write(hmac.new(key.encode(), data, hashlib.sha256).hexdigest())
    return 0 if program.result.wasSuccessful() else 1


os.unlink(__file__)
sys.exit(main())
