package alter

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A test whose altered source Python cannot read is left as it is; the others of the file are altered. The letter
// before a quotation mark is none of a message's text.
func TestOddTestsAlone(t *testing.T) {
	const odd = "def test_odd():\n    assert f(1) == %s\n\n\ndef test_plain():\n    for i in 1, 2:\n        with subTest(f\"{i} f\"):\n            assert f(2) == \"f\"\n"
	for name, c := range map[string]struct {
		expected string
		want     int
	}{
		"nested too deeply": {"[" + strings.Repeat("f(", 90) + strings.Repeat(")", 90) + strings.Repeat(" + f()", 450) + "]", 1},
		"a named character": {`"\N{SNOWMAN}"`, 2},
		"side by side":      {`("a" f"{1}" r'b')`, 2},
		"plain":             {`5`, 2},
	} {
		sources := alterOne(t, &Request{Way: Expectation, Seed: 5, Record: ".rec", Files: []Source{{Path: "test_a.py", Text: fmt.Sprintf(odd, c.expected)}}})
		if len(sources) != 1 || len(sources[0].Tests) != c.want || (sources[0].Fault == "") != (c.want == 2) || strings.Contains(sources[0].Text, `f(2) == "f"`) || !strings.Contains(sources[0].Text, `subTest(f"{i} `) {
			t.Errorf("%s: %+v", name, sources)
		}
	}
}

// What a test gives the code in another form is kept, and what it only says of a value, or loops over, is no obstacle to altering it.
func TestOtherFormsOfValues(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		isKept bool
	}{
		"formatted for the code":     {"def test_a():\n    text = 'abc'\n    line = '{} x'.format(text)\n    assert f(line) == text\n", true},
		"in a literal for the code":  {"def test_a():\n    text = 'abc'\n    line = f'{text} x'\n    assert f(line) == text\n", true},
		"given to the code's format": {"def test_a():\n    text = 'abc'\n    assert m.format(text) == text\n", true},
		"printed by the code":        {"def test_a():\n    text = 'abc'\n    m.print(text)\n    assert m.out() == text\n", true},
		"in a message":               {"def test_a():\n    text = 'abc'\n    said = f'no {text}'\n    print(text)\n    assert f(1) == text, said\n", false},
		"rows of a class":            {"class TestA:\n    ROWS = [(1, 'abc')]\n    def test_a(self):\n        for x, want in self.ROWS:\n            f(x, 2)\n            assert g(x) == want\n", false},
		"expected twice":             {"def test_a():\n    want = 'abc'\n    assert f(1) == want\n    assert f(2) == want\n", false},
		"in a double":                {"WANT = 'abc'\n\nclass Double:\n    said = WANT\n\ndef test_a():\n    assert f(Double()) == WANT\n", false},
		"in a helper":                {"def run(f, x, want):\n    assert f(x) == want\n\ndef test_a():\n    run(f, 1, 'abc')\n", false},
		"a helper's input":           {"def run(f, x):\n    assert f(x) == x\n\ndef test_a():\n    run(f, 'abc')\n    assert f(1) == 2\n", true},
	} {
		sources := alterOne(t, &Request{Way: Expectation, Seed: 5, Record: ".rec", Files: []Source{{Path: "test_a.py", Text: c.text}}})
		if len(sources) != 1 || sources[0].Fault != "" || strings.Contains(strings.Replace(sources[0].Text, "said = 'abc'", "", 1), "'abc'") != c.isKept {
			t.Errorf("%s: %+v", name, sources)
		}
	}
}

// Conditions of a script that asserts outside of functions are altered, too.
func TestConditionsOfScripts(t *testing.T) {
	for _, condition := range []string{"app.f(1) < 9", "4 not in app.g()", "any(x == 5 for x in app.h())"} {
		text := "import app\n\nassert app.f(1) == 33\nassert " + condition + "\n"
		for _, isRest := range []bool{false, true} {
			sources := alterOne(t, &Request{Way: Expectation, Seed: 5, Record: ".rec", Whole: true, Rest: isRest, Files: []Source{{Path: "check.py", Text: text}}})
			if len(sources) != 1 || sources[0].Fault != "" || len(sources[0].Tests) != 1 || strings.Contains(sources[0].Text, "== 33") != isRest || isRest && strings.Contains(sources[0].Text, "assert "+condition) {
				t.Errorf("%s, %v: %+v", condition, isRest, sources)
			}
		}
	}
}

// The time for a file grows about like its length.
func TestTimeOfLongPythonFiles(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || testing.Short() {
		t.Skip("no python3 here, or short tests")
	}
	var times []time.Duration
	for _, classes := range []int{60, 240} {
		var text strings.Builder
		for i := range classes {
			fmt.Fprintf(&text, "class Test%d(TestCase):\n    def test_all(self):\n        seen = []\n        for a, b in ((1, 2), (3, 4)):\n            seen.append(f(a))\n            self.assertEqual(g(a, seen), b)\n        self.assertEqual(list(h(seen)), [1, 2])\n\n    def test_more(self):\n        x = f(5)\n        self.assertEqual(x.y(6), 'abc')\n\n\n", i)
		}
		dir := t.TempDir()
		request, err := json.Marshal(&Request{Way: Expectation, Record: ".rec", Files: []Source{{Path: "test_a.py", Text: "from a import f, g, h\nfrom unittest import TestCase\n\n\n" + text.String()}}})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"alter.py": Languages["python"].Text, "request": string(request)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		command := exec.Command(python, "-I", "-S", "alter.py", "request", "altered")
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		times = append(times, command.ProcessState.UserTime())
	}
	t.Log(times)
	if times[1] > 8*times[0] {
		t.Errorf("four times as many tests: %v", times)
	}
}
