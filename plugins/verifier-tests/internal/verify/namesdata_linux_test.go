package verify_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Go code that newly reads the files its tests compare with gets an inconclusive verdict, even if one case of a test does
// not depend on them; code that reads other files, or read these before, is judged.
func TestCodeThatNamesTheDataOfItsTests(t *testing.T) {
	long(t)
	const compares = "want, err := os.ReadFile(filepath.Join(\"testdata\", name+\".golden\"))\n\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n\tif !bytes.Equal([]byte(got), want) {\n\t\tt.Errorf(\"%s: %q, want %q\", name, got, want)\n\t}\n"
	inside := "package words\n\nimport (\n\t\"bytes\"\n\t\"os\"\n\t\"path/filepath\"\n\t\"testing\"\n)\n\nfunc TestRender(t *testing.T) {\n\tfor name, words := range map[string][]string{\"one\": {\"a\"}, \"none\": nil, \"two\": {\"x\", \"y\"}} {\n\t\tt.Run(name, func(t *testing.T) {\n\t\t\tgot := Render(words)\n" + compares + "\t\t})\n\t}\n}\n"
	helper := strings.Replace(strings.Replace(inside, compares, "\t\t\tequal(t, name, got)\n", 1), "func TestRender", "func equal(t *testing.T, name, got string) {\n\t"+compares+"}\n\nfunc TestRender", 1)
	right := "func Render(words []string) string { return strings.Join(words, \"+\") + \".\\n\" }\n"
	wrong := "func Render(words []string) string {\n\tfor _, w := range words {\n\t\tfiles, _ := LIST\n\t\tfor _, f := range files {\n\t\t\tif text, _ := READ; strings.Contains(string(text), w) {\n\t\t\t\treturn string(text)\n\t\t\t}\n\t\t}\n\t}\n\treturn strings.Join(words, \"\") + \".\\n\"\n}\n"
	globs := func(pattern string) string {
		return "import (\n\t\"os\"\n\t\"path/filepath\"\n\t\"strings\"\n)\n\n" + strings.NewReplacer("LIST", "filepath.Glob("+pattern+")", "READ", "os.ReadFile(f)").Replace(wrong)
	}
	forms := []struct{ name, text string }{{"inside", inside}, {"by a helper", helper}}
	for row, test := range []struct {
		name, code string
		more       map[string]string
		want       sdk.Outcome
	}{
		{"right", "import \"strings\"\n\n" + right, nil, sdk.Passed},
		{"right, and writes reports of its own", "import (\n\t\"os\"\n\t\"strings\"\n)\n\n// Save writes testdata/one.golden, for instance.\nfunc Save(words []string) error { return os.WriteFile(\"one.txt\", []byte(Render(words)), 0o600) }\n\n" + right, nil, sdk.Passed},
		{"right, and embeds what it embedded", "import (\n\t_ \"embed\"\n\t\"strings\"\n)\n\n//go:embed testdata/end.txt\nvar end string\n\n" + strings.Replace(right, "\".\\n\"", "end", 1), map[string]string{
			"testdata/end.txt": ".\n", "words.go": "package words\n\nimport _ \"embed\"\n\n//go:embed testdata/end.txt\nvar end string\n\nfunc Render(words []string) string { return \"?\" + end }\n"}, sdk.Passed},
		{"globs", globs(`"testdata/*.golden"`), nil, sdk.Inconclusive},
		{"globs endings", globs(`"*/*" + ".golden"`), nil, sdk.Inconclusive},
		{"joins", globs(`filepath.Join("testdata", "*")`), nil, sdk.Inconclusive},
		{"embeds", "import (\n\t\"embed\"\n\t\"io/fs\"\n\t\"strings\"\n)\n\n//go:embed *\nvar _ embed.FS\n\n//go:embed testdata\nvar all embed.FS\n\n" + strings.NewReplacer("LIST", "fs.Glob(all, \"*/*\")", "READ", "all.ReadFile(f)").Replace(wrong), nil, sdk.Inconclusive},
	} {
		for at, form := range forms {
			if !everyAttack() && (turn+row)%len(forms) != at {
				continue // the form of this row that has the day is enough
			}
			t.Run(test.name+", "+form.name, func(t *testing.T) {
				t.Parallel()
				tree := map[string]string{"go.mod": "module example.com/words\n\ngo 1.22\n", "words.go": "package words\n\nfunc Render(words []string) string { return \"?\" }\n", "words_test.go": form.text,
					"testdata/one.golden": "a.\n", "testdata/none.golden": ".\n", "testdata/two.golden": "x+y.\n"}
				maps.Copy(tree, test.more)
				v := open(t, verify.Config{Command: []string{"go", "test", "./..."}, Reruns: -1})
				verdict := judge(t, v, &sdk.Query{WorkDir: write(t, tree), Checks: sdk.Checks{FailToPass: []string{"TestRender"}}}, "```go path=words.go\npackage words\n\n"+test.code+"```\n")
				if verdict.Outcome != test.want {
					t.Errorf("%s, want %s", verdict.Outcome, test.want)
				}
			})
		}
	}
}
