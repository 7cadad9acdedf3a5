package policies_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

// schemas is the schema of the one plugin that the bad policies know.
var schemas = policies.SchemaSource(func(p policies.Plugin, role string) (*schema.Schema, error) {
	if p.Name != "verifier-tests" || role != "verifier" {
		return nil, policies.ErrNoPlugin
	}
	one := 1.0
	return &schema.Schema{Fields: []schema.Field{
		{Name: "command", Type: "list(string)", Required: true, Doc: "the command that runs the tests, such as [\"go\", \"test\", \"./...\"]"},
		{Name: "timeout", Type: "duration"},
		{Name: "parallel", Type: "integer", Min: &one},
		{Name: "token", Type: "string", Sensitive: true},
		{Name: "shell", Type: "string", Deprecated: "use command"},
	}}, nil
})

// Each archive has an invalid policy (policy.hcl, with further files, env and set) and the diagnostics for it (want).
// Read the want files as an operator would.
func TestMessagesForBadPolicies(t *testing.T) {
	archives, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(archives) < 40 {
		t.Errorf("%d bad policies, want at least 40", len(archives))
	}
	for i, name := range archives {
		archives[i], err = filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { badPolicy(t, file) })
	}
}

func badPolicy(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	o := policies.LoadOptions{Env: []string{"OPENAI_API_KEY=sk-planted-secret-0123456789"}, Schemas: schemas, Today: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	want := ""
	for _, f := range archive.Files {
		lines := strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		switch f.Name {
		case "env":
			o.Env = append(o.Env, lines...)
		case "set":
			o.Sets = lines
		case "want":
			want = string(f.Data)
		default:
			if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, err := policies.Load("policy.hcl", o)
	got := ""
	switch {
	case err != nil:
		got = err.Error() + "\n"
	case len(p.Warnings) > 0:
		got = p.Warnings.Error() + "\n"
	default:
		t.Fatal("nothing is wrong with it")
	}
	if strings.Contains(got, "planted") {
		t.Errorf("a secret shows:\n%s", got)
	}
	if *update {
		archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
		archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("go test ./policies -run TestMessages -update shows the change in git (-want +got):\n%s", diff)
	}
}
