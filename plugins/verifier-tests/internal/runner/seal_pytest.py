# Loaded by pytest before anything of the work tree. See package runner.
import hashlib
import hmac
import os


def seal(key="@KEY@", report=os.path.abspath("@REPORT@")):
    def pytest_unconfigure(config):
        if os.path.exists(report):
            with open(report, "rb") as f:
                mac = hmac.new(key.encode(), f.read(), hashlib.sha256)
            with open(report + ".seal", "w") as f:
                f.write(mac.hexdigest())

    return pytest_unconfigure


pytest_unconfigure = seal()
del seal
os.unlink(__file__)
