package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// A name that no test has is detected before an answer is paid for.
func TestUnknownNames(t *testing.T) {
	v := open(t, verify.Config{Command: []string{find(t, python, "-c", "import unittest"), "-m", "unittest"}})
	tree := write(t, map[string]string{"price.py": "def gross(n): return n\n", "test_price.py": "import unittest\nfrom price import gross\n\nclass T(unittest.TestCase):\n    def test_gross(self):\n        for n in 1, 2:\n            with self.subTest(n=n):\n                self.assertEqual(gross(n), 2 * n)\n", "test_other.py": "import unittest\n\nclass T(unittest.TestCase):\n    def test_nothing(self):\n        pass\n"})
	for name, want := range map[string]sdk.Outcome{
		"test_price.T.test_gross": sdk.Failed, "test_price.T.test_gross (n=1)": sdk.Failed,
		"test_price.T": sdk.Failed, "test_price.T.test_gros": sdk.Inconclusive, "test_price.gross": sdk.Inconclusive, "test_other.T.test_gross": sdk.Inconclusive,
		"test_price.T.test_nope": sdk.Inconclusive, "test_nope": sdk.Inconclusive, "test_price.T.test_nope[a/b]": sdk.Inconclusive,
	} {
		verdict := judge(t, v, &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: []string{name}}}, "")
		if verdict.Outcome != want || want == sdk.Inconclusive && !strings.Contains(verdict.Evidence, "no test of this name: "+name) {
			t.Errorf("%s: %s", name, verdict.Outcome)
		}
	}
}

// The name of a block in Node means all tests in it, whatever else has a similar name.
func TestNamesOfBlocks(t *testing.T) {
	v := open(t, verify.Config{Command: []string{find(t, "node", "--test", "--version"), "--test"}, Reruns: -1})
	tree := write(t, map[string]string{
		"calc.js": "exports.add = (a, b) => a - b;\nexports.half = (a) => a;\n",
		"calc.test.js": "const { describe, it } = require('node:test');\nconst assert = require('node:assert');\nconst { add, half } = require('./calc.js');\n" +
			"describe('sums', () => {\n  it('adds', () => assert.strictEqual(add(2, 3), 5));\n  describe('of nothing', () => it('zero', () => assert.strictEqual(add(0, 0), 0)));\n});\n" +
			"describe('halves', () => {\n  it('of four', () => assert.strictEqual(half(4), 2));\n  it('zero', () => assert.strictEqual(half(0), 0));\n});\n",
	})
	const adds, halves, breaks = "exports.add = (a, b) => a + b;\n", "exports.half = (a) => a / 2;\n", "exports.half = (a) => a + 1;\n"
	const still = "exports.half = (a) => a;\n"
	for _, test := range []struct {
		name, code string
		want       sdk.Outcome
	}{
		{"sums", adds + still, sdk.Passed},
		{"sums adds", adds + still, sdk.Passed},
		{"sums", adds + breaks, sdk.Failed},
		{"halves", adds + still, sdk.Failed},
		{"halves", adds + halves, sdk.Passed},
		{"of nothing", adds + halves, sdk.Inconclusive}, // it passes before
	} {
		verdict := judge(t, v, &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: []string{test.name}}}, "```js path=calc.js\n"+test.code+"```\n")
		if verdict.Outcome != test.want {
			t.Errorf("%s, %q: %s, want %s", test.name, test.code, verdict.Outcome, test.want)
		}
	}
}
