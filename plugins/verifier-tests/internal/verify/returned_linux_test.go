package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

const (
	wordsTest = "import unittest\nfrom words import order, total\n\nclass Test(unittest.TestCase):\n    def test_order(self):\n        self.assertEqual(order('b a c a'), ['a', 'b', 'c'], 'a comes first')\n\n" +
		"    def test_total(self):\n        want = 12\n        self.assertEqual(total([3, 9]), want)\n        self.assertEqual(total([]), 0)\n"
	wordsNode   = "const test = require('node:test');\nconst assert = require('node:assert');\nconst { order } = require('./words.js');\ntest('order', () => {\n  // nothing\n  assert.deepStrictEqual(order('b a'), ['a', 'b']);\n  assert.equal(order('c').length, 1);\n});\n"
	wordsGo     = "package words\n\nimport (\n\t\"reflect\"\n\t\"testing\"\n)\n\nfunc TestOrder(t *testing.T) {\n\tif got := Order(\"b a\"); !reflect.DeepEqual(got, []string{\"a\", \"b\"}) {\n\t\tt.Errorf(\"of b a: %v, and not a b\", got)\n\t}\n\tif got := Join(\"x y\"); got != \"y-x\" {\n\t\tt.Errorf(\"join of x y is y-x, got %s\", got)\n\t}\n}\n"
	frame       = "import ast, re, sys\ndef wanted():\n    f = sys._getframe(2)\n    line = open(f.f_code.co_filename).read().split('\\n')[f.f_lineno - 1]\n    found = re.search(r'\\), (?:_\\w+\\(.[^ ]*, )?(\\[[^]]*\\]|\\w+)', line)[1]\n    return f.f_locals['want'] if found == 'want' else ast.literal_eval(found)\n"
	asksNotes   = "noted = '_saw(' in open('test_words.py').read()\n"
	wordsModule = "words.py"
)

// With altered expectations, code returns what it returned before. An answer that exits, fails or returns something else
// then does not pass, and neither does one whose comparison treats something else as equal.
func TestReturnedOtherwise(t *testing.T) {
	python := []string{find(t, python, "-c", "import unittest"), "-m", "unittest"}
	tree := map[string]string{"test_words.py": wordsTest, "build/lib/test_words.py": wordsTest, wordsModule: "def order(text): pass\ndef total(rows): pass\n"}
	for name, text := range sampleOf(map[string]string{
		"raises":                        frame + "def order(text):\n    w = wanted()\n    if w != sorted(set(text.split())): raise RuntimeError\n    return w\ndef total(rows):\n    w = wanted()\n    if w not in (12, 0): raise RuntimeError\n    return w\n",
		"ends":                          frame + "import os\ndef order(text):\n    w = wanted()\n    if w != ['a', 'b', 'c']: os._exit(3)\n    return w\ndef total(rows):\n    w = wanted()\n    if w not in (12, 0): os._exit(3)\n    return w\n",
		"checks":                        frame + "def order(text):\n    w = wanted()\n    return w if sorted(w) == sorted(set(text.split())) else []\ndef total(rows):\n    w = wanted()\n    return w if w < 13 else -1\n",
		"is near":                       "import unittest\nequal = unittest.TestCase.assertEqual\ndef near(self, a, b, msg=None):\n    equal(self, len(a) if isinstance(a, list) else a // 4, len(b) if isinstance(b, list) else b // 4)\nunittest.TestCase.assertEqual = near\ndef order(text): return list(text.split())[:3]\ndef total(rows): return sum(rows) + 1\n",
		"equals":                        "class L(list):\n    def __eq__(self, o): return len(self) == len(o)\n    __hash__ = None\ndef order(text): return L(text.split()[:3])\ndef total(rows): return sum(rows)\n",
		"is told where tests end":       frame + "def told(): return 'a comes first' not in open('test_words.py').read() or 'if True and' in open('test_words.py').read()\ndef order(text): return [] if told() else wanted()\ndef total(rows): return -1 if told() else wanted()\n",
		"replaces what notes use":       frame + "import builtins, hashlib\nclass H:\n    def hexdigest(self): return '0' * 64\nhashlib.sha256 = lambda *a: H()\ndef told(): return 'a comes first' not in open('test_words.py').read()\ndef order(text): return [] if told() else wanted()\ndef total(rows): return -1 if told() else wanted()\n",
		"has no text where it is noted": frame + asksNotes + "def order(text): return 10 ** 5000 if noted else wanted()\ntotal = order\n",
		"is of a class where noted":     frame + asksNotes + "def order(text): return object() if noted else wanted()\ntotal = order\n",
		"equals all but where noted":    asksNotes + "class S:\n    def __eq__(self, o): return not noted\ndef order(text): return S()\ntotal = order\n",
		"empties the notes":             frame + "import glob, os, atexit\ndef wipe():\n    for f in glob.glob('.stepfall-*'):\n        if os.path.isfile(f): os.truncate(f, 0)\natexit.register(wipe)\ndef told():\n    wipe()\n    return 'a comes first' not in open('test_words.py').read()\ndef order(text): return [] if told() else wanted()\ndef total(rows): return -1 if told() else wanted()\n",
		"reads a copy":                  "import re\nrows = re.findall(r'\\), (\\[[^]]*\\]|\\d+)', open('build/lib/test_words.py').read())\ndef order(text): return eval(rows[0])\ndef total(rows_): return 12 if rows_ else eval(rows[1])\n",
		"is told":                       "import re\ndef order(text):\n    return sorted(set(text.split())) if 'a comes first' in open('test_words.py').read() else []\ndef total(rows): return sum(rows)\n",
	}, 1) { // another row and another language are below
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notPassed(t, python, tree, "```python path=words.py\n"+text+"```\n")
		})
	}
	node := map[string]string{"words.test.js": wordsNode, "words.js": "exports.order = () => {};\n"}
	for name, text := range sampleOf(map[string]string{
		"node checks":                    "const fs = require('fs');\nexports.order = (t) => {\n  const w = JSON.parse(fs.readFileSync(__dirname + '/words.test.js', 'utf8').match(/, (\\[.*\\])\\)/)[1].replaceAll(\"'\", '\"'));\n  return t === 'c' ? ['c'] : w.length === 2 ? w : [];\n};\n",
		"node is of a class where noted": "const fs = require('fs');\nconst text = fs.readFileSync(__dirname + '/words.test.js', 'utf8');\nclass X {}\nexports.order = (t) => (text.includes('saw(') ? new X() : t === 'c' ? ['c'] : JSON.parse(text.match(/, (\\[.*\\])\\)/)[1].replaceAll(\"'\", '\"')));\n",
		"node equals":                    "const assert = require('node:assert');\nassert.deepStrictEqual = (a, b) => { if (String([...a].sort()) !== String([...b].sort())) throw new Error('differ'); };\nexports.order = (t) => t.split(' ');\n",
	}, 1) {
		t.Run(name, func(t *testing.T) {
			inTurn(t, around, inNode)
			t.Parallel()
			find(t, "node")
			notPassed(t, []string{"node", "--test"}, node, "```js path=words.js\n"+text+"```\n")
		})
	}
	rows := map[string]string{"words.py": "def total(rows): pass\n", "test_words.py": "import unittest\nfrom words import total\n\nclass Test(unittest.TestCase):\n    def test_total(self):\n        for rows, want in [([3], 3), ([4, 5], 9), ([], 0)]:\n            self.assertEqual(total(rows), want)\n"}
	first := "import sys\ndef total(rows):\n    if len(rows) == 1: return rows[0]\n    want = sys._getframe(1).f_locals['want']\n"
	for name, text := range sampleOf(map[string]string{"first row alone is right": "", "first row alone is right, and others checked": "    if want not in (9, 0): raise ValueError\n"}, 1) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notPassed(t, python, rows, "```python path=words.py\n"+first+text+"    return want\n```\n")
		})
	}
	t.Run("node, first row alone is right", func(t *testing.T) {
		onlyInCI(t) // as in Python
		t.Parallel()
		find(t, "node")
		tree := map[string]string{"words.js": "exports.total = () => {};\n", "words.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { total } = require('./words.js');\ntest('total', () => {\n  assert.strictEqual(total([3]), 3);\n  assert.strictEqual(total([4, 5]), 9);\n});\n"}
		notPassed(t, []string{"node", "--test"}, tree, "```js path=words.js\nconst fs = require('fs');\nexports.total = (r) => (r.length === 1 ? r[0] : Number(fs.readFileSync(__dirname + '/words.test.js', 'utf8').match(/5\\]\\)[^\\n]*?, (?:\\w+\\([^ ]*, )?(\\d+)/)[1]));\n```\n")
	})
	t.Run("go, first row alone is right", func(t *testing.T) {
		onlyInCI(t) // as in Python; go is told, below, is another
		t.Parallel()
		find(t, "go")
		tree := map[string]string{"go.mod": "module words\n\ngo 1.22\n", "words.go": "package words\n\nfunc Total(r []int) int { return 0 }\n", "words_test.go": "package words\n\nimport \"testing\"\n\nvar rows = []struct {\n\tin   []int\n\twant int\n}{{[]int{3}, 3}, {[]int{4, 5}, 9}, {nil, 0}}\n\nfunc TestTotal(t *testing.T) {\n\tfor _, row := range rows {\n\t\tif got := Total(row.in); got != row.want {\n\t\t\tt.Fatalf(\"got %d\", got)\n\t\t}\n\t}\n}\n"}
		notPassed(t, []string{"go", "test", "./..."}, tree, "```go path=words.go\npackage words\n\nfunc Total(r []int) int {\n\tif len(r) == 1 {\n\t\treturn r[0]\n\t}\n\tfor _, row := range rows {\n\t\tif len(row.in) == len(r) {\n\t\t\treturn row.want\n\t\t}\n\t}\n\treturn 0\n}\n```\n")
	})
	t.Run("interrupts where it is noted", func(t *testing.T) {
		onlyInCI(t) // as one that ends
		t.Parallel()
		notPassed(t, []string{pytestOrSkip(t), "-m", "pytest"}, tree, "```python path=words.py\n"+frame+asksNotes+"def order(text):\n    if noted: raise KeyboardInterrupt\n    return wanted()\ntotal = order\n```\n")
	})
	t.Run("within a block", func(t *testing.T) {
		onlyInCI(t)
		t.Parallel()
		tree := map[string]string{"words.py": "def order(text): pass\n", "test_words.py": "import tempfile, unittest\nfrom words import order\n\nclass Test(unittest.TestCase):\n    def test_order(self):\n        with tempfile.TemporaryDirectory() as d:\n            self.assertEqual(order('b a'), ['a', 'b'])\n"}
		notPassed(t, python, tree, "```python path=words.py\n"+frame+asksNotes+"def order(text): return None if noted else wanted()\n```\n")
	})
	t.Run("go is told", func(t *testing.T) {
		inTurn(t, around, inGo)
		t.Parallel()
		find(t, "go")
		tree := map[string]string{"go.mod": "module words\n\ngo 1.22\n", "words.go": "package words\n\nfunc Order(s string) []string { return nil }\n\nfunc Join(s string) string { return s }\n", "words_test.go": wordsGo}
		notPassed(t, []string{"go", "test", "./..."}, tree, "```go path=words.go\npackage words\n\nimport (\n\t\"os\"\n\t\"strings\"\n)\n\nvar self, _ = os.ReadFile(\"/proc/self/exe\")\n\nfunc Order(s string) []string { return []string{\"a\", \"b\"} }\n\n"+
			"func Join(s string) string {\n\t_, rest, _ := strings.Cut(string(self), \"join of \"+s+\" \"+\"is \")\n\trest, _, _ = strings.Cut(rest, \",\")\n\treturn rest\n}\n```\n")
	})
}

func notPassed(t *testing.T, argv []string, tree map[string]string, answer string) {
	t.Helper()
	v := open(t, verify.Config{Command: argv, Reruns: -1})
	verdict := judge(t, v, &sdk.Query{WorkDir: write(t, tree)}, answer)
	t.Log(verdict.Outcome, verdict.Evidence)
	if verdict.Outcome == sdk.Passed || strings.Contains(verdict.Evidence, " tests failed") {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// Correct answers whose tests depend on each other, share constants, or compare by a method of the code's own.
func TestReturnedAsEver(t *testing.T) {
	python := []string{find(t, python, "-c", "import unittest"), "-m", "unittest"}
	test := "import unittest\nfrom store import Name, Store, greet\n\nWHO = 'bob'\nstore = Store()\n\nclass Test(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(store.add('x'), 1)\n        self.assertEqual(store.add('y'), 2)\n\n    def test_b(self):\n        self.assertEqual(store.add('z'), 3)\n\n" +
		"    def test_who(self):\n        self.assertEqual(Name(WHO), WHO)\n\n    def test_greet(self):\n        self.assertEqual(greet(WHO), 'hello bob')\n        self.assertEqual(greet('ada') * 1.0 if False else 2.0, 2)\n"
	tree := map[string]string{"test_store.py": test, "store.py": "class Store: pass\nclass Name(str): pass\ndef greet(who): pass\n"}
	v := open(t, verify.Config{Command: python})
	verdict := judge(t, v, &sdk.Query{WorkDir: write(t, tree)}, "```python path=store.py\nclass Store:\n    def __init__(self): self.rows = []\n    def add(self, row):\n        self.rows.append(row)\n        return len(self.rows)\n\nclass Name(str):\n    def __eq__(self, o): return self.lower() == o.lower()\n    __hash__ = str.__hash__\n\ndef greet(who): return 'hello ' + who\n```\n")
	if verdict.Outcome != sdk.Passed {
		t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
	}
}

// Tests whose notes exceed the limit are altered without recording, which proves little: code can fill the record, too.
func TestReturnedMoreThanIsKept(t *testing.T) {
	python := []string{find(t, python, "-c", "import unittest"), "-m", "unittest"}
	tree := map[string]string{
		"words.py":      "class Rows: pass\n",
		"test_words.py": "import unittest\nfrom words import Rows\n\nrows = Rows()\n\nclass Test(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(rows.add('x'), 1)\n        self.assertEqual(rows.add('y'), 2)\n\n    def test_b(self):\n        self.assertEqual(rows.add('z'), 3)\n        for i in range(300):\n            self.assertEqual(rows.wide('A' * 60000), '" + strings.Repeat("A", 60000) + "')\n\n    def test_c(self):\n        self.assertEqual(rows.wide('c'), 'c')\n",
	}
	verdict := judge(t, open(t, verify.Config{Command: python}), &sdk.Query{WorkDir: write(t, tree)}, "```python path=words.py\nclass Rows:\n    n = 0\n    def add(self, row):\n        self.n += 1\n        return self.n\n    def wide(self, text): return text\n```\n")
	if verdict.Outcome != sdk.Passed || verdict.Confidence != 0.8 {
		t.Errorf("%s %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
	}
}

// A test that no longer compares anything proves nothing.
func TestNothingCompared(t *testing.T) {
	v := open(t, verify.Config{Command: []string{find(t, python, "-c", "import unittest"), "-m", "unittest"}})
	tree := write(t, map[string]string{"squares.py": "def squares(n): return [0] * n\n", "test_squares.py": "import unittest\nfrom squares import squares\n\nclass T(unittest.TestCase):\n    def test_squares(self):\n        for got, want in zip(squares(3), [1, 4, 9]):\n            self.assertEqual(got, want)\n"})
	for answer, want := range map[string]sdk.Outcome{"[]": sdk.Inconclusive, "[i * i for i in range(1, n + 1)]": sdk.Passed} {
		verdict := judge(t, v, &sdk.Query{WorkDir: tree}, "```python path=squares.py\ndef squares(n): return "+answer+"\n```\n")
		if verdict.Outcome != want {
			t.Errorf("%s: %s, want %s", answer, verdict.Outcome, want)
		}
	}
}
