package alter

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// With a record file, the sources of each language record what is compared, and the unaltered expected value if it is
// known, in every way that uses it.
func TestRecords(t *testing.T) {
	for _, c := range []struct{ path, text string }{{"a/a_test.go", goSource1}, {"a/test_a.py", pythonSource}, {"a/a.mjs", nodeSource}} {
		for _, way := range []Way{Expectation, Record, Hold} {
			request := &Request{Way: way, Seed: 3, Record: ".record", Files: []Source{{Path: c.path, Text: c.text}}}
			altered := alterOne(t, request)
			if len(altered) != 1 || len(altered[0].Compared) < 3 {
				t.Fatalf("%s %s: %+v", c.path, way, altered)
			}
			source := altered[0]
			known := false
			for _, compared := range source.Compared {
				known = known || len(compared.Values) > 0
				if !strings.Contains(source.Text, compared.Name) || compared.Test == "" {
					t.Errorf("%s %s: %+v is not noted", c.path, way, compared)
				}
			}
			if !known || !strings.Contains(source.Text, ".record") {
				t.Errorf("%s %s: no value is known, or no record written:\n%s", c.path, way, source.Text)
			}
			if Language(c.path) == "go" {
				if _, err := parser.ParseFile(token.NewFileSet(), c.path, source.Text, 0); err != nil {
					t.Errorf("%s: %v\n%s", way, err, source.Text)
				}
			}
		}
	}
}

// A file in which nothing is recorded does not get the recording functions.
func TestRecordersOnlyWhereNeeded(t *testing.T) {
	for file, text := range map[string]string{
		"a_test.c":    "#include <assert.h>\nint main(void) {\n\tassert(%s);\n}\n",
		"ATest.java":  "import org.junit.Test;\npublic class ATest {\n\t@Test\n\tpublic void a() {\n\t\tassertEquals(%s);\n\t}\n}\n",
		"tests/as.rs": "#[test]\nfn a() {\n    assert_eq!(%s);\n}\n",
	} {
		for expression, want := range map[string]bool{"f() == 5": true, "f() == 2.5": false} {
			if !strings.HasSuffix(file, ".c") {
				expression = strings.Replace(expression, " ==", ",", 1)
			}
			request := &Request{Way: Expectation, Seed: 3, Record: ".record", Files: []Source{{Path: file, Text: fmt.Sprintf(text, expression)}}}
			altered := alterOne(t, request)
			if len(altered) != 1 {
				t.Fatalf("%s, %s: nothing is altered", file, expression)
			}
			if got := strings.Contains(altered[0].Text, ".record"); got != want {
				t.Errorf("%s, %s: recorders %v, want %v:\n%s", file, expression, got, want, altered[0].Text)
			}
		}
	}
}

// The note of a struct is known if an operator compares it, but not if a method does.
func TestRecordedStructs(t *testing.T) {
	const source = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif got := f(1); got != (P{5, \"a\"}) {\n\t\tt.Error(got)\n\t}\n\tif got := f(2); got != (P{B: \"b\"}) || !got.Equal(P{6, \"c\"}) {\n\t\tt.Error(got)\n\t}\n}\n"
	request := &Request{Way: Record, Seed: 3, Record: ".record", Files: []Source{{Path: "a_test.go", Text: source}}}
	var values []string
	for _, c := range alterOne(t, request)[0].Compared {
		values = append(values, strings.Join(c.Values, " "))
	}
	if want := []string{`=[5,"a"]`, "", ""}; !slices.Equal(values, want) {
		t.Errorf("%q, want %q", values, want)
	}
}

// A question contains what a test does before it compares, but neither expected values nor values of other tests. If
// something else could affect the result, there is no question.
func TestQuestions(t *testing.T) {
	const source = `import unittest
import pytest
from stack import Stack, add

ROWS = [("a", 1), ("b", 2)]
shared = Stack()

@pytest.fixture
def two():
    s = Stack()
    s.push(2)
    return s

@pytest.mark.parametrize("text, want", ROWS)
def test_rows(text, want):
    assert add(text) == want

def test_two(two):
    two.push(3)
    assert two.pop() == 33
    got = two.pop()
    assert got == 44

def test_both():
    rows = [3, 4]
    want = sum(rows)
    got = add(rows)
    assert got == want

def test_shared():
    assert shared.pop() == 5

def test_patched(monkeypatch):
    monkeypatch.setattr("stack.add", len)
    assert add("x") == 6

@pytest.mark.parametrize("bad", ["x", ""])
def test_bad(bad):
    with pytest.raises((KeyError, stack.Full), match="no row"):
        s = Stack()
        s.push(bad)

def test_beside():
    for got, want in zip(add([1]), [66, 77]):
        assert got == want

async def test_later():
    s = Stack()
    await s.wait(5)
    assert await s.pop() == 55

class T(unittest.TestCase):
    def setUp(self):
        self.s = Stack(limit=7)

    def test_size(self):
        for n, want in [(8, 80), (9, 90)]:
            with self.subTest(n):
                self.assertEqual(add(n), want)
        self.assertTrue(self.s.empty())

    def test_full(self):
        self.assertRaises(IOError, self.s.push, 8, n=2)
`
	altered := alterOne(t, &Request{Way: Expectation, Seed: 3, Record: ".record", Files: []Source{{Path: "test_a.py", Text: source}}})
	var asked []string
	for _, q := range altered[0].Questions {
		asked = append(asked, q.Test+": "+strings.ReplaceAll(strings.TrimSuffix(q.Program+"\n= "+q.Expected, "\n= "), "\n", "; ")+" "+q.Value)
	}
	const imports, two, class = "from stack import Stack, add; ", "s = Stack(); s.push(2); two = (s); two.push(3); ", "import types; self = cls = types.SimpleNamespace(); "
	want := []string{
		"test_rows: " + imports + `text = ("a"); _answer = (add(text)) =1`, "test_rows: " + imports + `text = ("b"); _answer = (add(text)) =2`,
		"test_both: " + imports + "rows = [3, 4]; got = add(rows); _answer = (got); = rows = [3, 4]; want = sum(rows); _answer = (want) ",
		"test_two: " + imports + two + "_answer = (two.pop()) =33", "test_two: " + imports + two + "two.pop(); got = two.pop(); _answer = (got) =44",
		"T.test_size: " + imports + class + "n = (8); _answer = (add(n)) =80", "T.test_size: " + imports + class + "n = (9); _answer = (add(n)) =90",
		"T.test_size: " + imports + class + "self.s = Stack(limit=7); _answer = (bool(self.s.empty())) =1",
		"T.test_full: " + imports + class + `self.s = Stack(limit=7); _answer = ((self.s.push)(8, n=2)) =raised [["OSError"], ""]`,
		"test_bad: " + imports + `bad = ("x"); s = Stack(); _answer = (s.push(bad)) =raised [["KeyError", ".Full"], "no row"]`,
		"test_bad: " + imports + `bad = (""); s = Stack(); _answer = (s.push(bad)) =raised [["KeyError", ".Full"], "no row"]`,
		"test_beside: " + imports + `_answer = ([(got) for (got, want), _ in zip(zip(add([1]), range(2)), range(2))]) =list(66,77)`,
		"test_later: " + imports + "import asyncio; await asyncio.sleep(0); s = Stack(); await s.wait(5); _answer = (await s.pop()) =55",
	}
	slices.Sort(asked)
	slices.Sort(want)
	if got, want := strings.Join(asked, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if want := []string{"test_rows", "test_two", "test_both", "test_bad", "test_beside", "test_later", "T.test_size", "T.test_full"}; !slices.Equal(altered[0].Answerable, want) {
		t.Errorf("answerable are %s, want %s", altered[0].Answerable, want)
	}
}

// Questions about code in Node work like those in Python.
func TestNodeQuestions(t *testing.T) {
	const source = `import test, { beforeEach, describe, mock } from 'node:test';
import assert from 'node:assert/strict';
import { Stack, add, sort, visit } from './stack.js';

const rows = [['a', 1], ['b', 2]];
const shared = new Stack();
let s;

for (const [text, want] of rows) test('row ' + text, () => assert.equal(add(text), want));

describe('a stack', () => {
  beforeEach(() => { s = new Stack(7); });
  test('pops', async () => {
    await s.push(3);
    assert.equal(s.size(), 33);
    const got = s.pop();
    assert.deepEqual(got, { top: 44 });
    assert.ok(s.isEmpty());
  });
});
test('both', () => {
  for (let i = 0; i < 3; i++) {
    const want = i * 2;
    assert.equal(add(i), want);
  }
});
test('shared', () => assert.equal(shared.pop(), 5));
test('mocked', () => assert.equal(add(mock.fn()), 6));
test('throws', () => {
  assert.throws(() => sort(8), /eight/);
  assert.equal(sort([2, 1]).length, 9);
});
test('caught', () => {
  visit(() => assert.ok(true));
  assert.equal(add(9), 10);
});
`
	altered := alterOne(t, &Request{Way: Expectation, Seed: 3, Record: ".record", Files: []Source{{Path: "a.test.js", Text: source}}})
	var asked []string
	for _, q := range altered[0].Questions {
		asked = append(asked, q.Test+": "+regexp.MustCompile(`;*\n`).ReplaceAllString(strings.TrimSuffix(q.Program+"\n= "+q.Expected, "\n= "), "; ")+" "+q.Value)
	}
	const imports, mode, stack = "import { Stack, add, sort, visit } from './stack.js'; ", `const _mode = ""; `, "let s; {; await (() => { s = new Stack(7); })(); {; await s.push(3); "
	want := []string{
		"*: " + imports + mode + "const text = 'a'; _answer((add(text)), _mode); =1", "*: " + imports + mode + "const text = 'b'; _answer((add(text)), _mode); =2",
		"pops: " + imports + mode + stack + "_answer((s.size()), _mode); }; } =33",
		"pops: " + imports + mode + stack + "(s.size()); const got = s.pop(); _answer((got), _mode); }; } " + `={"top":44}`,
		"pops: " + imports + `const _mode = "truth"; ` + stack + "(s.size()); const got = s.pop(); _answer((s.isEmpty()), _mode); }; } =true",
		"both: " + imports + mode + "{; for (let i = 0; i < 3; i++) {; {; _answer((add(i)), _mode); }; }; }; = " + mode + "{; for (let i = 0; i < 3; i++) {; {; const want = i * 2; _answer((want), _mode); }; }; } ",
		"throws: " + imports + mode + "{; (_try(() => sort(8))); _answer((sort([2, 1]).length), _mode); } =9",
	}
	slices.Sort(asked)
	slices.Sort(want)
	if got, want := strings.Join(asked, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if want := []string{"both", "pops"}; !slices.Equal(slices.Sorted(slices.Values(altered[0].Answerable)), want) {
		t.Errorf("answerable are %s, want %s", altered[0].Answerable, want)
	}
}

// Types are not compared: if node strips them, tests in TypeScript are altered like others.
func TestNodeTypes(t *testing.T) {
	if exec.Command("node", "-e", "process.exit(require('node:module').stripTypeScriptTypes ? 0 : 1)").Run() != nil {
		t.Skip("this node strips no types")
	}
	const source = "import test from 'node:test';\nimport assert from 'node:assert/strict';\nimport { add, type Row } from './add.ts';\n\ntest('adds', () => {\n  const row: Row = [1, 2];\n  assert.equal(add(row as Row), 33);\n});\n"
	altered := alterOne(t, &Request{Way: Expectation, Record: ".record", Files: []Source{{Path: "add.test.ts", Text: source}}})
	if len(altered) != 1 || strings.Contains(altered[0].Text, "33") || !slices.Equal(altered[0].Answerable, []string{"adds"}) || strings.Contains(altered[0].Questions[0].Program, "Row") {
		t.Errorf("%+v", altered)
	}
}

// Tests that share a helper are told apart by their names; only what they hand over is altered, and not what a helper
// of this name is given besides.
func TestSharedHelpers(t *testing.T) {
	const source = "package a\n\nimport \"testing\"\n\nfunc check(t *testing.T, in, out string) {\n\tt.Helper()\n\tif err := ready(); err != nil {\n\t\tt.Fatal(err)\n\t}\n\tif got := f(in); got != out {\n\t\tt.Error(got)\n\t}\n}\n\nfunc TestA(t *testing.T) { check(t, \"abc\", \"CBA\") }\n\nfunc TestB(t *testing.T) { t.Run(\"x\", func(t *testing.T) { check(t, \"xyz\", \"ZYX\") }) }\n"
	for _, way := range []Way{Expectation, Record, Hold} {
		altered := alterOne(t, &Request{Way: way, Seed: 3, Record: ".record", Files: []Source{{Path: "a_test.go", Text: source}}})
		if len(altered) != 1 || strings.Join(altered[0].Tests, " ") != "TestA TestB" {
			t.Fatalf("%s: %+v", way, altered)
		}
		text := altered[0].Text
		if strings.Contains(text, `"CBA"`) != (way == Record) || !strings.Contains(text, `"abc"`) || !strings.Contains(text, "err != nil {") || !strings.Contains(text, `test(t.Name()), got)`) || strings.Count(text, "t.Fail()") > 1 {
			t.Errorf("%s:\n%s", way, text)
		}
		for i, want := range []string{`TestA ="CBA"`, `TestB ="ZYX"`} {
			if c := altered[0].Compared[i]; c.Test+" "+strings.Join(c.Values, " ") != want || !strings.HasSuffix(c.Name, "@"+c.Test) {
				t.Errorf("%s: %+v, want %s", way, c, want)
			}
		}
	}
}

// A value by which the test chooses what it checks is not altered.
func TestValuesThatChoose(t *testing.T) {
	const source = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tfor _, c := range []struct{ in, want string }{{\"a\", \"b\"}, {\"c\", \"none\"}} {\n\t\tgot := f(c.in)\n\t\tif c.want == \"none\" {\n\t\t\treturn\n\t\t}\n\t\tif got != c.want {\n\t\t\tt.Error(got)\n\t\t}\n\t}\n}\n"
	altered := alterOne(t, &Request{Way: Expectation, Seed: 3, Record: ".record", Files: []Source{{Path: "a_test.go", Text: source}}})
	if len(altered) != 1 || strings.Contains(altered[0].Text, `{"a", "b"}`) || !strings.Contains(altered[0].Text, `{"c", "none"}`) {
		t.Fatalf("%+v", altered)
	}
}

// A function besides the tests, such as a double of what is tested, keeps the original of an expected value that it uses.
// If it may do more than read it, the value is not altered.
func TestConstantsOfDoubles(t *testing.T) {
	const source = "package a\n\nimport \"testing\"\n\nconst want Text = \"hello\"\n\ntype double struct{ want Text }\n\nfunc (double) Read() Text { %s }\n\nfunc TestA(t *testing.T) {\n\tif got := f(); got != want {\n\t\tt.Error(got)\n\t}\n}\n"
	for body, isAltered := range map[string]bool{"return want": true, "p := &want; return *p": false} {
		altered := alterOne(t, &Request{Way: Expectation, Seed: 3, Record: ".record", Files: []Source{{Path: "a_test.go", Text: fmt.Sprintf(source, body)}}})
		if len(altered) != 1 || strings.Contains(altered[0].Text, `const want Text = "hello"`) == isAltered || strings.Contains(altered[0].Text, `return (Text)("hello")`) != isAltered {
			t.Errorf("%s: %+v", body, altered)
		}
	}
}

// What records values in Java compiles for Java 8, as many libraries are, and notes whole numbers as integers.
func TestJavaNotesForJava8(t *testing.T) {
	if _, err := exec.LookPath("javac"); err != nil {
		t.Skip("no javac here")
	}
	dir := t.TempDir()
	helpers := strings.NewReplacer("@record", `".record"`, "@", "x_").Replace(javaHelpers)
	if err := os.WriteFile(filepath.Join(dir, "A.java"), []byte("class A {\n"+helpers+"\npublic static void main(String[] a) { x_saw(\"a\", 5.0); x_saw(\"b\", 5L); x_saw(\"c\", (Object) 2.5f); }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("javac", "--release", "8", "A.java")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	record := filepath.Join(dir, ".record")
	if err := os.WriteFile(record, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	command = exec.Command("java", "-cp", ".", "A")
	command.Dir = dir
	out, err := command.CombinedOutput()
	if notes, readErr := os.ReadFile(record); errors.Join(err, readErr) != nil || string(notes) != "a\t=5\nb\t=5\nc\t=2.5\n" { // 5.0 is equal to 5
		t.Errorf("%v: %s%s", err, out, notes)
	}
}

// Tests in Node are altered in each of these forms, and left alone where they may fail.
func TestNodeForms(t *testing.T) {
	const head = "import assert, { notEqual } from 'node:assert/strict';\nimport { f, given } from './f.js';\n"
	for name, c := range map[string]struct {
		text       string
		has, lacks []string
		compared   string // test, values, lenient and handed of each
	}{
		"a skipped assertion":     {"test('a', (t) => { t.equal(f(1), 'wrong', 'later', { skip: 'TODO' }); t.equal(f(2), 'two', 'now', { skip: false }); });\n", []string{"'wrong'"}, []string{"'two'"}, `[[="two"] false false]`},
		"an anonymous export":     {"export default function (test) { test('a', () => { assert.equal(f(1), 'one'); }); }\n", nil, []string{"'one'"}, `[[="one"] false false]`},
		"tables of one name":      {"describe('a', () => { const rows = [{ in: 1, out: 'one' }]; for (const t of rows) it('x', () => assert.equal(f(t.in), t.out)); });\ndescribe('b', () => { const rows = [{ in: 2, out: 'two' }]; rows.forEach((t) => it('y', () => assert.equal(f(t.in), t.out))); });\n", []string{"in: 1", "in: 2"}, []string{"'one'", "'two'"}, `[[="one"] false false] [[="two"] false false]`},
		"a table with two uses":   {"const rows = [{ in: 1, out: 'one' }]; for (const t of rows) it('x', () => assert.equal(f(t.in), t.out)); for (const t of rows) given(t);\n", []string{"'one'"}, nil, ""},
		"inequality without dots": {"test('a', () => { notEqual(f(1), 'one'); });\n", []string{"_not(notEqual)(f(1), 'one')"}, nil, ""},
		"rows of a map":           {"const rows = new Map([[1, 'one'], [2, 'two']]); test('a', () => { for (const [n, want] of rows) assert.equal(f(n), want); });\n", []string{"[[1, '", "[2, '"}, []string{"'one'", "'two'"}, `[[="one" ="two"] false false]`},
		"a value that grows":      {"test('a', () => { let want = 'x'; for (let i = 0; i < 3; i++) want += 'y'; assert.equal(f(3), want); });\n", []string{"want += 'y'"}, []string{"want = 'x'"}, `[[] false false]`},
		"a slash in comments":     {"// as / is\ntest('a', () => { assert.equal(f(1), '/'); /* / */ });\n", []string{"\n// as ", "/* ", " */"}, []string{"as / is", "'/'"}, `[[="/"] false false]`},
		"tests that must fail":    {"it.fails('a', () => { assert.equal(f(1), 'one'); }); it.only('b', () => { assert.equal(f(2), 'two'); }); given(() => assert.equal(f(3), 'three'));\n", []string{"'one'"}, []string{"'two'"}, `[[="two"] false false] [[="three"] false true]`},
	} {
		altered := alterOne(t, &Request{Way: Expectation, Seed: 3, Whole: true, Record: ".record", Files: []Source{{Path: "a.test.mjs", Text: head + c.text}}})
		if len(altered) != 1 || altered[0].Count == 0 {
			t.Errorf("%s: %+v", name, altered)
			continue
		}
		var compared []string
		for _, one := range altered[0].Compared {
			compared = append(compared, fmt.Sprint([]any{one.Values, one.Lenient, one.Handed}))
		}
		if got := strings.Join(compared, " "); got != c.compared {
			t.Errorf("%s: compared are %s, want %s", name, got, c.compared)
		}
		own, helpers, _ := strings.Cut(altered[0].Text, "\nfunction _")
		for _, passage := range c.has {
			if !strings.Contains(own, passage) {
				t.Errorf("%s: lacks %q:\n%s", name, passage, own)
			}
		}
		for _, passage := range c.lacks {
			if strings.Contains(own, passage) {
				t.Errorf("%s: still has %q:\n%s", name, passage, own)
			}
		}
		if later := regexp.MustCompile(`\?\?|\?\.|\|\|=|import\.meta|node:`).FindString(helpers); later != "" {
			t.Errorf("the functions added to tests have %s, which not all compilers of trees take", later)
		}
	}
}
