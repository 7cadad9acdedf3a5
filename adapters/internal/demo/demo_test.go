package demo_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/demo"
	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/sdk"
)

const policy = `
plugin "verifier-tests" {
  path = %q
}
verifier "tests" {
  plugin = "verifier-tests"
  config {
    command   = ["go", "test", "-vet=off", "-timeout=8s", "./..."]
    timeout   = "60s"
    preflight = false
    reruns    = 0
  }
  on_unavailable = "fail"
}
strategy "cascade_route" {
  lambda = 50
}
`

const model = `
model %q {
  provider = "openai"
  base_url = %q
  price {
    input_usd_per_million  = %g
    output_usd_per_million = %g
  }
  max_output_tokens = 4096
  quality {
    mean = %g
  }
}
`

// write writes a policy for the scripted server and the plugin, built from source.
func write(t *testing.T, url string) string {
	t.Helper()
	dir := programs.Build(t, "verifier-tests")
	plugin := filepath.Join(dir, "verifier-tests")
	text := fmt.Sprintf(policy, plugin)
	for i, name := range tasks.Models() {
		text += fmt.Sprintf(model, name, url, []float64{0.1, 0.4, 2}[i], []float64{0.4, 1.6, 8}[i], []float64{0.4, 0.7, 0.9}[i])
	}
	path := filepath.Join(dir, "policy.hcl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheTestsDecideAsTheTasksSay(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs Go tests")
	}
	all, err := tasks.Repair()
	if err != nil {
		t.Fatal(err)
	}
	// Tasks at which the models differ: only medium right among the dear ones; and, in CI, none right,
	// all right, small wrong, only large right, and one whose wrong answer runs until it is stopped.
	names := []string{"route"}
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		names = append(names, "interval", "clamp", "rotate", "csvline", "topo")
	}
	var list []tasks.Task
	wantSolved, wantCalls := 0, 0
	for _, task := range all {
		if !slices.Contains(names, task.Name) {
			continue
		}
		list = append(list, task)
		first := slices.IndexFunc(tasks.Models(), task.Right)
		if first < 0 {
			wantCalls += len(tasks.Models())
			continue
		}
		wantSolved, wantCalls = wantSolved+1, wantCalls+first+1
	}
	server, err := scripted.Start(scripted.Options{Models: tasks.Models(), Respond: tasks.Script(list)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	report, err := demo.Run(t.Context(), demo.Options{Policy: write(t, server.URL()), Tasks: list})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(tasks.Models())+3 || report.Learnt {
		t.Fatalf("%d rows, learnt %t from %d tasks", len(report.Rows), report.Learnt, len(list))
	}
	for i, m := range tasks.Models() {
		right := 0
		for _, task := range list {
			if task.Right(m) {
				right++
			}
		}
		if row := report.Rows[i]; !row.Single || row.Points[0].Solved != right || row.Points[0].Calls != len(list) {
			t.Errorf("always %s: %+v, want %d solved", m, row, right)
		}
	}
	large := report.Rows[2].Points[0]
	for _, row := range report.Rows[3:] {
		p := row.Points[0]
		if p.Solved != wantSolved || p.CostUSD >= large.CostUSD {
			t.Errorf("%s solved %d for %g USD, want %d for less than %g", row.Strategy, p.Solved, p.CostUSD, wantSolved, large.CostUSD)
		}
		calls := 0
		for _, trace := range p.Traces {
			calls += len(trace.Calls)
			for _, c := range trace.Calls {
				if c.Verdict == nil || c.Verdict.Outcome == sdk.Inconclusive {
					t.Errorf("%s, %s: %s has no verdict: %+v", row.Strategy, trace.QueryID, c.Model, c.Verdict)
				}
			}
		}
		if calls != p.Calls || calls != wantCalls {
			t.Errorf("%s made %d calls and counts %d, want %d", row.Strategy, calls, p.Calls, wantCalls)
		}
	}
	figure, err := report.Figure()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := figure.Save(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cost-quality.png", "cost-quality.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoVerdictIsAnError: if the tests cannot run, the figures would show that no model solves anything.
func TestNoVerdictIsAnError(t *testing.T) {
	all, err := tasks.Repair()
	if err != nil {
		t.Fatal(err)
	}
	list := all[:2]
	server, err := scripted.Start(scripted.Options{Models: tasks.Models(), Respond: tasks.Script(list)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	path := write(t, server.URL())
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`["go",`), []byte(`["no-such-program",`), 1)
	text = bytes.Replace(text, []byte(`preflight = false`), []byte(`preflight = true`), 1)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = demo.Run(t.Context(), demo.Options{Policy: path, Tasks: list})
	if err == nil || !strings.HasPrefix(err.Error(), "no task got a verdict") || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("error %v", err)
	}
	// A broken plugin is found before a model is paid.
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "verifier-tests"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	sent := server.Calls(tasks.Small)
	if _, err = demo.Run(t.Context(), demo.Options{Policy: path, Tasks: list}); err == nil || !strings.Contains(err.Error(), "did not start") || server.Calls(tasks.Small) > sent {
		t.Errorf("error %v, %d calls", err, server.Calls(tasks.Small)-sent)
	}
}
