package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// A name that no test has is found before an answer is paid for.
func TestUnknownNames(t *testing.T) {
	v := open(t, verify.Config{Command: []string{find(t, python, "-c", "import unittest"), "-m", "unittest"}})
	tree := write(t, map[string]string{"price.py": "def gross(n): return n\n", "test_price.py": "import unittest\nfrom price import gross\n\nclass T(unittest.TestCase):\n    def test_gross(self):\n        for n in 1, 2:\n            with self.subTest(n=n):\n                self.assertEqual(gross(n), 2 * n)\n"})
	for name, want := range map[string]sdk.Outcome{
		"test_price.T.test_gross": sdk.Failed, "test_price.T.test_gross (n=1)": sdk.Failed,
		"test_price.T.test_nope": sdk.Inconclusive, "test_nope": sdk.Inconclusive, "test_price.T.test_nope[a/b]": sdk.Inconclusive,
	} {
		verdict := judge(t, v, &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: []string{name}}}, "")
		if verdict.Outcome != want || want == sdk.Inconclusive && !strings.Contains(verdict.Evidence, "no test of this name: "+name) {
			t.Errorf("%s: %s", name, verdict.Outcome)
		}
	}
}
