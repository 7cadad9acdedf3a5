package swe_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/programs"
)

// instant is a model that edits a file and runs the tests, without delay.
type instant struct{}

func (instant) GenerateContent(_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	call := llms.FunctionCall{Name: "edit", Arguments: `{"path": "dir0/file0.txt", "old": "file 0", "new": "file zero"}`}
	if len(messages) > 2 {
		call = llms.FunctionCall{Name: "test", Arguments: "{}"}
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: []llms.ToolCall{{ID: "1", Type: "function", FunctionCall: &call}}}}}, nil
}

func (m instant) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

const instantPolicy = `
model "instant" {
  provider = "go"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1
  }
  context_tokens    = 128000
  max_output_tokens = 1000
  capabilities      = ["tools"]
  quality {
    mean = 0.9
  }
}

verifier "tests" {
  plugin = "verifier-tests"
  config {
    command = ["/bin/true"]
  }
  when {
    checks = true
  }
}

strategy "cascade_route" {
  lambda = 1
}
`

// BenchmarkTask measures the overhead of a task with one attempt; the model and the tests take no time here. It
// consists of two work trees, a command in the agent's jail, the patch, and the verdict of the plugin, whose command
// runs in its jail. Sub-benchmarks are by the number of files in the tree.
func BenchmarkTask(b *testing.B) {
	b.Setenv("STEPFALL_PLUGIN_PATH", programs.Build(b, "verifier-tests"))
	for _, files := range []int{30, 2000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			dir := b.TempDir()
			repo := manyFiles(b, filepath.Join(dir, "repo"), files)
			policy := filepath.Join(dir, "policy.hcl")
			if err := os.WriteFile(policy, []byte(instantPolicy), 0o600); err != nil {
				b.Fatal(err)
			}
			r, err := full.Open(b.Context(), policy, full.Options{Models: map[string]llms.Model{"instant": instant{}}})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			walls, err := swe.NewJail(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			solver := &swe.Solver{Setup: swe.FromRouter(r), Mode: swe.WholeTrajectory, Jail: walls, TestCommand: []string{"/bin/true"}}
			opened, err := swe.OpenRepository(b.Context(), repo, filepath.Join(dir, "trees"))
			if err != nil {
				b.Fatal(err)
			}
			defer opened.Close()
			for b.Loop() {
				result, err := solver.Solve(b.Context(), opened, &swe.Task{InstanceID: "task", ProblemStatement: "mend it"})
				if err != nil || !result.Solved || len(result.Attempts) != 1 {
					b.Fatalf("%+v, %v", result, err)
				}
			}
		})
	}
}

// manyFiles makes a repository of one commit with n files.
func manyFiles(b *testing.B, dir string, n int) string {
	b.Helper()
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("dir%d/file%d.txt", i%50, i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "some text of file %d\n", i), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-qm", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}
