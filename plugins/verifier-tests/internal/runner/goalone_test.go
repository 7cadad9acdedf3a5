package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

// What code sets of the standard library, and whether it asks for tests, is found where the
// answer adds it; variables of the same names are none.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n", "a.go": "package m\n\nimport \"time\"\n\nfunc init() { time.Local = time.UTC }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree := &Tree{Dir: dir, Files: []string{"a.go", "go.mod"}}
	for text, want := range map[string][]string{
		"package m\n\nimport \"time\"\n\nfunc init() { time.Local = time.UTC }\n":                                                    nil,
		"package m\n\nimport \"io\"\n\nfunc init() { io.EOF = nil }\n":                                                               {"io.EOF"},
		"package m\n\nimport \"flag\"\n\nfunc F() bool { return flag.Lookup(\"test.v\") != nil }\n":                                  {"flag.Lookup"},
		"package m\n\nimport (\n\t\"os\"\n\t\"strings\"\n)\n\nfunc F() bool { return strings.HasSuffix(os.Args[0], \".test\") }\n":   {"\".test\""},
		"package m\n\nimport \"os\"\n\nfunc F() bool { return len(os.Args) > 1 && os.Args[1] == \"test\" }\n":                        nil,
		"package m\n\nimport \"net/url\"\n\nfunc F(s string) string { url, _ := url.Parse(s); url.Path = \"/\"; return url.Path }\n": nil,
		"package m\n\nimport \"example.com/conf\"\n\nfunc init() { conf.Name = \"x\" }\n":                                            nil,
	} {
		_, got := NeedsTests(tree, []jail.Change{{Path: "a.go", Data: []byte(text)}})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
