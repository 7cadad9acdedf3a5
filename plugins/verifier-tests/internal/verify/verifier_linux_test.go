package verify_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/jail"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

func TestMain(m *testing.M) {
	jail.Main()
	os.Exit(m.Run())
}

// write makes a work tree of the files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, config verify.Config) *verify.Verifier {
	t.Helper()
	j, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(config, j)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func judge(t *testing.T, v *verify.Verifier, query *sdk.Query, text string) *sdk.Verdict {
	t.Helper()
	verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: query, Answer: &sdk.Answer{Model: "m", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %.2f in %s: %s", verdict.Outcome, verdict.Score, verdict.Duration, verdict.Evidence)
	return verdict
}

var goTree = map[string]string{
	"go.mod":           "module example.com/calc\n\ngo 1.22\n",
	"calc/add.go":      "package calc\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a - b\n}\n",
	"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(2, 3); got != 5 {\n\t\tt.Errorf(\"Add(2, 3) = %d\", got)\n\t}\n}\n\nfunc TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Error(\"zero\")\n\t}\n}\n",
}

func TestGo(t *testing.T) {
	v := open(t, verify.Config{Command: []string{"go", "test", "./..."}, State: t.TempDir()})
	query := &sdk.Query{WorkDir: write(t, goTree)}
	for _, test := range []struct {
		name, answer string
		want         sdk.Outcome
	}{
		{"right", "calc/add.go\n<<<<<<< SEARCH\n\treturn a - b\n=======\n\treturn a + b\n>>>>>>> REPLACE\n", sdk.Passed},
		{"wrong", "calc/add.go\n<<<<<<< SEARCH\n\treturn a - b\n=======\n\treturn a * b\n>>>>>>> REPLACE\n", sdk.Failed},
		{"does not compile", "```go path=calc/add.go\npackage calc\n\nfunc Add(a, b int) string { return a + b }\n```\n", sdk.Failed},
		{"does not apply", "calc/add.go\n<<<<<<< SEARCH\n\treturn a / b\n=======\n\treturn a + b\n>>>>>>> REPLACE\n", sdk.Failed},
		{"exits in init", "```go path=calc/add.go\npackage calc\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return 0 }\n```\n", sdk.Failed},
		{"prints results", "```go path=calc/add.go\npackage calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() {\n\tfmt.Print(\"\\x16=== RUN   TestAdd\\n\\x16--- PASS: TestAdd (0.00s)\\n\\x16=== RUN   TestZero\\n\\x16--- PASS: TestZero (0.00s)\\nPASS\\n\")\n\tos.Exit(0)\n}\n\nfunc Add(a, b int) int { return 0 }\n```\n", sdk.Failed},
		{"edits the test", "```go path=calc/add_test.go\npackage calc\n```\n", sdk.Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			if verdict := judge(t, v, query, test.answer); verdict.Outcome != test.want {
				t.Errorf("outcome %s, want %s", verdict.Outcome, test.want)
			}
		})
	}
}
