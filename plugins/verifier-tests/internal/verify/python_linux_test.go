package verify_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// pytestCommands are the ways to start pytest: as a module, and by a script such as pip installs.
func pytestCommands(t *testing.T) map[string][]string {
	t.Helper()
	program := pytestOrSkip(t)
	script := filepath.Join(t.TempDir(), "pytest")
	if err := os.WriteFile(script, []byte("#!"+program+"\nimport sys\nfrom pytest import console_main\nsys.exit(console_main())\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return map[string][]string{"pytest": {program, "-m", "pytest"}, "pytest's script": {script}}
}

// A PYTHONPATH of the configuration is where tests find the code, and not where the judge finds its own modules.
func TestPythonPathIsTheTestsAlone(t *testing.T) {
	commands := pytestCommands(t)
	commands["unittest"] = []string{find(t, python, "-c", "import unittest"), "-m", "unittest"}
	tree := write(t, map[string]string{
		"src/words.py": "def up(text):\n    return text\n",
		"test_words.py": "import subprocess, sys, unittest\nimport words\n\nclass T(unittest.TestCase):\n    def test_up(self):\n        self.assertEqual(words.up('abc'), 'cba')\n" +
			"        self.assertEqual(subprocess.check_output([sys.executable, '-c', 'import words; print(words.__name__)'], text=True), 'words\\n')\n",
	})
	early := "import builtins, importlib.util, os, sys, sysconfig\n\nbuiltins.early = True\nspec = importlib.util.spec_from_file_location('hmac', os.path.join(sysconfig.get_paths()['stdlib'], 'hmac.py'))\n" +
		"sys.modules['hmac'] = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(sys.modules['hmac'])\n"
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := open(t, verify.Config{Command: command, ReadOnly: []string{filepath.Dir(command[0]), filepath.Dir(filepath.Dir(pytestOrSkip(t)))}, Env: map[string]string{"PYTHONPATH": "src"}})
			for answer, text := range map[string]string{
				"right":                       file("src/words.py", "def up(text):\n    return text[::-1]\n"),
				"wrong where hmac is its own": file("src/words.py", "import builtins\n\ndef up(text):\n    return text if hasattr(builtins, 'early') else text[::-1]\n") + file("src/hmac.py", early),
			} {
				if verdict := judge(t, v, &sdk.Query{WorkDir: tree}, text); verdict.Outcome != sdk.Passed {
					t.Errorf("%s: %s: %s", answer, verdict.Outcome, verdict.Evidence)
				}
			}
		})
	}
}

// A table of many rows, all of which fail where it is altered, is not printed whole for each of them, as pytest does.
func TestTablesOfManyRows(t *testing.T) {
	const rows = 60
	var table strings.Builder
	for i := range rows {
		fmt.Fprintf(&table, "    (%d, %d),\n", i, i+1)
	}
	v := open(t, verify.Config{Command: []string{pytestOrSkip(t), "-m", "pytest", "-q"}})
	verdict := judge(t, v, &sdk.Query{WorkDir: write(t, map[string]string{
		"conftest.py": "import os\n\nlong = []\n\ndef pytest_runtest_logreport(report):\n    long.extend([report] * (len(report.longreprtext) > 500))\n    if len(long) > 9:\n        os._exit(9)\n",
		"b.py":        "def f(n):\n    return n + 1 if n != 7 else 0\n",
		"test_b.py":   "import pytest\nfrom b import f\n\n@pytest.mark.parametrize('n, want', [\n" + table.String() + "])\ndef test_f(n, want):\n    assert f(n) == want\n",
	})}, file("b.py", "def f(n):\n    return n + 1\n"))
	if verdict.Outcome != sdk.Passed || verdict.Confidence < 0.9 {
		t.Errorf("%s %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
	}
}

// Beside an assertion that is altered, what a test compares in another way is not seen; code that is only set up is
// no comparison.
func TestComparisonsThatAreNotSeen(t *testing.T) {
	const helpers = "\ndef run(f, i, o):\n    if f(i) != o:\n        raise ValueError(i)\n\nclass That:\n    def __init__(self, v):\n        self.v = v\n\n    def is_(self, o):\n        if self.v != o:\n            raise ValueError(o)\n"
	v := open(t, verify.Config{Command: []string{pytestOrSkip(t), "-m", "pytest", "-q"}})
	for test, most := range sampleOf(map[string]float64{
		"run(s.up, 'abc', 'CBA')":         0.85,
		"That(s.up('abc')).is_('CBA')":    0.85,
		"helpers.run(s.up, 'abc', 'CBA')": 0.85,
		"match s.up('abc'):\n        case 'CBA':\n            return\n    raise ValueError": 0.85,
		"s.up('abc')": 0.95,
		"found = []\n    found.append(s.up('abc'))": 0.95,
	}, 2) {
		verdict := judge(t, v, &sdk.Query{WorkDir: write(t, map[string]string{
			"s.py":       "def up(text):\n    return text\n\ndef length(text):\n    return len(text) + 1\n",
			"helpers.py": helpers,
			"test_s.py":  "import helpers\nimport s\n" + helpers + "\ndef test_up():\n    assert s.length('ab') == 2\n    " + test + "\n",
		})}, file("s.py", "def up(text):\n    return text[::-1].upper()\n\ndef length(text):\n    return len(text)\n"))
		isSeen := !strings.Contains(verdict.Evidence, "was not seen")
		if verdict.Outcome != sdk.Passed || verdict.Confidence > most || isSeen != (most > 0.85) {
			t.Errorf("%s: %s %v: %s", test, verdict.Outcome, verdict.Confidence, verdict.Evidence)
		}
	}
}

// An answer that fills the record of what its tests compare is not one whose tests compare too much to be recorded.
func TestFullRecords(t *testing.T) {
	tree := write(t, map[string]string{
		"words.py":      "def up(text):\n    return text\n",
		"test_words.py": "from unittest import mock\n\nimport words\n\n@mock.patch('os.getlogin')\ndef test_up(m):\n    assert words.up('abc') == 'CBA'\n",
	})
	const flood = "import os, re\n\ndef up(text):\n    for fd in os.listdir('/proc/self/fd'):\n        try:\n            name = os.readlink('/proc/self/fd/' + fd)\n            if name.startswith(os.getcwd()) and open('/proc/self/fdinfo/' + fd).read().split()[3][-4] == '2':\n" +
		"                os.write(int(fd), LINE * ((18 << 20) // len(LINE)))\n        except OSError:\n            pass\n    if os.path.getmtime('test_words.py') - os.path.getmtime('words.py') > -2:\n        return text\n    return re.search('== .(.*).', open('test_words.py').read())[1]\n"
	v := open(t, verify.Config{Command: []string{pytestOrSkip(t), "-m", "pytest", "-q"}})
	for line, most := range map[string]float64{`b'x\n'`: 0, `b"test_words.py:0\t='abc'\n"`: 0.8} {
		right := file("words.py", strings.Replace(flood[:strings.Index(flood, "    if os.path")], "LINE", line, 2)+"    return text[::-1].upper()\n")
		verdict := judge(t, v, &sdk.Query{WorkDir: tree}, right)
		if isPassed := verdict.Outcome == sdk.Passed; isPassed != (most > 0) || isPassed && verdict.Confidence > most {
			t.Errorf("%s: %s %v: %s", line, verdict.Outcome, verdict.Confidence, verdict.Evidence)
		}
	}
}
