package docs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// TestFirstPartyPoliciesWork runs the plugins with the policies that their page
// shows, on an answer that is right and on one that is wrong.
func TestFirstPartyPoliciesWork(t *testing.T) {
	bin, dir := filepath.Join(built(t), "plugins"), t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "checks"), os.DirFS(filepath.Join(root, "plugins", "verifier-command", "examples"))); err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "tree")
	write(t, tree, map[string]string{
		"go.mod":           "module calc\n\ngo 1.22\n",
		"calc/add.go":      "package calc\n\nfunc Add(a, b int) int { return a - b }\n",
		"calc/add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Fail()\n\t}\n}\n",
	})
	write(t, filepath.Join(dir, "cases"), map[string]string{"1.in": "2 3\n", "1.out": "5\n"})
	// Go's own cache stays: in an empty one everything would be compiled anew.
	for name, value := range goEnv(t, "GOCACHE") {
		t.Setenv(name, value)
	}
	cache := t.TempDir()
	keepCompiled(t, cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	judge := func(_ context.Context, _ string, q *sdk.Query) (*sdk.Answer, error) {
		prompt := q.Messages[0].Text()
		right := strings.Contains(prompt, "2 + 2 = 4") == strings.Contains(prompt, "A: The answer is acceptable")
		return &sdk.Answer{Text: map[bool]string{true: "A", false: "B"}[right]}, nil
	}
	t.Setenv("STEPFALL_PLUGIN_PATH", bin)
	h, err := full.Complete(full.Options{}).PluginHosts.Host(&policies.Policy{Path: filepath.Join(dir, "policy.hcl")}, judge, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	code := func(body string) string {
		return "```go path=calc/add.go\npackage calc\n\nfunc Add(a, b int) int { return " + body + " }\n```\n"
	}
	query := &sdk.Query{WorkDir: tree, Tools: []sdk.Tool{{Name: "now"}}, Format: sdk.ResponseFormat{JSON: true}}
	for plugin, test := range map[string]struct {
		right, wrong *sdk.Answer
		says         sdk.Outcome // of the right one
	}{
		"verifier-tests":   {&sdk.Answer{Text: code("a + b")}, &sdk.Answer{Text: code("a * b")}, sdk.Passed},
		"verifier-cases":   {&sdk.Answer{Text: "```\nprint(sum(map(int, input().split())))\n```"}, &sdk.Answer{Text: "```\nprint(input())\n```"}, sdk.Passed},
		"verifier-schema":  {&sdk.Answer{ToolCalls: []sdk.ToolCall{{Name: "now"}}}, &sdk.Answer{Text: `{"name": "Ada"}`}, sdk.Inconclusive},
		"verifier-command": {&sdk.Answer{Text: "2 + 2 = 4"}, &sdk.Answer{Text: "2 + 2 = 5"}, sdk.Passed},
		"verifier-judge":   {&sdk.Answer{Text: "2 + 2 = 4"}, &sdk.Answer{Text: "2 + 2 = 5"}, sdk.Passed},
	} {
		t.Run(plugin, func(t *testing.T) {
			shown := exampleOf(t, plugin).Verifiers
			if len(shown) != 1 {
				t.Fatalf("%d verifiers in its section", len(shown))
			}
			v, err := h.Verifier(shown[0].Name, plugin, shown[0].Config.Reveal())
			if err != nil {
				t.Fatal(err)
			}
			for answer, want := range map[*sdk.Answer]sdk.Outcome{test.right: test.says, test.wrong: sdk.Failed} {
				verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: query, Answer: answer})
				if err != nil || verdict.Outcome != want {
					t.Errorf("%+v: %+v, %v", answer, verdict, err)
				}
			}
		})
	}
}

// exampleOf loads the policy in the section of a plugin.
func exampleOf(t *testing.T, plugin string) *policies.Policy {
	t.Helper()
	_, blocks := read(t, "docs/first-party-plugins.md")
	for _, b := range blocks {
		if b.lang == "hcl" && strings.Contains(b.text, `"`+plugin+`"`) {
			p, err := policies.Parse("policy.hcl", []byte(surrounded(b.text)), policies.LoadOptions{Env: []string{"OPENAI_API_KEY=none"}, WithoutProfile: true})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Fatalf("the page shows no policy with %s", plugin)
	return nil
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
