package runner

import (
	"errors"
	"fmt"
	"testing"
)

// The name is given before the line that asks for it, with the line's indentation; files from elsewhere stay.
func TestPruneOfNames(t *testing.T) {
	const source = "import a\nif a:\n    from a.b import (\n        new,\n    )\n"
	read := func(file string) ([]byte, error) {
		if file != "tests/test_a.py" {
			return nil, errors.New("elsewhere")
		}
		return []byte(source), nil
	}
	output := func(place string) string {
		return "ImportError while importing test module '/x/tests/test_a.py'.\nTraceback:\n/usr/lib/importlib/__init__.py:126: in import_module\n    return x\n" + place + ": in <module>\n    from a.b import (\nhelp.py:1: in <module>\n    from a.b import new\nE   ImportError: cannot import name 'new' from 'a.b' (/x/a/b.py)\n"
	}
	report := &Report{Tests: []Test{{Output: output("tests/test_a.py:3")}, {Output: output("other.py:3")}, {Output: output("tests/test_a.py:30")}, {Output: "E   ImportError: no"}}}
	changes := (&sealedRun{}).Prune(report, nil, read)
	const want = "import a\nif a:\n    setattr(__import__('importlib').import_module('a.b'), 'new', lambda *a, **k: a.missing)\n    from a.b import (\n        new,\n    )\n"
	if len(changes) == 0 {
		t.Fatal("nothing is changed")
	}
	if len(changes) != 1 || changes[0].Path != "tests/test_a.py" || string(changes[0].Data) != want {
		t.Errorf("%d: %q", len(changes), changes[0].Data)
	}
}

// A statement that fails is removed whole, and nothing else of its module.
func TestPruneOfStatements(t *testing.T) {
	const source = "import b\n\n@mark(\n    b.new,\n)\n@other\ndef test_new():\n    pass\n\ntry:\n    import n\nfinally:\n    pass\nlast = 1\n"
	read := func(file string) ([]byte, error) {
		if file != "tests/test_a.py" {
			return nil, errors.New("elsewhere")
		}
		return []byte(source), nil
	}
	for output, want := range map[string]string{
		"tests/test_a.py:4: in <module>\n    b.new,\nE   AttributeError: module 'b' has no attribute 'new'\n":                                                                                                   "import b\n\n\n\n\n\n\n\n\ntry:\n    import n\nfinally:\n    pass\nlast = 1\n",
		"ImportError: Failed to import test module: test_a\nTraceback (most recent call last):\n  File \"/lib/loader.py\", line 3, in get\n  File \"/x/tests/test_a.py\", line 11, in <module>\n    import n\n": "import b\n\n@mark(\n    b.new,\n)\n@other\ndef test_new():\n    pass\n\n\n\n\n\nlast = 1\n",
		"tests/test_a.py:14: in <module>\nE   NameError: last\n":               "import b\n\n@mark(\n    b.new,\n)\n@other\ndef test_new():\n    pass\n\ntry:\n    import n\nfinally:\n    pass\n\n\n",
		"a subprocess:\n  File \"/x/tests/test_a.py\", line 11, in <module>\n": "",
	} {
		changes := (&sealedRun{}).Prune(&Report{Tests: []Test{{Output: output}}}, nil, read)
		switch {
		case want == "" && len(changes) == 0:
		case len(changes) != 1 || changes[0].Path != "tests/test_a.py" || string(changes[0].Data) != want:
			t.Errorf("%q: %q", output, fmt.Sprint(changes))
		}
	}
}
