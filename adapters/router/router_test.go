package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

const policy = `
model "small" {
  provider          = "openai"
  base_url          = "%URL%"
  api_key           = env("SMALL_KEY")
  max_output_tokens = 1000
  capabilities      = ["tools", "json_mode"]
  price {
    input_usd_per_million  = 0.15
    output_usd_per_million = 0.60
  }
  quality { mean = 0.55 }
}
model "large" {
  provider          = "openai"
  base_url          = "%URL%"
  max_output_tokens = 1000
  capabilities      = ["tools", "json_mode"]
  price {
    input_usd_per_million  = 2.5
    output_usd_per_million = 10
  }
  quality { mean = 0.9 }
}
plugin "exact" {}
verifier "exact" {
  plugin = "exact"
  config { want = "42" }
}
strategy "cascade_route" { lambda = 1 }
budget {
  step_usd = 0.10
  run_usd  = 1
}
trace {
  file    = "traces.jsonl"
  answers = true
}
`

// inProcess provides a verifier that compares answers with its configuration.
type inProcess struct{}

func (inProcess) Verifier(_, plugin string, config map[string]any) (sdk.Verifier, error) {
	if plugin != "exact" {
		return nil, errors.New("no such plugin")
	}
	return sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if r.Answer.Text == config["want"] {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "got " + r.Answer.Text}, nil
	}), nil
}

func (inProcess) QualityEstimator(string, string, map[string]any) (sdk.QualityEstimator, error) {
	return nil, errors.New("no estimators here")
}

func TestOpenRunsAPolicyEndToEnd(t *testing.T) {
	server, err := scripted.Start(scripted.Options{Respond: func(_ context.Context, r *scripted.Request) scripted.Reply {
		return scripted.Reply{Text: map[string]string{"small": "41", "large": "42"}[r.Model]}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.hcl")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(policy, "%URL%", server.URL())), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := full.Open(t.Context(), path, router.Options{Plugins: inProcess{}, Load: policies.LoadOptions{Env: []string{"SMALL_KEY=sk-verysecretkey123"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, rep := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Run: "r1"}))
	got, err := llms.GenerateFromSinglePrompt(ctx, r, "What is six times seven?")
	if err != nil || got != "42" {
		t.Fatalf("got %q, %v", got, err)
	}
	if rep.CostUSD() <= 0 || rep.Usage().Estimated {
		t.Errorf("cost %v, usage %+v: want the server's own counts", rep.CostUSD(), rep.Usage())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "traces.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var trace sdk.Trace
	if err := json.Unmarshal(data, &trace); err != nil {
		t.Fatal(err)
	}
	if len(trace.Calls) != 2 || trace.Chosen != "large" || trace.Calls[0].Verdict.Evidence != "got 41" || trace.Run != "r1" ||
		trace.Calls[0].Served != "small" || !strings.HasPrefix(trace.Policy, "policy.hcl@") {
		t.Errorf("trace %s", data)
	}
	if strings.Contains(string(data), "verysecret") || strings.Contains(string(data), "six times") {
		t.Error("the trace holds a secret or a prompt")
	}
}

func TestOpenNamesWhatIsMissing(t *testing.T) {
	src := `
model "mine" {
  provider = "go"
  price { free = true }
}
strategy "route" { lambda = 1 }
`
	p, err := policies.Parse("policy.hcl", []byte(src), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = router.New(t.Context(), p, full.Complete(router.Options{})); err == nil || !strings.Contains(err.Error(), `model mine has the provider "go"`) {
		t.Errorf("error %v", err)
	}
	if _, err = full.Open(t.Context(), filepath.Join(t.TempDir(), "missing.hcl"), router.Options{}); err == nil || !strings.Contains(err.Error(), "missing.hcl") {
		t.Errorf("error %v", err)
	}
}

// faultyPolicy has one model on two servers.
const faultyPolicy = `
model "only" {
  provider          = "openai"
  base_url          = "%URL%"
  max_output_tokens = 1000
  price { free = true }
  deployment "spare" { base_url = "%SPARE%" }
}
strategy "route" { lambda = 1 }
retry {
  max_attempts = 3
  base_delay   = "1ms"
  max_delay    = "2ms"
}
`

func serve(t *testing.T, respond func(n int64) scripted.Reply) *scripted.Server {
	t.Helper()
	var n atomic.Int64
	server, err := scripted.Start(scripted.Options{Respond: func(context.Context, *scripted.Request) scripted.Reply { return respond(n.Add(1)) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server
}

func TestFaultsOfServersAreRetriedAndFailedOver(t *testing.T) {
	good := scripted.Reply{Text: "42"}
	for name, fault := range map[string]scripted.Fault{
		"500":           {Kind: scripted.FaultStatus, Status: 500},
		"429":           {Kind: scripted.FaultStatus, Status: 429},
		"529":           {Kind: scripted.FaultStatus, Status: 529},
		"closed":        {Kind: scripted.FaultClose},
		"stream error":  {Kind: scripted.FaultStreamError},
		"cut in middle": {Kind: scripted.FaultTruncate},
	} {
		first := serve(t, func(int64) scripted.Reply { return scripted.Reply{Text: "4", Fault: fault} })
		spare := serve(t, func(n int64) scripted.Reply {
			if n == 1 {
				return scripted.Reply{Text: "4", Fault: fault}
			}
			return good
		})
		src := strings.NewReplacer("%URL%", first.URL(), "%SPARE%", spare.URL()).Replace(faultyPolicy)
		p, err := policies.Parse("policy.hcl", []byte(src), policies.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := router.New(t.Context(), p, full.Complete(router.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, rep := middleware.WithReport(t.Context())
		got, err := llms.GenerateFromSinglePrompt(ctx, r, "What is six times seven?")
		if err != nil || got != "42" {
			t.Errorf("%s: got %q, %v", name, got, err)
		} else if calls := rep.Steps()[0].Calls; len(calls) != 4 || calls[0].Deployment != "" || calls[1].Deployment != "spare" || calls[3].Error != "" {
			t.Errorf("%s: calls %+v", name, calls)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (inProcess) CostEstimator(string, string, map[string]any) (sdk.CostEstimator, error) {
	return nil, nil
}
