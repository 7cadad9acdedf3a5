package policies_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

func TestDiagnosticPointsAtTheLayerThatWon(t *testing.T) {
	_, err := tryLoad(t, sample, policies.LoadOptions{
		Env:  []string{"STEPFALL__BUDGET__STEP_USD=lots"},
		Sets: []string{"stream.mode=later", "retry.max_attempts=0"},
	})
	var d policies.Diagnostics
	if !errors.As(err, &d) || len(d) != 4 { // three, and the key that is not set
		t.Fatal(err)
	}
	files := map[string]bool{}
	for _, one := range d {
		files[one.File] = true
	}
	for _, want := range []string{"env STEPFALL__BUDGET__STEP_USD", "--set", "--set (2)"} {
		if !files[want] {
			t.Errorf("no diagnostic in %q: %v", want, files)
		}
	}
}

func TestAWrongValueIsNoMatterWhenALaterLayerSetsIt(t *testing.T) {
	p := load(t, strings.Replace(sample, "step_usd = 0.05", `step_usd = "lots"`, 1), policies.LoadOptions{Sets: []string{"budget.step_usd=0.1"}})
	if p.Budget.StepUSD != 0.1 {
		t.Errorf("step_usd = %v", p.Budget.StepUSD)
	}
}

// An override of one price of a model without a price block leaves the others to the catalogue.
func TestAnOverriddenPriceKeepsTheOthers(t *testing.T) {
	text := "model \"small\" {\n  provider = \"openai\"\n  served = \"gpt-4o-mini\"\n}\nstrategy \"route\" {\n  lambda = 1\n}\n"
	p := load(t, text, policies.LoadOptions{Sets: []string{"model.small.price.input_usd_per_million=5"}})
	if got := p.Models[0].Price; got.Input != 5 || got.Output != load(t, text, policies.LoadOptions{}).Models[0].Price.Output {
		t.Errorf("prices: %+v", got)
	}
	var shown strings.Builder
	if err := p.Show(&shown, policies.ShowOptions{}); err != nil {
		t.Fatal(err)
	}
	load(t, shown.String(), policies.LoadOptions{}) // no price is shown twice
	if _, err := tryLoad(t, text, policies.LoadOptions{Sets: []string{"model.small.price.input_usd_per_million=much"}}); err == nil {
		t.Error("a price that is no number is accepted")
	}
}

// An override can make a model of the catalogue free, but not set one of its prices to 0.
func TestAnOverrideMakesAModelFree(t *testing.T) {
	text := "model \"small\" {\n  provider = \"openai\"\n  served = \"gpt-4o-mini\"\n}\nstrategy \"route\" {\n  lambda = 1\n}\n"
	if p := load(t, text, policies.LoadOptions{Sets: []string{"model.small.price.free=true"}}); p.Models[0].Price != (policies.Price{Free: true}) {
		t.Errorf("prices: %+v", p.Models[0].Price)
	}
	_, err := tryLoad(t, text, policies.LoadOptions{Sets: []string{"model.small.price.input_usd_per_million=0"}})
	if err == nil || !strings.Contains(err.Error(), `input_usd_per_million of model "small" is 0`) {
		t.Errorf("a price of 0: %v", err)
	}
}

func TestIncludedFilesAreBelowTheIncludingOne(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("shared/models.hcl", `
model "a" {
  provider = "openai"
  served   = "gpt-4.1-mini"
  timeout  = "10s"
}
model "b" {
  provider = "openai"
  served   = "gpt-4.1"
}
strategy "threshold" {
  threshold = 0.5
}
verifier "v" {
  plugin = "p"
  config {
    prompt = file("prompt.txt")
  }
}
`)
	write("shared/prompt.txt", "judge this")
	p, err := policies.Load(write("policy.hcl", `
include = ["shared/models.hcl"]

locals {
  base = 2
}

model "c" {
  provider = "openai"
  served   = "gpt-4o"
}

model "a" {
  timeout = local.base * duration("10s")
}

strategy "route" {
  lambda = max(local.base, 1)
}
`), policies.LoadOptions{Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range p.Models {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("models %q, want the included first", got)
	}
	if p.Models[0].Timeout != 20*time.Second || p.Models[0].Served != "gpt-4.1-mini" {
		t.Errorf("model a = %+v", p.Models[0])
	}
	if p.Strategy.Kind != "route" || p.Strategy.Threshold != nil || p.Strategy.Lambda[0] != 2 {
		t.Errorf("strategy = %+v, want that of the including file alone", p.Strategy)
	}
	if got := p.Verifiers[0].Config.Values()["prompt"]; got != "judge this" {
		t.Errorf("file() of the included file = %q, want it relative to that file", got)
	}
	if len(p.Files) != 2 || filepath.Base(p.Files[1]) != "models.hcl" && filepath.Base(p.Files[0]) != "models.hcl" {
		t.Errorf("files = %v", p.Files)
	}
}

func TestAFolderIsAPolicy(t *testing.T) {
	dir := t.TempDir()
	half := strings.Index(sample, "verifier")
	for name, text := range map[string]string{"a.hcl": sample[:half], "b.hcl": sample[half:], "notes.txt": "{"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := policies.Load(dir, policies.LoadOptions{Env: withKey})
	if err != nil || len(p.Models) != 1 || len(p.Verifiers) != 1 {
		t.Fatal(p, err)
	}
	if _, err := policies.Load(t.TempDir(), policies.LoadOptions{}); err == nil {
		t.Error("an empty folder is no policy")
	}
}

func TestProfileIsCheckedByTheCaller(t *testing.T) {
	dir := t.TempDir()
	text := strings.Replace(sample, "lambda = 0.5", "max_depth = 1", 1) + "fit {\n  profile = \"profile.json\"\n}\n"
	file := filepath.Join(dir, "policy.hcl")
	for name, text := range map[string]string{file: text, filepath.Join(dir, "profile.json"): "{}"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asked := ""
	_, err := policies.Load(file, policies.LoadOptions{Env: withKey, CheckProfile: func(path string, p *policies.Policy) ([]string, error) {
		asked = path
		return nil, errors.New("fitted for other models: small, tiny")
	}})
	if asked != filepath.Join(dir, "profile.json") || err == nil || !strings.Contains(err.Error(), "fitted for other models") || !strings.Contains(err.Error(), "policy.hcl:") {
		t.Errorf("asked for %q: %v", asked, err)
	}
	if _, err := policies.Load(file, policies.LoadOptions{Env: withKey, WithoutProfile: true, CheckProfile: func(string, *policies.Policy) ([]string, error) {
		return nil, errors.New("must not be asked")
	}}); err != nil {
		t.Error(err)
	}
}

// A profile has measured costs, compared with which expected_output_tokens is only a guess.
func TestBudgetBesideAProfile(t *testing.T) {
	const fit = "fit {\n  profile = \"profile.json\"\n}\n"
	isRefused := func(text string) bool {
		_, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: withKey, WithoutProfile: true})
		return err != nil && strings.Contains(err.Error(), "below the cheapest model")
	}
	text := limited + "strategy \"index\" {}\nbudget {\n  expected_usd_per_query = 1e-9\n}\n"
	if !isRefused(text) || isRefused(text+fit) {
		t.Errorf("refused without a profile: %v, with one: %v", isRefused(text), isRefused(text+fit))
	}
}

func TestWhen(t *testing.T) {
	yes := true
	tests := map[string]struct {
		when policies.When
		q    sdk.Query
		want bool
	}{
		"nothing asked":     {policies.When{}, sdk.Query{}, true},
		"group":             {policies.When{Groups: []string{"code/*"}}, sdk.Query{Group: "code/go"}, true},
		"group below":       {policies.When{Groups: []string{"code/*"}}, sdk.Query{Group: "code/go/x"}, false},
		"one of":            {policies.When{Tenants: []string{"a", "b"}}, sdk.Query{Tenant: "b"}, true},
		"any tool":          {policies.When{Tools: []string{"*"}}, sdk.Query{Tools: []sdk.Tool{{Name: "shell"}}}, true},
		"no tool":           {policies.When{Tools: []string{"*"}}, sdk.Query{}, false},
		"all must hold":     {policies.When{Groups: []string{"a"}, Tenants: []string{"b"}}, sdk.Query{Group: "a"}, false},
		"label":             {policies.When{Labels: map[string]string{"team": "s*"}}, sdk.Query{Labels: map[string]string{"team": "search"}}, true},
		"label not there":   {policies.When{Labels: map[string]string{"team": "*"}}, sdk.Query{}, false},
		"checks":            {policies.When{Checks: &yes}, sdk.Query{Checks: sdk.Checks{FailToPass: []string{"T"}}}, true},
		"work tree":         {policies.When{Checks: &yes}, sdk.Query{WorkDir: "/src"}, true},
		"no checks":         {policies.When{Checks: &yes}, sdk.Query{}, false},
		"odd pattern":       {policies.When{Groups: []string{"["}}, sdk.Query{Group: "["}, true},
		"odd pattern, else": {policies.When{Groups: []string{"["}}, sdk.Query{Group: "x"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.when.Matches(&test.q); got != test.want {
				t.Errorf("Matches = %v", got)
			}
			if why := test.when.Why(&test.q); (why == "") != test.want {
				t.Errorf("Why = %q", why)
			}
		})
	}
}
