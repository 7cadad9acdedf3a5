package policies_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/policies"
)

// A policy built by a program equals the policy of a file with the same content.
func TestNewIsWhatAFileWouldBe(t *testing.T) {
	const text = `
model "gpt-4.1-nano" {
  provider = "openai"
  api_key  = env("KEY")
  timeout  = "90s"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 2
  }
}
model "own" {
  provider = "go"
  price { free = true }
}
plugin "verifier-command" {
  memory = "64MiB"
}
verifier "builds" {
  plugin = "verifier-command"
  models = ["own"]
  when {
    checks = false
    labels = { team = "search" }
  }
  config {
    command = ["make", "build"]
    token   = env("KEY")
    limits { seconds = 1.5 }
  }
}
strategy "cascade" {
  lambda = [1, 2]
}
budget {
  step_usd = 5
  tenant "a" { usd = 50 }
}
session {}
`
	o := policies.LoadOptions{Env: []string{"KEY=planted-secret"}, Sets: []string{"retry.max_attempts=4"}}
	want, err := policies.Parse("policy.hcl", []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	no, key := false, policies.NewSecret("KEY", "planted-secret")
	got, err := policies.New("policy.hcl", &policies.Policy{
		Models: []policies.Model{
			{Name: "gpt-4.1-nano", Provider: "openai", APIKey: key, Timeout: 90 * time.Second, Price: policies.Price{Input: 1, Output: 2}},
			{Name: "own", Provider: "go", Price: policies.Price{Free: true}},
		},
		Plugins: []policies.Plugin{{Name: "verifier-command", Memory: 64 << 20}},
		Verifiers: []policies.Verifier{{
			Name: "builds", Plugin: "verifier-command", Models: []string{"own"},
			When:   policies.When{Checks: &no, Labels: map[string]string{"team": "search"}},
			Config: policies.NewConfig(map[string]any{"command": []string{"make", "build"}, "token": key, "limits": map[string]any{"seconds": 1.5}}),
		}},
		Strategy: policies.Strategy{Kind: "cascade", Lambda: []float64{1, 2}},
		Budget:   policies.Budget{StepUSD: 5, Tenants: []policies.Tenant{{Name: "a", USD: 50}}},
		Session:  &policies.Session{},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	values := func(p *policies.Policy) (list []string) {
		for _, s := range p.Settings() {
			list = append(list, strings.Join(s.Path, " ")+" = "+s.Value)
		}
		return list
	}
	if diff := cmp.Diff(values(want), values(got)); diff != "" || got.Checksum != want.Checksum {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Verifiers[0].Config.Reveal(), got.Verifiers[0].Config.Reveal()); diff != "" {
		t.Error(diff)
	}
	if got.Models[0].APIKey.Reveal() != "planted-secret" {
		t.Error("the key is lost")
	}
}

// Faults of a value are reported like faults of a file.
func TestNewSaysWhatIsWrong(t *testing.T) {
	_, err := policies.New("made", &policies.Policy{
		Models:   []policies.Model{{Name: "m", Provider: "openia", Quality: policies.Quality{Mean: 2}}},
		Strategy: policies.Strategy{Kind: "route", WorthUSD: 1, Order: []string{"m"}},
		Verifiers: []policies.Verifier{{
			Name: "v", Plugin: "p", Config: policies.NewConfig(map[string]any{"f": func() {}}),
		}},
	}, policies.LoadOptions{Env: []string{}})
	for _, want := range []string{`Did you mean "openai"`, "mean is out of range", "order is not supported by strategy route", "in model.m", "f cannot be sent to a plugin"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
