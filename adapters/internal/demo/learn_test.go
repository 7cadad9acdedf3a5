package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// knowing judges like the tests of the tasks, which package tasks checks, without running them.
type knowing struct {
	byName map[string]*tasks.Task
	asked  atomic.Int64
}

func (k *knowing) Verifier(string, string, map[string]any) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		k.asked.Add(1)
		t := k.byName[req.Query.ID]
		if t.Right(req.Answer.Model) {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Confidence: 1}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Failed, Confidence: 1}, nil
	}), nil
}

func (*knowing) QualityEstimator(string, string, map[string]any) (sdk.QualityEstimator, error) {
	return nil, errors.New("none")
}

func (*knowing) CostEstimator(string, string, map[string]any) (sdk.CostEstimator, error) {
	return nil, errors.New("none")
}

func learned(t *testing.T) (report *Report, sent int64) {
	t.Helper()
	list, err := tasks.Repair()
	if err != nil {
		t.Fatal(err)
	}
	judge := &knowing{byName: map[string]*tasks.Task{}}
	for i := range list {
		judge.byName[list[i].Name] = &list[i]
	}
	var requests atomic.Int64
	script := tasks.Script(list)
	server, err := scripted.Start(scripted.Options{Models: tasks.Models(), Respond: func(ctx context.Context, r *scripted.Request) scripted.Reply {
		requests.Add(1)
		return script(ctx, r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	text := "verifier \"tests\" {\n  plugin = \"verifier-tests\"\n}\nstrategy \"index\" {\n  lambda = 50\n}\n"
	for i, name := range tasks.Models() {
		text += fmt.Sprintf("model %q {\n  provider = \"openai\"\n  base_url = %q\n  max_output_tokens = 4096\n  price {\n    input_usd_per_million = %g\n    output_usd_per_million = %g\n  }\n}\n",
			name, server.URL(), []float64{0.1, 0.4, 2}[i], []float64{0.4, 1.6, 8}[i])
	}
	policy, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report, err = run(t.Context(), &Options{Tasks: list}, policy, judge)
	if err != nil {
		t.Fatal(err)
	}
	return report, requests.Load()
}

// TestWhatIsLearntOnOneHalfServesTheOther runs the whole demo except for the tests themselves: each strategy has a
// curve, no task is solved by a fit that has seen it, and nothing is asked twice.
func TestWhatIsLearntOnOneHalfServesTheOther(t *testing.T) {
	if testing.Short() {
		t.Skip("fits 30 strategies")
	}
	report, sent := learned(t)
	if want := int64(report.Tasks * len(report.Models)); sent != want {
		t.Errorf("%d requests, want %d: each model once for each task", sent, want)
	}
	large := report.Rows[2].Points[0]
	if !report.Learnt || len(report.Rows) != 6 || len(report.Gains) != 4 {
		t.Fatalf("%+v", report)
	}
	for _, row := range report.Rows[3:] {
		if len(row.Points) != len(shares) {
			t.Errorf("%s has %d points", row.Strategy, len(row.Points))
		}
		for _, p := range row.Points {
			t.Logf("%s %.2f: %d solved, %.0f %% of large, %d calls", row.Strategy, p.Budget, p.Solved, 100*p.CostUSD/large.CostUSD, p.Calls)
			// What is fitted to 24 tasks misses its budget on 24 others, but not by far.
			if p.Budget > 0 && p.CostUSD/large.CostUSD > 1.6*p.Budget {
				t.Errorf("%s with a budget of %.2f spent %.2f", row.Strategy, p.Budget, p.CostUSD/large.CostUSD)
			}
			for i, trace := range p.Traces {
				if trace == nil || trace.Profile == "" {
					t.Fatalf("%s: task %d went by no profile", row.Strategy, i)
				}
			}
		}
		if last := row.Points[len(row.Points)-1]; last.Solved < large.Solved-1 || last.CostUSD > large.CostUSD {
			t.Errorf("%s without a budget solves %d for %g, always large %d for %g", row.Strategy, last.Solved, last.CostUSD, large.Solved, large.CostUSD)
		}
	}
	gain := map[string]Gain{}
	for _, g := range report.Gains {
		gain[g.Strategy] = g
	}
	if gain["index"].Mean <= gain[Mixed].Mean || gain["threshold cascade"].Over != 0 || math.Abs(gain["index"].Mean-gain["threshold cascade"].Mean-gain["index"].Over) > 1e-12 {
		t.Errorf("gains %+v", gain)
	}
	t.Log(report.Summary())
	for _, want := range []string{"as many tasks as always large (45 of 48)", "index is", "threshold cascade by"} {
		if !strings.Contains(report.Summary(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, report.Summary())
		}
	}
}
