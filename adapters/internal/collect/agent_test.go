package collect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// TestAgentProgram is an agent, and the check of its result, when the test binary runs as such.
func TestAgentProgram(t *testing.T) {
	at := slices.Index(os.Args, "--")
	if at < 0 {
		t.Skip("not run as a program")
	}
	args := os.Args[at+1:]
	if args[0] == "check" {
		said, err := io.ReadAll(os.Stdin)
		if err != nil || os.Getenv("OPENAI_BASE_URL") != "" || !strings.Contains(string(said), "large") && args[1] != "easy" {
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Two steps, the second of which goes on from the first.
	messages := []map[string]string{{"role": "user", "content": args[1]}}
	for range 2 {
		body, _ := json.Marshal(map[string]any{"model": "gpt-4o", "messages": messages})
		resp, err := http.Post(os.Getenv("OPENAI_BASE_URL")+"/chat/completions", "application/json", bytes.NewReader(body)) //nolint:noctx // a program of a few lines
		if err != nil {
			os.Exit(2)
		}
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err != nil || len(answer.Choices) == 0 {
			os.Exit(3)
		}
		fmt.Println(answer.Choices[0].Message.Content)
		messages = append(messages, map[string]string{"role": "assistant", "content": answer.Choices[0].Message.Content}, map[string]string{"role": "user", "content": "go on"})
	}
	os.Exit(0)
}

// An agent does each task once with every model and then with the policy; outcomes have the cost and the verdict of
// the run, and a second collection repeats nothing.
func TestAgentsAreCollected(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const largeName = "maker/large" // as providers have them
	p, err := policies.Parse("policy.hcl", []byte(strings.ReplaceAll(policyText, `"large"`, `"`+largeName+`"`)), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Verifiers = nil
	p.Strategy = policies.Strategy{Kind: "threshold", Order: []string{largeName}, Threshold: []float64{0.9}}
	small, large := &parrot{name: "small"}, &parrot{name: "large"}
	dir := t.TempDir()
	o := collect.Options{
		Policy: p, Out: filepath.Join(dir, "runs.jsonl"), Parallel: 1,
		Tasks:  []collect.Task{{QueryID: "easy", Prompt: "an easy one; $(exit 1)"}, {QueryID: "hard", Group: "difficult", Prompt: "a hard one"}},
		Router: router.Options{Models: map[string]llms.Model{"small": small, largeName: large}},
		Agent: &collect.Agent{
			Command: []string{program, "-test.run=^TestAgentProgram$", "--", "run", "{task}"},
			Check:   []string{program, "-test.run=^TestAgentProgram$", "--", "check", "{id}"}, Traces: filepath.Join(dir, "runs.traces.jsonl"),
		},
	}
	for range 2 {
		sum, err := collect.Run(t.Context(), o)
		if err != nil || sum.Had+sum.New != 6 || len(sum.Faults) > 0 {
			t.Fatalf("%v, %+v", err, sum)
		}
	}
	if small.calls != 4 || large.calls != 8 {
		t.Errorf("small was called %d times and large %d, want 4 and 8", small.calls, large.calls)
	}
	runs, err := outcome.Open(o.Out, outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for q, id := range runs.Queries {
		for m, name := range runs.Models {
			quality, usd := 1.0, 0.02 // two calls of a token at 10,000 USD a million, and their prompts, which are estimated
			if name == "small" {
				usd = 0.002
				if id == "hard" {
					quality = 0
				}
			}
			if runs.Quality[q][m] != quality || runs.CostUSD[q][m] < usd || runs.CostUSD[q][m] > 1.03*usd {
				t.Errorf("%s of %s: quality %v for %v USD", id, name, runs.Quality[q][m], runs.CostUSD[q][m])
			}
		}
	}
	if want := []string{"small", largeName, collect.PolicyName}; !slices.Equal(runs.Models, want) {
		t.Errorf("models %v, want %v", runs.Models, want)
	}
	// The first step of a task is one query, whoever does it; then the runs part.
	steps, err := outcome.Open(o.Agent.Traces, outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps.Queries) != 6 || len(steps.Complete().Queries) != 2 || steps.Labels != "verdicts on runs" {
		t.Errorf("%d queries, %d complete, labels %q", len(steps.Queries), len(steps.Complete().Queries), steps.Labels)
	}
	for q, id := range steps.Queries {
		if isHard := strings.HasPrefix(id, "hard/"); isHard != (steps.Group(q) == "difficult") {
			t.Errorf("step %s is of group %q", id, steps.Group(q))
		}
		if m := steps.Index("small"); strings.HasPrefix(id, "hard/") && steps.Quality[q][m] == 1 || strings.HasPrefix(id, "easy/") && steps.Quality[q][m] == 0 {
			t.Errorf("step %s of small has %v", id, steps.Quality[q][m])
		}
	}
	// A run that the cap cuts short is no outcome, what it spent counts, and the cap holds.
	for _, c := range []struct {
		usd  float64
		runs int
		paid float64
	}{{0.001, 0, 0}, {0.0126, 0, 0.001}} {
		o.CapUSD, o.Out = c.usd, filepath.Join(dir, fmt.Sprintf("capped%v.jsonl", c.usd))
		if sum, err := collect.Run(t.Context(), o); err != nil || sum.New != c.runs || !sum.CapReached || sum.SpentUSD < c.paid || sum.SpentUSD > 1.01*c.paid {
			t.Errorf("under a cap of %v: %v, %+v", c.usd, err, sum)
		}
	}
	p.Budget.RunUSD = 1
	if _, err := collect.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "budget.run_usd") {
		t.Errorf("caps of two kinds: %v", err)
	}
	p.Budget.RunUSD = 0
	o.CapUSD, o.Out, o.Agent.Command = 0, filepath.Join(dir, "broken.jsonl"), []string{filepath.Join(dir, "nothing")}
	if sum, err := collect.Run(t.Context(), o); err != nil || sum.New != 0 || sum.Failed != 6 || len(sum.Faults) == 0 {
		t.Errorf("a program that is not there: %v, %+v", err, sum)
	}
}
