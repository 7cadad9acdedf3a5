package alter

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// alterOne returns sources altered by the program of its language.
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
	goSource1 = "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif got := f(1); got != 5 {\n\t\tt.Error(got)\n\t}\n\tif err := g(); err != nil {\n\t\tt.Fatal(err)\n\t}\n" +
		"\tfor _, c := range []struct{ in, want string }{{in: \"a\", want: \"b\"}} {\n\t\tif f(c.in) != c.want {\n\t\t\tt.Error()\n\t\t}\n\t}\n}\n\nfunc TestTable(t *testing.T) {\n\tsame(t, []pair{{in: 1, want: 2}})\n}\n\nfunc TestNothing(t *testing.T) { f(5) }\n\nfunc ExampleF() {\n\tprint(7)\n\t// Output: 7\n}\n"
	pythonSource = "from __future__ import annotations\nimport unittest, pytest\n\ndef test_a():\n    want = 5\n    assert f(2) == want\n    assert 'x' in g()\n    with pytest.raises(ValueError):\n        h()\n\n" +
		"class T(unittest.TestCase):\n    @unittest.skip('later')\n    def test_b(self):\n        self.assertEqual(f(1), [2])\n        self.assertTrue(f(2))\n\n    def test_nothing(self):\n        f(5)\n"
	nodeSource = "import test from 'node:test';\nimport assert from 'node:assert';\ntest('a', async () => { assert.strictEqual(f(2), 5); assert.ok(g()); });\ntest('b', () => { expect(f(2)).toEqual([1]); assert.throws(() => h()); });\ntest('nothing', () => f(5));\n"
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
		{"a_test.go", goSource1, Expectation, "TestA TestTable ExampleF", []string{"!(err != nil)", "f(5)", `want: "b"`, "!(f(c.in) != c.want)"}, []string{"got != 5 {", "want: 2"}},
		{"a_test.go", goSource1, Reach, "TestA", []string{"(got != 5) || true", `want: "b"`}, nil},
		{"a_test.go", goSource1, End, "TestA TestTable TestNothing", []string{"got != 5 {", "defer t.Fail();"}, nil},
		{"a.py", pythonSource, Expectation, "test_a T.test_b", []string{"not ('x' in g())", "f(5)", "assertFalse(f(2))", "mut([2])"}, []string{"want = 5\n", "raises(ValueError)"}},
		{"a.py", pythonSource, Reach, "test_a T.test_b", []string{"want = 5\n", "_fail()"}, []string{"self.assertTrue"}},
		{"a.py", pythonSource, End, "test_a T.test_b T.test_nothing", []string{"assertTrue(f(2))", "_end\n    def test_nothing"}, nil},
		{"a.mjs", nodeSource, Expectation, "a b", []string{"f(5)", "!(g())", ".not.toEqual([1])"}, []string{"f(2), 5)", "h()"}},
		{"a.mjs", nodeSource, Reach, "a b", []string{"_fail()"}, []string{"f(2), 5)"}},
		{"a.mjs", nodeSource, End, "a b nothing", []string{"f(2), 5)", "_end(() => f(5))"}, nil},
		{"a.rs", rustSource, Expectation, "adds holds", []string{"assert_eq!(add(0, 0), 0);\n}\n\n#[cfg", "assert!(!(even(", `"}} {:?}`}, []string{", 5,", "assert!(even(b))"}},
		{"a.rs", rustSource, Reach, "adds holds", []string{"        ::std::panic::panic_any(0);assert_eq!(\n", "{ ::std::panic::panic_any(0);assert!(even(b)); }"}, nil},
		{"a.rs", rustSource, End, "adds holds", []string{"fn adds() {::std::panic::panic_any(0);\n", "fn check(b: u8) {\n"}, nil},
		{"A.java", javaSource, Expectation, "adds holds", []string{"int five = 5;", "assertFalse(Calc.even(x))", `"sum`}, []string{"Equals(5,"}},
		{"A.java", javaSource, Reach, "adds holds", []string{"if (1 > 0) throw new java.lang.AssertionError();Assertions.assertEquals(5"}, nil},
		{"A.java", javaSource, End, "adds holds", []string{"void adds() throws Exception {if (1 > 0)", "void check(int x) {\n"}, nil},
	} {
		t.Run(c.path+" "+string(c.way), func(t *testing.T) {
			altered := alterOne(t, &Request{Way: c.way, Seed: 1 << 62, Files: []Source{{Path: c.path, Text: c.text}}})
			if len(altered) != 1 || strings.Join(altered[0].Tests, " ") != c.tests || altered[0].Count < len(altered[0].Tests) {
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

// A file as a whole, for commands that give an exit code alone: scripts assert without
// functions of tests.
func TestWhole(t *testing.T) {
	script := "import calc, sys\nsys.exit(calc.add(2, 3) != 5)\n"
	for way, want := range map[Way]string{Expectation: "import calc, sys\nsys.exit(calc.add(2, 3) != ", End: "_fail()\nimport calc"} {
		altered := alterOne(t, &Request{Way: way, Whole: true, Files: []Source{{Path: "check.py", Text: script}}})
		if len(altered) != 1 || !strings.Contains(altered[0].Text, want) || way == Expectation && strings.Contains(altered[0].Text, "!= 5)") || !slices.Equal(altered[0].Tests, []string{""}) {
			t.Errorf("%s: %+v", way, altered)
		}
	}
}

// Draws differ, and what cannot be parsed is left alone.
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
