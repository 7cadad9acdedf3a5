package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/sdk"
)

const judgedPolicy = `
model "small" {
  provider          = "openai"
  base_url          = %[1]q
  max_output_tokens = 100
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 1
  }
  capabilities = ["json_schema"]
  quality { mean = 0.6 }
}
model "large" {
  provider          = "openai"
  base_url          = %[1]q
  max_output_tokens = 100
  price {
    input_usd_per_million  = 10
    output_usd_per_million = 10
  }
  capabilities = ["json_schema"]
  quality { mean = 0.9 }
}
verifier "json" {
  plugin = "verifier-schema"
  config { may_pass = true }
}
strategy "cascade_route" { lambda = 100 }
trace { file = %[2]q }
`

// A gateway without plugins has its answers judged by a worker that has them: nothing else in it can pass an answer.
func TestServeQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a plugin and starts a database")
	}
	cluster := pgtest.Start(t, "fsync=off")
	database, dir := cluster.Database(t), t.TempDir()
	models, err := scripted.Start(scripted.Options{Respond: func(_ context.Context, r *scripted.Request) scripted.Reply {
		text := `{"right": true}`
		if r.Model == "small" {
			text = "I had rather not."
		}
		return scripted.Reply{Text: text, Usage: &scripted.Usage{InputTokens: 20, OutputTokens: 10}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	traces := filepath.Join(dir, "traces.jsonl")
	policy := filepath.Join(dir, "policy.hcl")
	if err := os.WriteFile(policy, fmt.Appendf(nil, judgedPolicy, models.URL(), traces), 0o600); err != nil {
		t.Fatal(err)
	}
	plugins := filepath.Join(dir, "plugins")
	if err := programs.Into(plugins, "verifier-schema"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	begin := func(where string, args ...string) *service {
		t.Setenv("STEPFALL_PLUGIN_PATH", where)
		s := &service{args: args}
		if !s.start(t) {
			t.Fatalf("%s does not start: %s", args[0], s.log)
		}
		t.Cleanup(func() { s.kill(syscall.SIGKILL) })
		return s
	}
	worker := begin(plugins, "worker", "--queue", database, "--name", "north")
	gateway := begin(filepath.Join(dir, "none"), "serve", "--policy", policy, "--addr", "127.0.0.1:0", "--queue", database)

	ask := func(gateway *service) string {
		client := http.Client{Timeout: time.Minute}
		resp, err := client.Post(gateway.address()+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"stepfall","messages":[{"role":"user","content":"Is 7 a prime?"}],
		"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","required":["right"]}}}}`)) //nolint:noctx // of a test
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK || len(answer.Choices) != 1 {
			t.Fatalf("%d %+v: %v\n%s", resp.StatusCode, answer, err, gateway.log)
		}
		return answer.Choices[0].Message.Content
	}
	if got := ask(gateway); got != `{"right": true}` {
		t.Fatalf("%s\n%s", got, gateway.log)
	}
	gateway.kill(syscall.SIGTERM)
	line, err := os.ReadFile(traces)
	if err != nil {
		t.Fatal(err)
	}
	var trace sdk.Trace
	if err := json.Unmarshal(line, &trace); err != nil {
		t.Fatal(err)
	}
	if len(trace.Calls) != 2 || trace.Calls[1].Verdict == nil || trace.Calls[1].Verdict.Outcome != sdk.Passed || trace.Calls[1].Verdict.Verifier != "json" {
		t.Errorf("%s", line)
	}

	// Without workers an answer waits for the time limit of its verdict, and is then given without one.
	worker.kill(syscall.SIGTERM)
	patience := `plugin "verifier-schema" { call_timeout = "1s" }`
	if err := os.WriteFile(policy, append(fmt.Appendf(nil, judgedPolicy, models.URL(), traces), patience...), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway = begin(filepath.Join(dir, "none"), "serve", "--policy", policy, "--addr", "127.0.0.1:0", "--queue", database)
	if got := ask(gateway); got == "" {
		t.Errorf("no answer: %s", gateway.log)
	}
	gateway.kill(syscall.SIGTERM)
	if line, err = os.ReadFile(traces); err != nil || !strings.Contains(string(line), "no verdict within the timeout") {
		t.Errorf("%s, %v", line, err)
	}
}
