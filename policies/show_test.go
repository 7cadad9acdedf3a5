package policies_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/policies"
)

// A plugin's config is shown as written, whatever it contains, with env values as calls.
func TestShowConfig(t *testing.T) {
	const config = `verifier "judge" {
  plugin = "verifier-judge"
  config {
    depth = 2
    fast  = true
    model = "small"
    none  = null
    parts = ["a", 1, [true, { k = "v" }]]
    token = env("KEY")
    limits {
      seconds = 1.5
      further {
        calls = 3
      }
    }
  }
}
`
	text := config + "strategy \"index\" {\n  lambda = 1\n}\n"
	p, err := policies.Parse("policy.hcl", []byte(limited+text), policies.LoadOptions{Env: []string{"KEY=" + planted}})
	if err != nil {
		t.Fatal(err)
	}
	v := p.Verifiers[1]
	want := map[string]any{
		"depth": 2.0, "fast": true, "model": "small", "none": nil, "parts": []any{"a", 1.0, []any{true, map[string]any{"k": "v"}}}, "token": planted,
		"limits": map[string]any{"seconds": 1.5, "further": map[string]any{"calls": 3.0}},
	}
	if d := cmp.Diff(want, v.Config.Reveal()); d != "" {
		t.Error(d)
	}
	if values := v.Config.Values(); values["token"] == planted || v.Config.Empty() || !p.Verifiers[0].Config.Empty() {
		t.Errorf("%v, %v", values, p.Verifiers[0].Config)
	}
	var out bytes.Buffer
	if err := p.Show(&out, policies.ShowOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := policies.Parse("policy.hcl", out.Bytes(), policies.LoadOptions{Env: []string{"KEY=" + planted}})
	if err != nil {
		t.Fatalf("%v in\n%s", err, &out)
	}
	if !reflect.DeepEqual(again.Verifiers[1].Config.Reveal(), want) || again.Checksum != p.Checksum {
		t.Errorf("what is shown is another policy:\n%s", &out)
	}
	if !strings.Contains(out.String(), "  config {\n    depth = 2\n") || !strings.Contains(out.String(), "\n      further {\n        calls = 3\n      }\n") {
		t.Errorf("the blocks are not those of the file:\n%s", &out)
	}
	if got := strings.Join(p.Secrets(), " "); got != planted || p.Redact("the key "+planted+" leaked") != "the key [secret] leaked" {
		t.Errorf("secrets %q, %q", got, p.Redact(planted))
	}
	made := &policies.Policy{}
	if made.Secrets() != nil || made.Redact("nothing here") != "nothing here" || made.Redact("sk-0123456789") != "[secret]" {
		t.Errorf("a policy that was not loaded has the secrets %q, and writes %q", made.Secrets(), made.Redact("sk-0123456789"))
	}
}

// Each line is shown with the origin of its value.
func TestShowOriginsAndOrder(t *testing.T) {
	p, err := policies.Parse("policy.hcl", []byte("strategy \"index\" {\n  lambda = 1\n}\nbudget {\n  step_usd = 1\n}\n"+limited+"model \"extra\" {\n  provider = \"openai\"\n  served = \"gpt-4.1\"\n}\n"),
		policies.LoadOptions{Env: []string{"STEPFALL__STREAM__MODE=commit"}, Sets: []string{"budget.step_usd=2"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Show(&out, policies.ShowOptions{Origins: true, Defaults: true}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(out.String())
	text := " " + strings.Join(lines, " ") + " "
	at := -1
	for _, want := range []string{
		` model "small" { `, ` # policy.hcl:8 `, ` model "large" { `, ` model "extra" { `, " # catalogue openai/gpt-4.1 of ", ` verifier "tests" { `,
		` strategy "index" { lambda = 1 # policy.hcl:2 `, " step_usd = 2 # --set ", ` mode = "commit" # env STEPFALL__STREAM__MODE `, " max_attempts = 2 # default ",
	} {
		next := strings.Index(text, want)
		if next <= at {
			t.Errorf("%q does not come next in\n%s", want, &out)
		}
		at = next
	}
	if strings.Contains(text, " catalog ") {
		t.Errorf("the catalogue is shown, which nobody asked for:\n%s", &out)
	}
}

// Prices count as old from the first day after 18 months.
func TestPricesAreOldAfterEighteenMonths(t *testing.T) {
	text := "catalog \"openai/small-served\" {\n  as_of = \"2025-01-01\"\n  source = \"a contract\"\n  price {\n    input_usd_per_million = 1\n    output_usd_per_million = 1\n  }\n}\n" +
		"model \"small-served\" {\n  provider = \"openai\"\n}\nmodel \"again\" {\n  provider = \"openai\"\n  served = \"small-served\"\n}\nstrategy \"route\" {\n  lambda = 1\n}\n"
	day := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, 548)
	for later, want := range map[int]int{0: 0, 1: 1} {
		p, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: []string{}, Today: day.AddDate(0, 0, later)})
		if err != nil || len(p.Warnings) != want || want > 0 && !strings.Contains(p.Warnings.Error(), "1 price is more than 18 months old") {
			t.Errorf("%d days later: %v, %v", later, err, p.Warnings)
		}
	}
}
