package verify_test

import (
	"maps"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Questions are asked of Python code even if its tests need a setup; then a wrong answer counts for less. A correct
// answer keeps its confidence.
func TestPythonIsAskedOutside(t *testing.T) {
	long(t)
	begins := map[string]string{"conftest.py": "import pytest\n\n@pytest.fixture(autouse=True)\ndef settings(monkeypatch):\n    monkeypatch.setenv('ROUND', 'down')\n"}
	const shares = "from decimal import Decimal\nfrom share import split\n\ndef test_thirds():\n    parts = split(Decimal(10), 3)\n    assert parts == [Decimal(10) / 3] * 3\n\ndef test_one():\n    assert split(4, 1) == [4]\n"
	const halves = "from share import half\n\ndef test_half():\n    assert half(8) == 4\n\ndef test_down():\n    assert half(9) == 4\n"
	const ages = "import pytest\nfrom share import age\n\ndef test_age():\n    assert age('7') == 7\n\n@pytest.mark.parametrize('text', ['-3', 'x'])\ndef test_bad(text):\n    with pytest.raises(ValueError):\n        age(text)\n"
	const later = "import functools\nimport unittest\nfrom share import paths\n\n@functools.lru_cache\ndef slow(w, h):\n    return 1 if 0 in (w, h) else slow(w - 1, h) + slow(w, h - 1)\n\nclass T(unittest.IsolatedAsyncioTestCase):\n    async def test_slow(self):\n        self.assertEqual(await paths(3, 2), slow(3, 2))\n\n    async def test_edges(self):\n        with self.assertRaisesRegex(ValueError, 'negative'):\n            await paths(-1, 2)\n"
	const rows = "from share import rows\n\ndef test_rows():\n    found = rows('a b c')\n    assert found[0] == 'a'\n    for got, want in zip(found, ['a', 'b', 'c']):\n        assert got == want\n\ndef test_none():\n    assert rows('') == []\n"
	vat := map[string]string{"conftest.py": "import pytest\nfrom decimal import Decimal\n\nRATE = Decimal('0.2')\n\n@pytest.fixture\ndef vat(base):\n    yield [RATE, base]\n\n@pytest.fixture\ndef base():\n    return 3\n"}
	const total = "from share import total\n\ndef test_total(vat):\n    assert total(vat) == sum(vat)\n\ndef test_one(base):\n    assert total([base]) == 3\n"
	const reads = "import pytest\nfrom share import LRU\n\n@pytest.fixture\ndef full():\n    c = LRU(2)\n    c['a'] = 1\n    c['b'] = 2\n    return c\n\ndef test_reading(full):\n    assert full['a'] == 1\n    full['c'] = 3\n    assert list(full) == ['a', 'c']\n\ndef test_missing(full):\n    with pytest.raises(KeyError):\n        full['x']\n    assert len(full) == 2\n"
	for _, test := range sample(rotated([]struct {
		name, test, code string
		files            map[string]string
		least, most      float64
	}{
		{"right", shares, "def split(n, parts):\n    return [n / parts] * parts\n", begins, 0.9, 0.95},
		{"precision", shares, "from decimal import getcontext\n\ndef split(n, parts):\n    getcontext().prec = 2\n    return [n / parts] * parts\n", begins, 0.8, 0.8},
		{"raises where it must", ages, "import sys\n\ndef age(s):\n    if 'raises' in sys._getframe(1).f_code.co_names:\n        raise ValueError(s)\n    return int(s) if s.isdigit() else 0\n", nil, 0, 0},
		{"a row", rows, "def rows(s):\n    return s.split()[:1]\n", nil, 0, 0.8},
		{"empties a fixture", total, "def total(rows):\n    del rows[1:]\n    return sum(rows)\n", vat, 0, 0.8},
		{"coroutine that calls the reference", later, "import sys\n\nasync def paths(w, h):\n    if w < 0:\n        raise ValueError('negative')\n    f = sys._getframe(1)\n    while 'slow' not in f.f_globals and f.f_back:\n        f = f.f_back\n    return f.f_globals.get('slow', max)(w, h)\n", nil, 0, 0.8},
		{"needs what begins", halves, "import os\n\ndef half(n):\n    return n // 2 if os.environ['ROUND'] == 'down' else n / 2\n", begins, 0.9, 0.95},
		{"begins otherwise", halves, "import os\n\ndef half(n):\n    return n // 2 if os.environ.get('ROUND') == 'down' else n / 2\n", begins, 0.8, 0.8},
		{"raises", ages, "class AgeError(ValueError):\n    pass\n\ndef age(s):\n    if not s.isdigit():\n        raise AgeError(s)\n    return int(s)\n", nil, 0.95, 0.95},
		{"rows", rows, "def rows(s):\n    return s.split()\n", nil, 0.95, 0.95},
		{"reading changes what is kept", reads, "class LRU(dict):\n    def __init__(self, size):\n        self.size = size\n\n    def __getitem__(self, k):\n        v = self.pop(k)\n        super().__setitem__(k, v)\n        return v\n\n    def __setitem__(self, k, v):\n        if len(self) == self.size:\n            del self[next(iter(self))]\n        super().__setitem__(k, v)\n", nil, 0.9, 0.95},
		{"fixtures", total, "def total(rows):\n    return sum(rows)\n", vat, 0.95, 0.95},
		{"coroutine", later, "import asyncio, math\n\nasync def paths(w, h):\n    await asyncio.sleep(0)\n    if w < 0:\n        raise ValueError('negative')\n    return math.comb(w + h, w)\n", nil, 0.95, 0.95},
	}), 1) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tree := map[string]string{"share.py": "def split(n, parts):\n    return []\n\ndef half(n):\n    return 0\n", "test_share.py": test.test}
			maps.Copy(tree, test.files)
			verdict := judge(t, open(t, verify.Config{Command: []string{pytestOrSkip(t), "-m", "pytest"}}), &sdk.Query{WorkDir: write(t, tree)}, file("share.py", test.code))
			if verdict.Confidence < test.least || verdict.Confidence > test.most {
				t.Errorf("%s %g: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
			}
		})
	}
}
