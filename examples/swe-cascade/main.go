// Command swe-cascade fixes a repository: each model makes an attempt in a work tree of its own, cheapest sensible
// first, until the tests accept a patch.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/adapters/swe"
	"github.com/stepfall/stepfall/sdk/jail"
)

func main() {
	jail.Main() // commands of models run in a jail, as a child of this program
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	stop, err := scripted.WithoutKey(answer)
	if err != nil {
		return err
	}
	defer stop()
	dir, err := os.MkdirTemp("", "swe-cascade")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	repo := filepath.Join(dir, "leap")
	if err := makeRepository(repo); err != nil {
		return err
	}

	model, err := full.Open(ctx, "policy.hcl", full.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	results, err := swe.Run(ctx, model, swe.Options{CapUSD: 1}, swe.Task{
		InstanceID: "leap", Repo: repo, ProblemStatement: "1900 was no leap year, but IsLeap says it was.",
		FailToPass: []string{"TestCenturies"}, PassToPass: []string{"TestFourth"},
	})
	if err != nil {
		return err
	}
	for _, attempt := range results[0].Attempts {
		fmt.Printf("%s: %s\n", attempt.Model, attempt.Verdict.Outcome)
	}
	for line := range strings.Lines(results[0].Patch) {
		if strings.HasPrefix(line, "+\t") || strings.HasPrefix(line, "-\t") {
			fmt.Print(line)
		}
	}
	return nil
}

// makeRepository creates the repository to repair.
func makeRepository(dir string) error {
	for name, text := range map[string]string{
		"go.mod":  "module leap\n\ngo 1.26\n",
		"leap.go": "package leap\n\n// IsLeap reports whether a year is a leap year.\nfunc IsLeap(year int) bool {\n\treturn year%4 == 0\n}\n",
		"leap_test.go": "package leap\n\nimport \"testing\"\n\nfunc TestFourth(t *testing.T) {\n\tif !IsLeap(2024) || IsLeap(2023) {\n\t\tt.Fail()\n\t}\n}\n\n" +
			"func TestCenturies(t *testing.T) {\n\tif IsLeap(1900) || !IsLeap(2000) {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "leap years"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// answer returns the scripted models' answers: the small one forgets the year 2000.
func answer(_ context.Context, req *scripted.Request) scripted.Reply {
	if req.Messages[len(req.Messages)-1].Role == "tool" {
		return scripted.Reply{Text: "I have corrected the rule for centuries."}
	}
	rule := "year%4 == 0 && year%100 != 0"
	if req.Model == "gpt-4o" {
		rule += " || year%400 == 0"
	}
	return scripted.Reply{ToolCalls: []scripted.ToolCall{{
		ID: "call1", Name: "edit", Arguments: fmt.Sprintf(`{"path": "leap.go", "old": "year%%4 == 0", "new": %q}`, rule),
	}}}
}
