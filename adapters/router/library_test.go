package router_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// anyPlugin stands in for the plugins of the library: it fails answers that contain "bad".
type anyPlugin struct{}

func (anyPlugin) Verifier(string, string, map[string]any) (sdk.Verifier, error) {
	return sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if r.Answer.Text == "bad" {
			return &sdk.Verdict{Outcome: sdk.Failed}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
	}), nil
}

func (anyPlugin) QualityEstimator(string, string, map[string]any) (sdk.QualityEstimator, error) {
	return sdk.QualityEstimatorFunc(func(_ context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		resp := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(r.Models))}
		for i, m := range r.Models {
			resp.Estimates[i] = sdk.Abstain()
			for _, a := range r.Attempts {
				if a.Answer.Model == m {
					resp.Estimates[i] = sdk.Estimate{Mean: map[string]float64{"bad": 0.1, "good": 0.95}[a.Answer.Text]}
				}
			}
		}
		return resp, nil
	}), nil
}

// Each policy of the library can run steps: its models are called over HTTP, and their answers pass through its
// estimators, verifiers, caps and traces.
func TestLibraryPoliciesMakeSteps(t *testing.T) {
	for _, name := range policies.Library() {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var asked atomic.Int64
			server, err := scripted.Start(scripted.Options{Respond: func(context.Context, *scripted.Request) scripted.Reply {
				if asked.Add(1) == 1 {
					return scripted.Reply{Text: "bad"}
				}
				return scripted.Reply{Text: "good"}
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			o := policies.LoadOptions{Env: []string{"OPENAI_API_KEY=none"}}
			plain, err := policies.Load("library:"+name, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range plain.Models {
				o.Sets = append(o.Sets, "model."+m.Name+".base_url="+server.URL())
				if m.Provider != "openai" { // the server speaks OpenAI's protocol only
					o.Sets = append(o.Sets, "model."+m.Name+".provider=openai")
				}
			}
			p, err := policies.Load("library:"+name, o)
			if err != nil {
				t.Fatal(err)
			}
			calls := 0
			r, err := router.New(t.Context(), p, full.Complete(router.Options{Plugins: anyPlugin{}, Traces: func(_ context.Context, tr *sdk.Trace) { calls += len(tr.Calls) }}))
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []string{"", "verified"} {
				info := middleware.Info{Run: "run", Session: "session", Tenant: "tenant", Group: kind}
				if kind != "" {
					info.Checks = sdk.Checks{FailToPass: []string{"TestIt"}}
				}
				ctx, rep := middleware.WithReport(middleware.WithInfo(t.Context(), info))
				got, err := llms.GenerateFromSinglePrompt(ctx, r, "What is it?")
				if err != nil || got == "" {
					t.Fatalf("got %q, %v", got, err)
				}
				if s := rep.Steps(); len(s) != 1 || s[0].Chosen == "" || len(s[0].Decisions) == 0 {
					t.Errorf("steps %+v", s)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if int64(calls) != asked.Load() || calls < 2 {
				t.Errorf("the traces have %d calls, the server had %d", calls, asked.Load())
			}
			for _, file := range []string{p.Trace.File, p.Budget.Ledger} {
				if file == "" {
					continue
				}
				if info, err := os.Stat(file); err != nil || info.Size() == 0 {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
}

func (anyPlugin) CostEstimator(string, string, map[string]any) (sdk.CostEstimator, error) {
	return nil, nil
}
