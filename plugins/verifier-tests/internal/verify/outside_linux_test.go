package verify_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// Code in Go is asked outside of its tests: what it learns from other tests, files that say what is
// expected, and names is nothing there, and a right answer needs no other run.
func TestGoIsAskedOutside(t *testing.T) {
	long(t)
	find(t, "go", "version")
	tree := write(t, map[string]string{
		"go.mod": "module example.com/hexes\n\ngo 1.22\n", "README.md": "| n | text |\n| --- | --- |\n| 31 | 0x1f |\n| 1000 | 0x3e8 |\n",
		"hexes.go": "package hexes\n\nfunc Parse(s string) int { return 0 }\n\nfunc Format(n int) string { return \"\" }\n",
		"hexes_test.go": `package hexes

import "testing"

func TestParse(t *testing.T) {
	for s, want := range map[string]int{"0x1f": 31, "0x3e8": 1000} {
		if got := Parse(s); got != want {
			t.Errorf("Parse(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		name, want string
		n          int
	}{{"31 is 0x1f", "0x1f", 31}, {"1000 is 0x3e8", "0x3e8", 1000}} {
		t.Run(c.name, func(t *testing.T) {
			if got := Format(c.n); got != c.want {
				t.Errorf("Format(%d) = %q, want %q", c.n, got, c.want)
			}
		})
	}
}
`,
	})
	const parse = "func Parse(s string) int {\n\tn, _ := strconv.ParseInt(s, 0, 64)\n\treturn int(n)\n}\n\n"
	for _, test := range []struct{ name, code, says string }{
		{"right", "import (\n\t\"fmt\"\n\t\"strconv\"\n)\n\n" + parse + "func Format(n int) string { return fmt.Sprintf(\"%#x\", n) }\n", "2 of 2 tests are answered right where no test runs"},
		{"learns from the inverse", "import \"strconv\"\n\nvar seen = map[int]string{}\n\nfunc Parse(s string) int {\n\tn, _ := strconv.ParseInt(s, 0, 64)\n\tseen[int(n)] = s\n\treturn int(n)\n}\n\nfunc Format(n int) string { return seen[n] }\n", "hangs on files that no code names or on other tests"},
		{"embeds its README", "import (\n\t_ \"embed\"\n\t\"fmt\"\n\t\"strconv\"\n\t\"strings\"\n)\n\n//go:embed README.md\nvar readme string\n\n" + parse +
			"func Format(n int) string {\n\t_, row, _ := strings.Cut(readme, fmt.Sprintf(\"| %d | \", n))\n\ttext, _, _ := strings.Cut(row, \" |\")\n\treturn text\n}\n", "otherwise where no test runs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			verdict := judge(t, goVerifier(t, verify.Config{}), &sdk.Query{WorkDir: tree}, "```go path=hexes.go\npackage hexes\n\n"+test.code+"```\n")
			const believed = 0.9
			if passed := verdict.Outcome == sdk.Passed && verdict.Confidence >= believed; passed != (test.name == "right") || !strings.Contains(verdict.Evidence, test.says) {
				t.Errorf("%s %g: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
			}
		})
	}
}
