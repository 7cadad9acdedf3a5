package alter

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// With a file of records, sources of each language note what is compared, and what is
// expected unaltered where that is known, in every way that runs them for it.
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
			if !known || !strings.Contains(source.Text, "../.record") {
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

// What a struct is that an operator compares is known, and not what one is that has a method
// for it.
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
