"""Writes golden.json: what SWE-bench's harness says of each log beside this file.

    python3 -m venv env && env/bin/pip install --no-deps swebench==5.0.2 unidiff \
        python-dotenv requests tqdm urllib3 certifi idna charset-normalizer && env/bin/python golden.py

The logs are ours: NAME.log is in the format that NAME begins with. pytest, Django,
SymPy, go and cargo wrote those that are not called odd, on tests made for it.
Those called odd are written by hand.
"""
import importlib
import json
import pathlib
import sys
import tempfile
import types

# The harness is asked for nothing that needs a container or the network.
for name in ("swebench", "swebench.harness"):
    module = types.ModuleType(name)
    module.__path__ = [str(pathlib.Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages", *name.split(".")))]
    sys.modules[name] = module

constants = importlib.import_module("swebench.harness.constants")
grading = importlib.import_module("swebench.harness.grading")
TestSpec = importlib.import_module("swebench.types").TestSpec
parsers = importlib.import_module("swebench.harness.log_parsers.python")

FORMATS = {
    "pytest": parsers.parse_log_pytest,
    "pytest-options": parsers.parse_log_pytest_options,
    "pytest-v2": parsers.parse_log_pytest_v2,
    "matplotlib": parsers.parse_log_matplotlib,
    "seaborn": parsers.parse_log_seaborn,
    "sympy": parsers.parse_log_sympy,
    "django": parsers.parse_log_django,
    "go": importlib.import_module("swebench.harness.log_parsers.go").parse_log_gotest,
    "cargo": importlib.import_module("swebench.harness.log_parsers.rust").parse_log_cargo,
}


def resolved(parser, log, exit_code, fail_to_pass, pass_to_pass):
    grading.PARSER_REGISTRY = {"one": parser}
    spec = TestSpec("i", "", [], "", "", fail_to_pass, pass_to_pass, "one", "pass_and_fail")
    with tempfile.NamedTemporaryFile("w", newline="", suffix=".log") as f:
        f.write(f"{constants.START_TEST_OUTPUT}\n{log}\n{constants.END_TEST_OUTPUT}\n{constants.TEST_EXIT_CODE}: {exit_code}\n")
        f.flush()
        return grading.get_eval_report(spec, {"instance_id": "i", "model_patch": "x"}, f.name, False)["i"]["resolved"]


def main():
    golden = {}
    for path in sorted(pathlib.Path(__file__).parent.glob("*.log")):
        log = path.read_bytes().decode()
        parser = max((f for f in FORMATS if path.stem.startswith(f)), key=len)
        # newline=None of open() is what the harness reads logs with.
        status = FORMATS[parser](log.replace("\r\n", "\n").replace("\r", "\n"), None)
        asked = set(status) | {name[: name.index("[") + 3] for name in status if "[" in name} | {"no_such_test"}
        golden[path.name] = {
            "format": parser,
            "status": status,
            "fail_to_pass": sorted(n for n in asked if resolved(FORMATS[parser], log, 0, [n], [])),
            "pass_to_pass": sorted(n for n in asked if resolved(FORMATS[parser], log, 0, [], [n])),
            "asked": sorted(asked),
            "resolved_although_it_failed": sorted(n for n in asked if resolved(FORMATS[parser], log, 1, [n], [])),
        }
    pathlib.Path(__file__).with_name("golden.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


main()
