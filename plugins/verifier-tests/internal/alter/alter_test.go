package alter

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// alterOne returns sources altered by the program of their language.
func alterOne(t *testing.T, request *Request) []Source {
	t.Helper()
	language := Language(request.Files[0].Path)
	if Languages[language].Text == "" {
		return request.Alter()
	}
	interpreter := map[string]string{"python": "python3", "node": "node"}[language]
	program, dir := Languages[language], t.TempDir()
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{program.Name: program.Text, "request": string(data)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(interpreter, append(slices.Clone(program.Arguments), program.Name, "request", "altered")...)
	command.Dir = dir
	if _, err := exec.LookPath(interpreter); err != nil {
		t.Skipf("no %s here", interpreter)
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	written, err := os.ReadFile(filepath.Join(dir, "altered"))
	if err != nil {
		t.Fatal(err)
	}
	var altered []Source
	if err := json.Unmarshal(written, &altered); err != nil {
		t.Fatal(err)
	}
	return altered
}

const (
	goSource1 = "package a\n\nimport (\n\t\"errors\"\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) {\n\tif got := f(1); got != 5 {\n\t\tt.Error(got)\n\t}\n\tif err := g(); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n\n" +
		"func TestTable(t *testing.T) {\n\tfor _, c := range []struct{ in, want string }{{in: \"a\", want: \"b\"}, {\"c\", \"d\"}} {\n\t\tif f(c.in) != c.want {\n\t\t\tt.Error()\n\t\t}\n\t}\n}\n\nfunc TestHelper(t *testing.T) {\n\tsame(t, []pair{{in: 1, want: 2}})\n}\n\nfunc TestNothing(t *testing.T) { f(5) }\n\n" +
		"func TestComparer(t *testing.T) {\n\twant := P{7, 8}\n\tif got := f(9); !got.Equal(want) {\n\t\tt.Error(got, want)\n\t}\n}\n\nfunc TestIs(t *testing.T) {\n\tif !errors.Is(f(), ErrA) {\n\t\tt.Error()\n\t}\n}\n\nfunc TestTruth(t *testing.T) {\n\tif err := g(); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n\n" +
		"func ExampleF() {\n\tprint(7)\n\t// Output: 7\n}\n"
	pythonSource = "from __future__ import annotations\nimport unittest, pytest\n\nCASES = [(1, 'one')]\n\ndef test_a():\n    want = 5\n    assert f(2) == want\n    assert 'x' in g()\n    with pytest.raises(ValueError):\n        h()\n\n" +
		"@pytest.mark.parametrize('n,want', [(3, 'three')])\ndef test_table(n, want):\n    assert f(n) == want\n\ndef test_loop():\n    for n, want in CASES:\n        if f(n) != want:\n            raise AssertionError\n\ndef test_comparer():\n    assert f().equals(P(1, 2))\n\n" +
		"def test_raises():\n    with pytest.raises(KeyError):\n        h()\n\nclass T(unittest.TestCase):\n    @unittest.skip('later')\n    def test_b(self):\n        self.assertTrue(f(2))\n\n    def test_nothing(self):\n        f(5)\n\nclass S(T):\n    pass\n"
	nodeSource = "import test from 'node:test';\nimport assert from 'node:assert';\ntest('a', async () => { assert.strictEqual(f(2), 5); assert.ok(g()); });\ntest('b', () => { expect(f(2)).toEqual([1]); });\ntest('throws', () => { assert.throws(() => h()); });\n" +
		"test('truth', () => { assert.ok(g()); expect(g()).toBeDefined(); });\nfor (const [n, want] of [[3, 'three']]) test('n' + n, () => assert.equal(f(n), want));\ntest('nothing', () => f(5));\n"
	shellSource1 = "#!/bin/sh\ngot=$(./tool 1)\nif [ \"$got\" != one ]; then exit 1; fi\n[ \"$1\" = -v ] && set -x\n./tool 2 | grep -q two\n"
)

const (
	rustSource = "fn main() {\n    assert_eq!(add(0, 0), 0);\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(\n            add(2, 3), 5, \"}} {:?}\", OPEN);\n    }\n\n    fn check(b: u8) {\n        print(b);\n    }\n\n    #[test]\n    fn holds() { assert!(even(b)); }\n}\n"
	javaSource = "class A {\n    @Test\n    public void adds() throws Exception {\n        int five = 5;\n        Assertions.assertEquals(5,\n            Calc.add(2, 3), \"sum\");\n    }\n\n    void check(int x) {\n        use(x);\n    }\n\n    @Test\n    void holds() {\n        assertTrue(Calc.even(x));\n    }\n}\n"
)

func TestWays(t *testing.T) {
	for _, c := range []struct {
		path, text string
		way        Way
		tests      string
		has, lacks []string
	}{
		{"a_test.go", goSource1, Expectation, "TestA TestTable TestHelper TestComparer TestIs TestTruth ExampleF", []string{"f(5)", "f(9)", "in: 1", `{in: "a", `, `{"c", "`, "errors.New(", "if err := g(); !(err != nil)"}, []string{"got != 5 {", "want: 2}", `want: "b"`, `"d"`, "P{7, 8}", "ErrA"}},
		{"a_test.go", goSource1, Reach, "TestA TestTable TestHelper TestComparer TestIs TestTruth", []string{"(got != 5) || true", "(f(c.in) != c.want) || true"}, nil},
		{"a_test.go", goSource1, End, "TestA TestTable TestHelper TestNothing TestComparer TestIs TestTruth", []string{"{defer t.Fail(); f(5) }"}, nil},
		{"a.py", pythonSource, Expectation, "test_a test_table test_loop test_comparer test_raises T.test_b S.test_b", []string{"f(5)", "assertTrue((True) is not bool(f(2)))", "[(3, '", "(1, '", "raises(ValueError)"}, []string{"want = 5\n", "'x'", "P(1, 2)", "raises(KeyError)", "(3, 'three')", "(1, 'one')"}},
		{"a.py", pythonSource, Reach, "test_a test_table test_loop test_comparer test_raises T.test_b S.test_b", []string{"want = 5\n", "_fail()", "(3, 'three')"}, nil},
		{"a.py", pythonSource, End, "test_a test_table test_loop test_comparer test_raises T.test_b T.test_nothing S.test_b S.test_nothing", []string{"assertTrue(f(2))", "_end\n    def test_nothing"}, nil},
		{"a.mjs", nodeSource, Expectation, "a b throws truth *", []string{"f(5)", "!(g())", "assert.ok(g()); });", ".not.toBeDefined", "[[3, '"}, []string{"f(2), 5)", "toEqual([1])", "h()", "'three']"}},
		{"a.mjs", nodeSource, Reach, "a b throws truth *", []string{"_fail()", "'three'"}, []string{"f(2), 5)"}},
		{"a.mjs", nodeSource, End, "a b throws truth * nothing", []string{"f(2), 5)", "_end(() => f(5))"}, nil},
		{"a.js", "[{ n: 4, want: 'IV' }].forEach(({ n, want }) => { it(`gives ${want}`, () => { assert.equal(f(n), want); }); });\n", Expectation, "*", []string{"n: 4", "want: '", "f(n), want)"}, []string{"'IV'"}},
		{"test.sh", shellSource1, Expectation, "", []string{"!= ", `"$1" = -v ]`, "-q "}, []string{"!= one ]", "-q two\n"}},
		{"test.sh", shellSource1, End, "", []string{"#!/bin/sh\nexit 1;got="}, nil},
		{"calc_test.c", "int main(void) {\n\tassert(add(2, 3) == 5);\n}\n", Expectation, "main", []string{"assert(add("}, []string{"== 5"}},
		{"calc_test.c", "int main(void) {\n\tassert(add(2, 3) == 5);\n}\n", End, "main", []string{"{__builtin_trap();"}, nil},
		{"a.rs", rustSource, Expectation, "adds holds", []string{"assert_eq!(add(0, 0), 0);\n}\n\n#[cfg", "assert!(!(even(", `"}} {:?}`}, []string{", 5,", "assert!(even(b))"}},
		{"a.rs", rustSource, Reach, "adds holds", []string{"        ::std::panic::panic_any(0);assert_eq!(\n", "{ ::std::panic::panic_any(0);assert!(even(b)); }"}, nil},
		{"a.rs", rustSource, End, "adds holds", []string{"fn adds() {::std::panic::panic_any(0);\n", "fn check(b: u8) {\n"}, nil},
		{"A.java", javaSource, Expectation, "adds holds", []string{"int five = 5;", "assertFalse(Calc.even(x))"}, []string{"Equals(5,"}},
		{"A.java", javaSource, Reach, "adds holds", []string{"if (1 > 0) throw new java.lang.AssertionError();Assertions.assertEquals(5"}, nil},
		{"A.java", javaSource, End, "adds holds", []string{"void adds() throws Exception {if (1 > 0)", "void check(int x) {\n"}, nil},
	} {
		t.Run(c.path+" "+string(c.way), func(t *testing.T) {
			altered := alterOne(t, &Request{Way: c.way, Seed: 1 << 62, Files: []Source{{Path: c.path, Text: c.text}}})
			if len(altered) != 1 || strings.Join(altered[0].Tests, " ") != c.tests || altered[0].Count == 0 {
				t.Fatalf("altered %+v, want %s", altered, c.tests)
			}
			text := altered[0].Text
			if strings.HasSuffix(c.path, ".go") {
				if _, err := parser.ParseFile(token.NewFileSet(), c.path, text, parser.AllErrors); err != nil {
					t.Error(err)
				}
			}
			for _, passage := range c.has {
				if !strings.Contains(text, passage) {
					t.Errorf("lacks %q:\n%s", passage, text)
				}
			}
			for _, passage := range c.lacks {
				if strings.Contains(text, passage) {
					t.Errorf("still has %q:\n%s", passage, text)
				}
			}
		})
	}
}

// Comments and messages that mention an expected value are altered with it; inputs of the code are not.
func TestMentions(t *testing.T) {
	for path, text := range map[string]string{
		"test_a.py": "import a\n\n# 4 is IV, 1994 is MCM\ndef test_a(self):\n    assert a.f('IV x') == 'IV', \"want IV %d\" # IV\n    self.assertEqual(a.f('MCM'), 1994, f'want 1994 {x}')\n",
		"a.mjs":     "// 4 is IV, 1994 is MCM\ntest('a', () => { assert.equal(f('IV x'), 'IV', `want IV ${x}`); /* IV */ assert.equal(f('MCM'), 1994, 'want 1994'); });\n",
		"a.rs":      "#[test]\nfn a() {\n    // 4 is IV, 1994 is MCM\n    assert_eq!(f(\"IV x\"), \"IV\"); // IV\n    assert_eq!(f(\"MCM\"), 1994);\n}\n",
		"a.sh":      "# 4 is IV, 1994 is MCM\n[ \"$(./f 'IV x')\" = IV ] # IV\n[ \"$(./f 'MCM')\" = 1994 ]\n",
	} {
		for _, record := range []string{"", ".record"} {
			altered := alterOne(t, &Request{Way: Expectation, Seed: 5, Record: record, Files: []Source{{Path: path, Text: text}}})
			if len(altered) != 1 || !strings.Contains(altered[0].Text, " is MCM") || !strings.Contains(altered[0].Text, "IV x") {
				t.Fatalf("%s: %+v", path, altered)
			}
			if found := regexp.MustCompile(`\bIV\b( [^x]|$)|\b1994\b`).FindString(altered[0].Text); found != "" {
				t.Errorf("%s still says %q:\n%s", path, found, altered[0].Text)
			}
		}
	}
}

// A row that one of two tests passes to the code is not altered if they share the table; in a separate table it is.
func TestTablesBothWays(t *testing.T) {
	for path, text := range map[string]string{
		"test_a.py": "ROWS = [('aa', '2a')]\nOTHERS = {'x': {'in': 3, 'out': 'b'}}\n\ndef test_a():\n    for row in ROWS:\n        assert a.encode(row[0]) == row[1]\n    assert a.f(OTHERS['x']['in']) == OTHERS['x']['out']\n\ndef test_b():\n    for r in ROWS:\n        assert a.decode(r[1]) == r[0]\n",
		"a.mjs":     "const rows = [['aa', '2a']], others = { x: { in: 3, out: 'b' } };\ntest('a', () => { for (const row of rows) assert.equal(encode(row[0]), row[1]); assert.equal(f(others.x.in), others.x.out); });\ntest('b', () => { for (const r of rows) assert.equal(decode(r[1]), r[0]); });\n",
	} {
		altered := alterOne(t, &Request{Way: Expectation, Seed: 5, Files: []Source{{Path: path, Text: text}}})
		if len(altered) != 1 || !strings.Contains(altered[0].Text, "['aa', '2a']") && !strings.Contains(altered[0].Text, "('aa', '2a')") || strings.Contains(altered[0].Text, "'b' }") || strings.Contains(altered[0].Text, "'b'}") {
			t.Errorf("%s: %+v", path, altered)
		}
	}
}

// A table with inputs beside expected values is not exchanged for another one, which the code would answer correctly
// too.
func TestTablesAreNotBorrowed(t *testing.T) {
	for file, text := range map[string]string{
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tcheck(t, map[string]string{\"in 1\": \"XIV\"})\n\tcheck(t, [][2]string{{\"in 1\", \"XIV\"}})\n}\n\nfunc TestB(t *testing.T) {\n\tcheck(t, map[string]string{\"in 2\": \"MCM\"})\n\tcheck(t, [][2]string{{\"in 2\", \"MCM\"}})\n}\n",
		"a.py":      "def test_a():\n    check(f, {\"in 1\": \"XIV\"})\n    check(f, [(\"in 1\", \"XIV\")])\n\ndef test_b():\n    check(f, {\"in 2\": \"MCM\"})\n    check(f, [(\"in 2\", \"MCM\")])\n",
		"a.js":      "test('a', () => { check(f, { 'in 1': \"XIV\" }); check(f, [[\"in 1\", \"XIV\"]]); });\ntest('b', () => { check(f, { 'in 2': \"MCM\" }); check(f, [[\"in 2\", \"MCM\"]]); });\n",
	} {
		for seed := range uint64(2) {
			for _, altered := range alterOne(t, &Request{Way: Expectation, Seed: seed, Files: []Source{{Path: file, Text: text}}}) {
				if strings.Contains(altered.Text, `"XIV"`) || strings.Contains(altered.Text, `"MCM"`) {
					t.Errorf("%s expects what another test does:\n%s", file, altered.Text)
				}
			}
		}
	}
}

// A text keeps its form, so code that extracts something that looks like a result gets the altered one.
func TestForm(t *testing.T) {
	for file, text := range map[string]string{
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif f() != \"2024-01-31 MCM e.g.\\n\" {\n\t\tt.Error()\n\t}\n}\n",
		"a.py":      "def test_a():\n    assert f() == \"2024-01-31 MCM e.g.\\n\"\n",
		"a_test.c":  "int main(void) {\n\tassert(strcmp(f(), \"2024-01-31 MCM e.g.\\n\") == 0);\n}\n",
	} {
		altered := alterOne(t, &Request{Way: Expectation, Seed: 7, Files: []Source{{Path: file, Text: text}}})[0].Text
		if !regexp.MustCompile(`"\d{4}-\d\d-\d\d [A-Z]{3} [a-z]\.[a-z]\.\\n"`).MatchString(altered) || strings.Contains(altered, "MCM") {
			t.Errorf("%s: %s", file, altered)
		}
	}
}

// Questions are not asked when no time is left.
func TestLateQuestions(t *testing.T) {
	for language, interpreter := range map[string]string{"python": "python3", "node": "node"} {
		if _, err := exec.LookPath(interpreter); err != nil {
			t.Skipf("no %s here", interpreter)
		}
		answers := answer(t, language, interpreter, `{"path": ["."], "options": [], "patience": -1, "groups": [[{"file": "a.py", "program": "raise 1", "value": "=1"}]]}`, nil)
		if strings.ReplaceAll(answers, " ", "") != `[["?late"]]` {
			t.Errorf("%s: %s", language, answers)
		}
	}
}

// answer has questions answered in a folder with files.
func answer(t *testing.T, language, interpreter, request string, files map[string]string) string {
	t.Helper()
	program, dir := Askers[language], t.TempDir()
	all := map[string]string{program.Name: program.Text, "request": request}
	maps.Copy(all, files)
	for name, text := range all {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(interpreter, program.Name, "request", "answers")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	answers, err := os.ReadFile(filepath.Join(dir, "answers"))
	if err != nil {
		t.Fatal(err)
	}
	return string(answers)
}

// Code in TypeScript is asked without its types, by a compiler of the tree if Node has none, and found as compilers find
// it, but finds its own files as they are. What fails then says nothing.
func TestQuestionsOfTypedCode(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no node here")
	}
	const compiler = "exports.transpileModule = (text) => ({ outputText: text.replace(/: \\w+/g, '') });\nexports.findConfigFile = () => undefined;\nexports.sys = {};\n"
	answers := answer(t, "node", "node", `{"options": [], "patience": 60, "groups": [
		[{"file": "test/a.test.ts", "program": "import { add } from \"../src\";\nconst _mode = \"\";\n_answer((add(2, 3)), _mode);"}],
		[{"file": "test/a.test.ts", "program": "import { lacks } from \"../src\";\n_answer((lacks()), _mode);"}],
		[{"file": "test/a.test.ts", "program": "import { isTyped } from \"../src/add\";\nconst _mode = \"\";\n_answer((isTyped()), _mode);"}]]}`, map[string]string{
		"node_modules/typescript/index.js": compiler, "test/a.txt": "", "src/index.ts": "export { add } from './add.js';\n", "src/add.ts": "import { readFileSync } from 'node:fs';\nexport const add = (a: number, b: number): number => a + b;\nexport const isTyped = () => readFileSync(new URL(import.meta.url), 'utf8').includes('a' + ': number');\n",
	})
	if stripped := `[["=5"],["!"],["=true"]]`; answers != stripped && !strings.HasPrefix(answers, `[["raised`) { // by a Node that strips types and finds no ../src
		t.Errorf("%s, want %s", answers, stripped)
	}
}

// ownText returns a source without the functions that altered tests call.
func ownText(altered string) string {
	altered = altered[max(0, strings.Index(altered, "def test_a")):]
	own, _, _ := strings.Cut(altered, "function ")
	return own
}

// An altered value reveals nothing of the original, in any draw. For conditions this holds if the language has
// something besides conditions to alter.
func TestNothingOfItsOwn(t *testing.T) {
	for file, c := range map[string]struct{ compared, truth, falsehood string }{
		"a_test.go": {"package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif f(1) != \"yes\" || h() != 150000 || f(2) != \"VI\" || r() != 'x' || g() != 2.5 {\n\t\tt.Error()\n\t}\n}\n", "", ""},
		"a.py": {"def test_a():\n    assert f(1) == \"yes\"\n    assert g(1) == True\n    assert g(2) is False\n    assert h() == 150000\n    assert f(2) == None\n",
			"def test_a():\n    assert f()\n", "def test_a():\n    assert not f()\n"},
		"a.js": {"test('a', () => { assert.strictEqual(f(1), \"yes\"); assert.strictEqual(g(1), true); assert.strictEqual(g(2), false); assert.strictEqual(h(), 150000); assert.strictEqual(f(2), null); });\n",
			"test('a', () => { assert.ok(f()); });\n", "test('a', () => { assert.ok(!f()); });\n"},
	} {
		truth := regexp.MustCompile(`_[a-z]{6}_|truth\(["'][^"']*["'],`)
		request := &Request{Way: Expectation, Record: ".record", Files: []Source{{Path: file, Text: c.compared}}}
		if c.truth != "" {
			request.Files = append(request.Files, Source{Path: file, Text: c.truth}, Source{Path: file, Text: c.falsehood})
		}
		for request.Seed = range 3 {
			var texts []string
			for _, altered := range alterOne(t, request) {
				texts = append(texts, ownText(altered.Text))
			}
			if regexp.MustCompile(`(==|!=|is|=", ?) ?\(?(["']yes|True|False|true|false|150000|null|None|"VI|'x'|2\.5)\b`).MatchString(texts[0]) {
				t.Errorf("says what it was: %s", texts[0])
			}
			if len(texts) > 1 && truth.ReplaceAllString(texts[1], "") != truth.ReplaceAllString(texts[2], "") {
				t.Errorf("tells a truth: %q", texts[1:])
			}
		}
	}
}

// A condition that chooses between two assertions of testify is not inverted with them: the test would pass as before.
func TestBranchesOfAssertions(t *testing.T) {
	const source = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tfor _, c := range cases {\n\t\terr := f(c.in)\n\t\tif c.wantErr {\n\t\t\trequire.Error(t, err)\n\t\t\tassert.Errorf(t, err, c.in)\n\t\t} else {\n\t\t\trequire.NoError(t, err)\n\t\t}\n\t\tif err == nil {\n\t\t\tt.Error(c.in, t)\n\t\t}\n\t\tif c.isBad {\n\t\t\tassert.Fail(t, c.in)\n\t\t}\n\t\tif c.isLogged {\n\t\t\tprint(err.Error())\n\t\t}\n\t}\n}\n"
	altered := alterOne(t, &Request{Way: Expectation, Record: ".record", Files: []Source{{Path: "a_test.go", Text: source}}})[0]
	for _, passage := range []string{"if c.wantErr {", "require.NoError(t, err)\n\t\t\tassert", "require.Error(t, err)\n\t\t}", "if !(err == nil) {", "if !(c.isBad) {", "if c.isLogged {"} {
		if !strings.Contains(altered.Text, passage) {
			t.Errorf("lacks %q:\n%s", passage, altered.Text)
		}
	}
}

// The methods of a suite of testify are tests, in which what is compared is altered and recorded.
func TestSuites(t *testing.T) {
	const runs = "package a\n\nimport \"testing\"\n\ntype base struct{ suite.Suite }\n\ntype S struct{ *base }\n\ntype other struct{ *testing.T }\n\nfunc TestAll(t *testing.T) {\n\tsuite.Run(t, new(S))\n}\n"
	const methods = "package a\n\nfunc (s *S) TestA() {\n\ts.Equal(6, f(3))\n\trequire := s.Require()\n\trequire.Equal(10, f(5))\n\tif err := g(); err != nil {\n\t\ts.Error(err)\n\t}\n}\n\nfunc (s *base) TestB() {\n\ts.NoError(g())\n}\n\nfunc (s *S) SetupTest() {\n\ts.Equal(7, f(3))\n}\n\nfunc (o other) TestC() {\n\to.Equal(8, f(3))\n}\n"
	files := []Source{{Path: "m_test.go", Text: methods}, {Path: "runs_test.go", Text: runs}}
	altered := alterOne(t, &Request{Way: Expectation, Record: ".record", Files: files})
	if len(altered) != 1 || !slices.Equal(altered[0].Tests, []string{"TestAll/TestA", "TestAll/TestB"}) || !slices.Equal(altered[0].Truths, []string{"TestAll/TestB"}) || !slices.Equal(altered[0].Hidden, altered[0].Tests) {
		t.Fatalf("%+v", altered)
	}
	if compared := altered[0].Compared; len(compared) != 2 || compared[0].Test != "TestAll/TestA" || !slices.Equal(compared[1].Values, []string{"=10"}) {
		t.Errorf("%+v", compared)
	}
	for _, passage := range []string{"err != nil", "\n\t\ts.Error(err)", "s.Error(g())", "Equal(7, ", "Equal(8, ", "func() { if r := recover()"} {
		if !strings.Contains(altered[0].Text, passage) {
			t.Errorf("lacks %q:\n%s", passage, altered[0].Text)
		}
	}
	if end := alterOne(t, &Request{Way: End, Files: files}); len(end) != 2 || !strings.Contains(end[0].Text, "{defer s.T().Fail();") {
		t.Errorf("%+v", end)
	}
}

// A test that hands its testing.T to what may compare unseen is named.
func TestHiddenTests(t *testing.T) {
	const frame = "package a\n\nimport \"testing\"\n\ntype holder struct{ t *testing.T }\n\nfunc own(t *testing.T, got string) {\n\tif got != \"y\" {\n\t\tt.Error(got)\n\t}\n}\n\nfunc wrap(t *testing.T) holder { return holder{t} }\n\nfunc TestA(t *testing.T) {\n\tif got := f(1); got != 5 {\n\t\tt.Fatal(got)\n\t}\n\t%s\n}\n"
	for more, want := range map[string]bool{
		"": false, "own(t, g(1))": false, "require.Equal(t, 5, f(1))": false, "require.NoError(t, g())": false,
		"t.Run(\"x\", func(t *testing.T) { own(t, g(2)) })": false, "is := func(t *testing.T) { own(t, g(2)) }\n\tis(t)": false,
		"holder{t}.is(g(1), \"CBA\")": true, "that(t, g(1)).is(\"CBA\")": true, "wrap(t).is(\"CBA\")": true, "check.Rows(t, g, \"a\", \"CBA\")": true,
		"var r reporter = t\n\texpect(r)": true, "t.Run(\"x\", up)": true, "require.True(t, g(1) == \"CBA\")": true, "require.Equal(t, rows[1], g(1))": true,
	} {
		altered := alterOne(t, &Request{Way: Expectation, Record: ".record", Files: []Source{{Path: "a_test.go", Text: fmt.Sprintf(frame, more)}}})
		if got := len(altered[0].Hidden) > 0; got != want {
			t.Errorf("%s: %v", more, got)
		}
	}
}

// A number without a fraction gets another one without, which fits where only whole numbers do.
func TestWholeNumbersStayWhole(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		for _, literal := range []string{"1e6", "5.0", "0.0", "123e3"} {
			other := otherLiteral(literal, random)
			before, _ := strconv.ParseFloat(literal, 64)
			after, err := strconv.ParseFloat(other, 64)
			if err != nil || after == before || after != math.Trunc(after) || !strings.Contains(other, ".") {
				t.Errorf("%s became %s", literal, other)
			}
		}
		if other := otherLiteral("2.5", random); strings.HasSuffix(other, ".0") {
			t.Errorf("2.5 became %s", other)
		}
	}
}

// A row accessed by its index, or by a pointer to it, belongs to the table.
func TestRowsByIndex(t *testing.T) {
	for _, row := range []string{"&cases[i]", "cases[i]"} {
		text := "package a\n\nimport \"testing\"\n\nvar cases = []struct{ in, want string }{{\"ab\", \"ba\"}, {\"cd\", \"dc\"}}\n\nfunc TestA(t *testing.T) {\n\tfor i := range cases {\n\t\tc := " + row + "\n\t\tif got := f(c.in); got != c.want {\n\t\t\tt.Error(got)\n\t\t}\n\t}\n}\n"
		altered := alterOne(t, &Request{Way: Expectation, Record: ".record", Files: []Source{{Path: "a_test.go", Text: text}}})
		if compared := altered[0].Compared; len(compared) != 1 || !slices.Equal(compared[0].Values, []string{`="ba"`, `="dc"`}) {
			t.Errorf("%s: %v", row, compared)
		}
	}
}

// The members of a set are not replaced by one another: the set would stay the same, and a correct answer would pass.
func TestSetsBecomeOtherSets(t *testing.T) {
	members := []string{`"1"`, `"2"`, `"3"`}
	list := strings.Join(members, ", ")
	files := make([]Source, 30)
	for i := range files {
		files[i] = Source{Path: fmt.Sprintf("test_a%d.py", i), Text: "def test_a():\n    assert f() == {" + list + "}\n"}
	}
	found := alterOne(t, &Request{Way: Expectation, Seed: 1, Files: files})
	file := Source{Path: "a_test.go", Text: "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif got := f(); !reflect.DeepEqual(got, []string{" + list + "}) {\n\t\tt.Error()\n\t}\n}\n"}
	for seed := range uint64(30) {
		found = append(found, (&Request{Way: Expectation, Seed: seed, Files: []Source{file}}).Alter()...)
	}
	if len(found) != 60 {
		t.Fatalf("%d files were altered, want 60", len(found))
	}
	for _, altered := range found {
		for _, member := range members {
			if strings.Contains(altered.Text, member) {
				t.Fatal(altered.Text)
			}
		}
	}
}

func otherLineOf(line string) string {
	s := assertionOf(line, strings.Index(line, "(")+1)
	c := s.comparison()
	text, _ := s.alter(&c, func(literal string) string { return otherLiteral(literal, rand.New(rand.NewPCG(1, 1))) })
	return text
}

// On a line, only the text that is compared with is altered, not a message, an input or a tolerance.
func TestLines(t *testing.T) {
	for line, expected := range map[string]string{
		`assert(strcmp(name(4), "IV") == 0);`: `"IV"`, `assert(memcmp(s, "AB", 2) == 0);`: `"AB"`, `assert_eq!(up("ab", 1), "AB");`: `"AB"`,
		`assertEquals("AB", up("ab"));`: `"AB"`, `assertTrue(up("ab").equals("AB"));`: `"AB"`,
	} {
		before, after, _ := strings.Cut(line, expected)
		if got := otherLineOf(line); got == line || !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
			t.Errorf("%s: %s", line, got)
		}
	}
	for line, gone := range map[string]string{`assertEquals("sum", 5, add(2, 3));`: ` 5,`, `assertEquals(5, add(2, 3), "sum");`: `Equals(5,`, `assertEquals(1.5, root(2.25), 0.01);`: `(1.5`} {
		if got := otherLineOf(line); strings.Contains(got, gone) || strings.Contains(line, "0.01") && !strings.Contains(got, "0.01") {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// An assertion whose result is called, as with AssertJ, or that is given a matcher, is altered at the values of the calls
// that compare, or else inverted. What the code returns is noted if it is what is compared.
func TestChainedAssertions(t *testing.T) {
	for _, test := range []struct{ line, want, note string }{
		{`assertThat(version).isEqualTo("1.8.0");`, `assertThat(version).isEqualTo("0.9.8");`, `="1.8.0"`},
		{`assertThat(f(1)).as("m 1").isNotNull().isEqualTo(5);`, `assertThat(f(1)).as("m 1").isNotNull().isEqualTo(4);`, "=5"},
		{`assertThat(a == 3).isFalse();`, `assertThat(a == 3).isTrue();`, "=false"},
		{"assertThat(f(3))\n    .isEqualTo(other);", "assertThat(f(3))\n    .isNotEqualTo(other);", ""},
		{`assertThat(f("a")).hasSize(2).contains("x", "y");`, `assertThat(f("a")).hasSize(1).contains("x", "y");`, ""},
		{`assertThat(f("a")).containsExactly("x", "y");`, `assertThat(f("a")).containsExactly("w", "x");`, ""},
		{`assertThat(f(1)).isEqualToIgnoringCase("b");`, `assertThat(f(1)).isEqualToIgnoringCase("a");`, ""},
		{`assertThat(f(1)).extracting("name").isEqualTo("b");`, `assertThat(f(1)).extracting("name").isEqualTo("a");`, ""},
		{`assertThatThrownBy(() -> f(1)).isInstanceOf(X.class);`, `assertThatThrownBy(() -> f(1)).isNotInstanceOf(X.class);`, ""},
		{`assertThatThrownBy(() -> f(1)).isInstanceOf(X.class).hasMessage("bad 7");`, `assertThatThrownBy(() -> f(1)).isInstanceOf(X.class).hasMessage("adz 6");`, ""},
		{`assertThrows(X.class, () -> f(1));`, `assertThrows(java.lang.InstantiationError.class, () -> f(1));`, ""},
		{"assertThrows(X.class, () -> {\n    f(1);", "assertThrows(java.lang.InstantiationError.class, () -> {\n    f(1);", ""},
		{`assertThatExceptionOfType(X.class).isThrownBy(() -> f(1)).withNoCause();`, `assertThatExceptionOfType(java.lang.InstantiationError.class).isThrownBy(() -> f(1)).withNoCause();`, ""},
		{`assertThat(f(1)).isNotNull().isNotEmpty();`, `assertThat(f(1)).isNotNull().isEmpty();`, ""},
		{`assertThat(f(1)).isPresent().isNotNull().matches(p);`, `assertThat(f(1)).isNotPresent().isNotNull().matches(p);`, ""},
		{`assertThat("why", f(1), is(5));`, `assertThat("why", f(1), is(4));`, "=5"},
		{`assertThat(f(1), is(not(5)));`, `assertThat(f(1), is(not(5)));`, ""},
		{`assertThat(f(1)).isNotEqualTo(5).doesNotContain("a");`, `assertThat(f(1)).isEqualTo(5).doesNotContain("a");`, ""},
	} {
		s := assertionOf(test.line, strings.Index(test.line, "(")+1)
		c := s.comparison()
		if got := otherLineOf(test.line); got != test.want || c.note != test.note || s.canRecord(&c, javaNotes) != (test.note != "") {
			t.Errorf("%s: %s, with note %q", test.line, got, c.note)
		}
	}
}

// A chained assertion is left as it is where another value could hold too, or where another name or class does not compile.
func TestChainedAssertionsLeft(t *testing.T) {
	for _, line := range []string{
		`assertThat(f(1)).isGreaterThan(3);`, `assertThat(f(1)).contains("o");`, `assertThat(f(1)).startsWith("o").endsWith("p");`, `assertThat(f(1)).isIn("a", "b");`, `assertThat(f(1)).isCloseTo(100, within(10));`,
		`assertThat(f(1)).containsEntry("a", 1);`, `assertThat(f(1)).isEqualToIgnoringGivenFields(x, "name");`, `assertThat(f(1), hasItems(1, 2));`, `assertThatThrownBy(() -> f(1)).hasMessageContaining("o");`,
		`assertThat(list).isNotEmpty().allMatch(x -> x > 1);`, `assertThat(x).isNotNull().matches(p);`, `assertThat(duration).isPositive();`,
		`assertThrows(X.class, () -> f(1)).getCode();`, `assertEquals(want, assertThrows(X.class, () -> f(1)).getCode());`, `assertThatExceptionOfType(X.class).isThrownBy(() -> f(1)).matches(e -> e.code() == 3);`,
		"assertThatExceptionOfType(X.class).isThrownBy(() -> {\n    f(1);",
	} {
		if got := otherLineOf(line); got != line {
			t.Errorf("%s is altered to %s", line, got)
		}
	}
}

// An assertion whose result is used, because the line before it assigns or returns it, is left as it is, for no other compiles there.
func TestLinesWhoseResultIsUsed(t *testing.T) {
	const text = "class A {\n    @Test\n    void a() {\n        assertEquals(5, S.f(1));\n        E e =\n            assertThrows(E.class, () -> S.f(2));\n        all.forEach(x ->\n            assertThat(x).isNotNull());\n        // why\n        assertThrows(E.class, () -> S.f(3));\n    }\n}\n"
	for way, count := range map[Way]int{Expectation: 2, Reach: 2} {
		altered := alterOne(t, &Request{Way: way, Seed: 3, Files: []Source{{Path: "A.java", Text: text}}})
		if len(altered) != 1 || altered[0].Count != count || !strings.Contains(altered[0].Text, "E e =\n            assertThrows(E.class, ") || !strings.Contains(altered[0].Text, "x ->\n            assertThat(x).isNotNull()") || strings.Contains(altered[0].Text, "\n        assertThrows(E.class") {
			t.Errorf("%s: %+v", way, altered)
		}
	}
}

// Inputs, messages, and literals in assertions of inequality are left unchanged, since correct code can pass with any
// value; such an assertion is inverted instead.
func TestLinesWithoutExpectations(t *testing.T) {
	for line, want := range map[string]string{
		`assert(kind_of('a') == WORD);`:                       `assert(!(kind_of('a') == WORD));`,
		`assert(!valid("bob"));`:                              `assert(!(!valid("bob")));`,
		`assert(after("a=b", '=') != NULL);`:                  `assert(!(after("a=b", '=') != NULL));`,
		`assert(count("abc") > 0);`:                           `assert(!(count("abc") > 0));`,
		`assert(strcmp(f(1), "x"));`:                          `assert(!(strcmp(f(1), "x")));`,
		`assert(same_kind("abc", "abd"));`:                    `assert(!(same_kind("abc", "abd")));`,
		`assert_eq!(kind_of("712"), Kind::Number);`:           `assert_ne!(kind_of("712"), Kind::Number);`,
		`assert_eq!(kind_of(a), Kind::Number, "a number 1");`: `assert_ne!(kind_of(a), Kind::Number, "a number 1");`,
		`assert_eq!("712".kind(), Kind::Number);`:             `assert_ne!("712".kind(), Kind::Number);`,
		`assert!(valid("bob"), "bob is valid");`:              `assert!(!(valid("bob")), "bob is valid");`,
		`assertTrue(valid("bob"));`:                           `assertFalse(valid("bob"));`,
		`CHECK_NE(parse("712"), 0);`:                          `CHECK_NE(parse("712"), 0);`,
		`EXPECT_EQ(kind_of("712"), NUMBER);`:                  `EXPECT_EQ(kind_of("712"), NUMBER);`,
		`CHECK(valid(3), "three");`:                           `CHECK(valid(3), "three");`,
	} {
		if got := otherLineOf(line); got != want {
			t.Errorf("%s is inverted to %s", line, got)
		}
	}
	for _, line := range []string{`assert_eq!(f("a"), Some("b"));`, `assert(f('a') == 'b');`, `assert_eq!(f(1), vec![2, 3]);`, `assert_eq!(f("a"), "b".to_string());`, `assertEquals(List.of(1, 2), f(3));`, `assert(add(1, 2) == 3);`, `assert!(f("a").contains("b"));`} {
		got := otherLineOf(line)
		if got == line || !regexp.MustCompile(`f\((['"]a|1|3)|add\(1, 2\)`).MatchString(got) {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// For commands with only an exit code, a whole file is a test: scripts assert without test functions.
func TestWhole(t *testing.T) {
	script := "import calc, sys\nsys.exit(calc.add(2, 3) != 5)\n"
	for way, want := range map[Way]string{Expectation: "import calc, sys\nsys.exit(calc.add(2, 3) != ", End: "_fail()\nimport calc"} {
		altered := alterOne(t, &Request{Way: way, Whole: true, Files: []Source{{Path: "check.py", Text: script}}})
		if len(altered) != 1 || !strings.Contains(altered[0].Text, want) || way == Expectation && strings.Contains(altered[0].Text, "!= 5)") || !slices.Equal(altered[0].Tests, []string{""}) {
			t.Errorf("%s: %+v", way, altered)
		}
	}
}

// Tests in which only conditions could be inverted, and tests that compare with files, are reported.
func TestKinds(t *testing.T) {
	for file, text := range map[string]string{
		"a_test.go": "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestFile(t *testing.T) {\n\twant, err := os.ReadFile(\"want.txt\")\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tif got := f(); got != string(want) {\n\t\tt.Error(got)\n\t}\n}\n\nfunc TestTruth(t *testing.T) {\n\tif !f() {\n\t\tt.Error()\n\t}\n}\n",
		"a.py":      "def TestFile():\n    want = open('want.txt').read()\n    assert f() == want\n\ndef TestTruth():\n    assert f()\n",
		"a.js":      "test('TestFile', () => { const want = fs.readFileSync('want.txt'); assert.equal(f(), want); });\ntest('TestTruth', () => { assert.ok(f()); });\n",
	} {
		altered := alterOne(t, &Request{Way: Expectation, Data: true, Names: []string{"TestFile", "TestTruth"}, Files: []Source{{Path: file, Text: text}}})
		if len(altered) != 1 || !slices.Equal(altered[0].Data, []string{"TestFile"}) || !slices.Equal(altered[0].Truths, []string{"TestTruth"}) {
			t.Errorf("%s: %+v", file, altered)
		}
	}
}

func TestData(t *testing.T) {
	for file, c := range map[string]struct{ text, keeps string }{
		"cases.json": {`[[4, "IV"], {"want": true}]`, `"want"`}, "list.golden": {"- a\n- b 2\n\n", "\n- b "}, "page.html": {"<p>one</p>\n", "<p>one</"},
		"rule.txt": {"++\n", "++"}, "box.golden": {"┌─┐\n└─┘\n", "┌─┐\n└─┘"}, "empty.txt": {"", ""}, "line.txt": {"\n", "\n"},
		"none.json": {`[]`, "["}, "empty.json": {`{"a": {}}`, `"a"`}, "null.json": {`{"a": null}`, `"a"`},
	} {
		altered := string(Data(file, []byte(c.text), 1))
		if !strings.Contains(altered, c.keeps) || altered == c.text {
			t.Errorf("%s: %s", file, altered)
		}
	}
}

// A name refers to what the current test assigns to it, not another test.
func TestScopes(t *testing.T) {
	for file, text := range map[string]string{
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tfor i, v := range map[int]int{1: 10, 2: 20} {\n\t\tuse(i, v)\n\t}\n}\n\nfunc TestTwo(t *testing.T) {\n\tfor _, v := range f() {\n\t\tif g() != v {\n\t\t\tt.Error()\n\t\t}\n\t}\n}\n\nfunc TestThree(t *testing.T) {\n\tif f() != 30 {\n\t\tt.Error()\n\t}\n}\n",
		"a.py":      "def TestOne():\n    for i, v in ((1, 10), (2, 20)):\n        use(i, v)\n\ndef TestTwo():\n    for v in f():\n        assert g(v)\n\ndef TestThree():\n    assert f() == 30\n",
		"a.js":      "test('TestOne', () => { for (const [i, v] of [[1, 10], [2, 20]]) use(i, v); });\ntest('TestTwo', () => { for (const v of f()) assert.ok(g(v)); });\ntest('TestThree', () => { assert.equal(f(), 30); });\n",
	} {
		request := &Request{Way: Expectation, Names: []string{"TestOne", "TestTwo", "TestThree"}, Files: []Source{{Path: file, Text: text}}}
		altered := alterOne(t, request)
		if len(altered) != 1 || !slices.Equal(altered[0].Tests, []string{"TestTwo", "TestThree"}) || !strings.Contains(altered[0].Text, "10") || regexp.MustCompile(`\b30\b`).MatchString(altered[0].Text) {
			t.Errorf("%s: %+v", file, altered)
		}
	}
}

// Draws differ, and a file that cannot be parsed is left unchanged.
func TestDraws(t *testing.T) {
	one := Request{Way: Expectation, Seed: 1, Files: []Source{{Path: "a_test.go", Text: goSource1}, {Path: "b_test.go", Text: "package"}}}
	other := one
	other.Seed = 2
	if a, b := one.Alter(), other.Alter(); len(a) != 1 || len(b) != 1 || a[0].Text == b[0].Text {
		t.Error("two draws are one")
	}
}

func FuzzGo(f *testing.F) {
	f.Add(goSource1, uint64(1))
	f.Add("package a\n\nfunc TestA(a A) { f(1) }\n", uint64(1))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		for _, way := range []Way{Expectation, Reach, End} {
			request := Request{Way: way, Seed: seed, Files: []Source{{Path: "a_test.go", Text: text}}}
			for _, altered := range request.Alter() {
				if _, err := parser.ParseFile(token.NewFileSet(), "a_test.go", altered.Text, 0); err != nil {
					t.Fatalf("%s: %v\n%s", way, err, altered.Text)
				}
			}
		}
	})
}

// What must be so within a function of which something must be so is altered alone: both inverted would be neither.
func TestAssertionsWithinAssertions(t *testing.T) {
	const text = "it('a', () => {\n  expect(() => {\n    expect(f()).toBeUndefined();\n  }).not.toThrow();\n});\n"
	altered := alterOne(t, &Request{Way: Expectation, Seed: 1, Files: []Source{{Path: "a.test.js", Text: text}}})
	if len(altered) != 1 || !strings.Contains(altered[0].Text, "expect(f()).not.toBeUndefined()") || !strings.Contains(altered[0].Text, "}).not.toThrow()") {
		t.Errorf("%+v", altered)
	}
}

// What words in a chain compare, cases of what the code returns, and what a function that makes a test is given, is
// altered.
func TestChainsAndMadeTests(t *testing.T) {
	for text, want := range map[string]struct {
		altered string
		values  []string
	}{
		"import t from 'tape';\nt('a', (t) => { t.same(f(1), 77); });":                                   {`same\(.*f\(1\).*, .*\d\d\b`, []string{}},
		"it('a', () => { expect(f(1)).to.deep.equal([7]); });":                                           {`to\.deep\.equal\(.*\[\d\]`, []string{"=[7]"}},
		"it('a', () => { f(1).should.equal('xyz'); });":                                                  {`f\(1\)\)\.should\.equal\(.*'[a-z]+'`, []string{`="xyz"`}},
		"it('a', () => { expect(f(1)).to.not.equal(7); expect(g()).to.be.true; });":                      {`expect\(f\(1\)\)\.to\.equal\(7\); expect\(g\(\)\)\.not\.to\.be\.true`, nil},
		"it('a', () => { that(up('abc')).is('CBA'); });":                                                 {`that\(.*up\('abc'\)\)\)\.is\(.*'[a-z]+'`, []string{}},
		"it('a', () => { switch (f(1)) { case 77: break; default: throw new Error('no'); } });":          {`case [^7]`, nil},
		"it('a', wanting('abc', 'CBA'));":                                                                {`wanting\(.*'[a-z]+'`, nil},
		"it('a', () => { verifyUpper('abc', 'CBA'); });":                                                 {`verifyUpper\(.*, .*'[a-z]+'`, nil},
		"it('a', () => { expect(f(1)).to.have.property('b', 77); list(f(1)).concat(3).includes(77); });": {`property\('b', .*\d\d\)`, nil},
	} {
		altered := alterOne(t, &Request{Way: Expectation, Seed: 1, Record: ".record", Files: []Source{{Path: "a.test.js", Text: text + "\n"}}})
		if len(altered) != 1 || !regexp.MustCompile(want.altered).MatchString(altered[0].Text) || strings.Contains(ownText(altered[0].Text), "'CBA'") {
			t.Errorf("%s: %+v", text, altered)
			continue
		}
		if want.values != nil && (len(altered[0].Compared) != 1 || !slices.Equal(altered[0].Compared[0].Values, want.values)) {
			t.Errorf("%s: %+v", text, altered[0].Compared)
		}
	}
}

// The questions of files with many long tests have a limit, and their expectations are altered all the same.
func TestManyLongQuestions(t *testing.T) {
	text := "import { f } from './f.js';\nimport assert from 'assert';\n"
	for i := range 3 {
		text += fmt.Sprintf("it('%d', () => {\n", i) + strings.Repeat(fmt.Sprintf("  assert.strictEqual(f('%s'), 77);\n  assert(f(2));\n", strings.Repeat("x", 1000)), 60) + "});\n"
	}
	var files []Source
	for i := range 3 {
		files = append(files, Source{Path: fmt.Sprintf("%d.test.js", i), Text: text})
	}
	altered, size := alterOne(t, &Request{Way: Expectation, Seed: 1, Record: ".record", Files: files}), 0
	for _, source := range altered {
		for _, q := range source.Questions {
			size += len(q.Program)
		}
	}
	if len(altered) != 3 || altered[2].Count < 180 || size < 8<<20 || size > 9<<20 {
		t.Errorf("%d files, %d bytes", len(altered), size)
	}
}

// Tests made of the rows of a table take what they expect from it.
func TestEachOfATable(t *testing.T) {
	const text = "test.each([[2, 3, 5], [4, 4, 8]])('%i and %i', (a, b, sum) => {\n  expect(add(a, b)).toBe(sum);\n});\nit.only.each`a | b`('c', () => { expect(g(1)).toBe(7); });\n"
	altered := alterOne(t, &Request{Way: Expectation, Seed: 1, Record: ".record", Files: []Source{{Path: "a.test.js", Text: text}}})
	if len(altered) != 1 || len(altered[0].Compared) != 2 || !slices.Equal(altered[0].Compared[0].Values, []string{"=5", "=8"}) || !slices.Equal(altered[0].Tests, []string{"*"}) {
		t.Fatalf("%+v", altered)
	}
	if !strings.Contains(altered[0].Text, "[[2, 3, ") || strings.Contains(altered[0].Text, "[2, 3, 5]") {
		t.Errorf("%s", altered[0].Text)
	}
}

// A file that cannot be altered is named, and the others are altered all the same.
func TestFaults(t *testing.T) {
	const test = "const test = require('node:test'), assert = require('node:assert');\ntest('a', () => assert.equal(f(1), 'x'));\n"
	altered := alterOne(t, &Request{Way: Expectation, Seed: 1, Files: []Source{{Path: "a.test.js", Text: "const = 1;"}, {Path: "b.test.js", Text: test}}})
	if len(altered) != 2 || altered[0].Fault == "" || altered[0].Path != "a.test.js" || altered[1].Fault != "" || altered[1].Count == 0 {
		t.Errorf("%+v", altered)
	}
}

// A function within a test is a part of it, in which assertions stay as they are, and so do those of functions that are
// no tests: they can run while a failed one unwinds the stack.
func TestFunctionsWithinTests(t *testing.T) {
	const source = "struct Once(bool);\nimpl Drop for Once {\n    fn drop(&mut self) { assert!(self.0); }\n}\n\n#[test]\nfn a() {\n    struct S;\n    impl Drop for S {\n        fn drop(&mut self) {\n            assert_eq!(f(), 4);\n        }\n    }\n    impl S {\n        fn one(&self) { assert!(g()); }\n    }\n    assert_eq!(f(), \"\\u{fe0f}\");\n}\n\nmod m {\n    fn after() {\n        assert!(h());\n    }\n}\n"
	for _, record := range []string{"", ".record"} {
		altered := alterOne(t, &Request{Way: Expectation, Seed: 3, Record: record, Files: []Source{{Path: "a.rs", Text: source}}})
		if len(altered) != 1 || strings.Join(altered[0].Tests, " ") != "a" || altered[0].Count != 1 {
			t.Fatalf("%+v", altered)
		}
		for _, unchanged := range []string{"{ assert!(self.0); }", "assert_eq!(f(), 4)", "{ assert!(g()); }", "assert!(h())", `"\u{fe0f}`} {
			if !strings.Contains(altered[0].Text, unchanged) {
				t.Errorf("%s has changed:\n%s", unchanged, altered[0].Text)
			}
		}
	}
}
