package verify_test

import (
	"maps"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Code in Python is asked outside of its tests whatever these begin with; what it answers then is held
// against it for less. A right answer is believed as before.
func TestPythonIsAskedOutside(t *testing.T) {
	long(t)
	begins := map[string]string{"conftest.py": "import pytest\n\n@pytest.fixture(autouse=True)\ndef settings(monkeypatch):\n    monkeypatch.setenv('ROUND', 'down')\n"}
	const shares = "from decimal import Decimal\nfrom share import split\n\ndef test_thirds():\n    parts = split(Decimal(10), 3)\n    assert parts == [Decimal(10) / 3] * 3\n\ndef test_one():\n    assert split(4, 1) == [4]\n"
	const halves = "from share import half\n\ndef test_half():\n    assert half(8) == 4\n\ndef test_down():\n    assert half(9) == 4\n"
	for _, test := range []struct {
		name, test, code string
		files            map[string]string
		least, most      float64
	}{
		{"right", shares, "def split(n, parts):\n    return [n / parts] * parts\n", begins, 0.9, 0.95},
		{"precision", shares, "from decimal import getcontext\n\ndef split(n, parts):\n    getcontext().prec = 2\n    return [n / parts] * parts\n", begins, 0.8, 0.8},
		{"needs what begins", halves, "import os\n\ndef half(n):\n    return n // 2 if os.environ['ROUND'] == 'down' else n / 2\n", begins, 0.9, 0.95},
		{"begins otherwise", halves, "import os\n\ndef half(n):\n    return n // 2 if os.environ.get('ROUND') == 'down' else n / 2\n", begins, 0.8, 0.8},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tree := map[string]string{"share.py": "def split(n, parts):\n    return []\n\ndef half(n):\n    return 0\n", "test_share.py": test.test}
			maps.Copy(tree, test.files)
			verdict := judge(t, open(t, verify.Config{Command: []string{pytestOrSkip(t), "-m", "pytest"}}), &sdk.Query{WorkDir: write(t, tree)}, file("share.py", test.code))
			if verdict.Outcome != sdk.Passed || verdict.Confidence < test.least || verdict.Confidence > test.most {
				t.Errorf("%s %g: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
			}
		})
	}
}
