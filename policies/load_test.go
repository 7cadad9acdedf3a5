package policies_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/policies"
)

const sample = `
model "small" {
  provider = "openai"
  served   = "gpt-4o-mini"
  base_url = "http://127.0.0.1:8080/v1"
  api_key  = env("OPENAI_API_KEY")
  price {
    input_usd_per_million  = 0.15
    output_usd_per_million = 0.60
  }
  context_tokens    = 128000
  max_output_tokens = 16384
  capabilities      = ["tools", "images", "json_mode", "log_probs"]
  quality {
    mean    = 0.55
    std_dev = 0.3
  }
}

verifier "tests" {
  plugin = "verifier-tests"
  config {
    command = ["go", "test", "-json", "./..."]
    timeout = "20s"
  }
  on_unavailable = "abstain"
}

strategy "cascade_route" {
  lambda = 0.5
}

budget {
  step_usd = 0.05
}

trace {
  file = "traces.jsonl"
}
`

func load(t *testing.T, text string, o policies.LoadOptions) *policies.Policy {
	t.Helper()
	p, err := tryLoad(t, text, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tryLoad(t *testing.T, text string, o policies.LoadOptions) (*policies.Policy, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if o.Env == nil {
		o.Env = []string{"OPENAI_API_KEY=sk-planted-secret-0123456789"}
	}
	return policies.Load(file, o)
}

func TestLoadFillsThePolicy(t *testing.T) {
	p := load(t, sample, policies.LoadOptions{})
	m := p.Models[0]
	if m.Name != "small" || m.Served != "gpt-4o-mini" || m.Price.Output != 0.6 || m.MaxOutputTokens != 16384 || m.Quality.Mean != 0.55 {
		t.Errorf("model = %+v", m)
	}
	if got := m.APIKey.Reveal(); got != "sk-planted-secret-0123456789" {
		t.Errorf("key = %q", got)
	}
	s := m.SDK()
	if !s.Capabilities.Tools || s.Capabilities.Reasoning || s.Price.CachedInput != 0.15 {
		t.Errorf("sdk model = %+v", s)
	}
	if p.Strategy.Kind != "cascade_route" || p.Strategy.Lambda[0] != 0.5 || p.Strategy.Scale != 1 {
		t.Errorf("strategy = %+v", p.Strategy)
	}
	if got := p.Verifiers[0].Config.Values()["timeout"]; got != "20s" {
		t.Errorf("timeout of the verifier = %v", got)
	}
	if p.Retry.BaseDelay != 500*time.Millisecond || p.Stream.Mode != "buffer" || p.Trace.MaxSize != 64<<20 {
		t.Errorf("defaults: retry %+v, stream %+v, trace %+v", p.Retry, p.Stream, p.Trace)
	}
	if filepath.Base(p.Trace.File) != "traces.jsonl" || !filepath.IsAbs(p.Trace.File) {
		t.Errorf("trace file = %q, want it in the folder of the policy", p.Trace.File)
	}
	if len(p.Warnings) > 0 {
		t.Errorf("warnings: %v", p.Warnings)
	}
}

// Relative paths are resolved in the policy's folder, even if the process changes its working directory later.
func TestPathsOfAPolicyStay(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("policy.hcl", []byte(sample+"plugin \"verifier-tests\" {\n  read = [\"shared\"]\n  checksum = \""+strings.Repeat("AB", 32)+"\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := policies.Load("policy.hcl", policies.LoadOptions{Env: withKey})
	if err != nil {
		t.Fatal(err)
	}
	if sum := p.Plugins[0].Checksum; sum != strings.Repeat("ab", 32) { // certutil and Get-FileHash print capitals
		t.Errorf("the checksum is %q", sum)
	}
	if read := p.Plugins[0].Read; read[0] != here(t, "shared") {
		t.Errorf("the plugin may read %v", read)
	}
	if want := here(t, "traces.jsonl"); p.Trace.File != want || p.Budget.Ledger != "" {
		t.Errorf("traces go to %q, want %q; the ledger is %q", p.Trace.File, want, p.Budget.Ledger)
	}
	for path, want := range map[string]string{"prompts/a.txt": filepath.Join("prompts", "a.txt"), here(t, "a.txt"): here(t, "a.txt")} {
		if got := p.Locate(path); got != want {
			t.Errorf("%s is located at %s, want %s", path, got, want)
		}
	}
}

func here(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLaterLayersWin(t *testing.T) {
	o := policies.LoadOptions{
		Env:  []string{"OPENAI_API_KEY=k", "STEPFALL__MODEL__SMALL__PRICE__INPUT_USD_PER_MILLION=0.2", "STEPFALL__STREAM__MODE=commit", "STEPFALL__BUDGET__STEP_USD=0.1"},
		Sets: []string{"budget.step_usd=0.2", `verifier.tests.config.timeout=30s`},
	}
	p := load(t, sample, o)
	if p.Models[0].Price.Input != 0.2 || p.Models[0].Price.Output != 0.6 {
		t.Errorf("price = %+v", p.Models[0].Price)
	}
	if p.Stream.Mode != "commit" || p.Budget.StepUSD != 0.2 {
		t.Errorf("stream %q, step cap %v", p.Stream.Mode, p.Budget.StepUSD)
	}
	if got := p.Verifiers[0].Config.Values()["timeout"]; got != "30s" {
		t.Errorf("timeout = %v", got)
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	_, err := tryLoad(t, `
model "small" {
  provder = "openai"
  served = "gpt-4o-mini"
}
strategy "cascade" {
  lambda = "cheap"
  order = ["smal"]
}
budget {
  step_usd = -1
}
`, policies.LoadOptions{})
	var d policies.Diagnostics
	if !errors.As(err, &d) {
		t.Fatalf("err = %v, want Diagnostics", err)
	}
	t.Log(err)
	if len(d) < 5 {
		t.Errorf("%d diagnostics, want at least 5", len(d))
	}
}

func TestEmbeddersAreNoCandidates(t *testing.T) {
	const rest = `
model "small" {
  provider = "go"
  price { free = true }
}
strategy "route" { lambda = [1] }
`
	p, err := policies.Parse("policy.hcl", []byte(`
model "mine" {
  provider     = "openai"
  base_url     = "http://127.0.0.1:1/v1"
  capabilities = ["embeddings"]
  price { input_usd_per_million = 0.02 }
}
model "text-embedding-3-small" { provider = "openai" }
`+rest), policies.LoadOptions{Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Models) != 1 || p.Models[0].Name != "small" || len(p.Embedders) != 2 || p.Embedders[0].Price.Input != 0.02 || p.Embedders[1].Price.Input <= 0 {
		t.Errorf("models %+v, embedders %+v", p.Models, p.Embedders)
	}
	if len(p.Warnings) > 0 {
		t.Error(p.Warnings)
	}
	for why, text := range map[string]string{
		"there is no model that answers": `
model "mine" {
  provider     = "ollama"
  capabilities = ["embeddings"]
  price { free = true }
}
strategy "route" { lambda = [1] }`,
		`there is no model "mine"`: `
model "mine" {
  provider     = "ollama"
  capabilities = ["embeddings"]
  price { free = true }
}
match "all" { models = ["mine"] }` + rest,
		"cannot ask gemini for": `
model "mine" {
  provider     = "gemini"
  capabilities = ["embeddings"]
  price { free = true }
}` + rest,
	} {
		_, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: []string{}})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("want %q, got %v", why, err)
		}
	}
}

func TestVerifiersOfPatchesTakeTheirTime(t *testing.T) {
	for _, test := range []struct {
		more    string
		patches bool
		want    time.Duration
	}{
		{"", false, 30 * time.Second},
		{`plugin "verifier-tests" {
  call_timeout = "5m"
}`, false, 5 * time.Minute},
		{`plugin "verifier-tests" {
  start_timeout = "5s"
}`, false, 30 * time.Second},
		{"", true, 10 * time.Minute},
		{`verifier "tests" {
  timeout = "45s"
}`, true, 45 * time.Second},
		{`verifier "tests" {
  max_usd = 0.1
}`, true, 30 * time.Second},
		{`plugin "verifier-tests" {
  start_timeout = "5s"
}`, true, 10 * time.Minute},
		{`plugin "verifier-tests" {
  call_timeout = "5m"
}`, true, 5 * time.Minute},
	} {
		dir := t.TempDir()
		base := filepath.Join(dir, "base.hcl")
		if err := os.WriteFile(base, []byte(sample), 0o600); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "policy.hcl")
		if err := os.WriteFile(path, []byte("include = [\"base.hcl\"]\n"+test.more+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := policies.Load(path, policies.LoadOptions{Patches: test.patches, Env: []string{"OPENAI_API_KEY=k"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Verifiers[0].Timeout; got != test.want {
			t.Errorf("%q, patches %v: a verification may take %s, want %s", test.more, test.patches, got, test.want)
		}
	}
}
