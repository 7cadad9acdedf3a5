package policies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

const planted = "sk-planted-secret-0123456789"

// A secret is not revealed by any way of printing it.
func TestSecretsDoNotPrint(t *testing.T) {
	s := policies.NewSecret("KEY", planted)
	type holder struct {
		Key policies.Secret
		Ptr *policies.Secret
		own policies.Secret
	}
	var out bytes.Buffer
	for _, v := range []any{s, &s, holder{s, &s, s}, []policies.Secret{s}, map[string]policies.Secret{"k": s}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	}
	for _, form := range []string{planted, fmt.Sprintf("%x", planted), "0123456789"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q shows in\n%s", form, &out)
		}
	}
	if s.Reveal() != planted {
		t.Error("the secret itself is lost")
	}
	if got := fmt.Sprintf("%v, %v, %#v", s, policies.Secret{}, s); got != "[secret], , [secret]" {
		t.Errorf("a secret, none and a secret are printed as %s", got)
	}
}

// Sensitive fields of a plugin accept secrets at any depth, and no other fields do.
func TestSecretsInPluginConfigs(t *testing.T) {
	source := func(policies.Plugin, string) (*schema.Schema, error) {
		nested := schema.Field{Name: "server", Type: "object", Fields: []schema.Field{{Name: "key", Type: "string", Sensitive: true}, {Name: "name", Type: "string"}}}
		return &schema.Schema{Fields: []schema.Field{{Name: "token", Type: "string", Sensitive: true}, {Name: "name", Type: "string"}, nested}}, nil
	}
	for config, want := range map[string]string{
		`token = env("KEY")`:                     "",
		`token = "hunter22"`:                     "token cannot be in plain text",
		`name = env("KEY")`:                      "name would expose a secret",
		`name = "hunter22"`:                      "",
		"server {\n    key = env(\"KEY\")\n  }":  "",
		"server {\n    key = \"hunter22\"\n  }":  "key cannot be in plain text",
		"server {\n    name = env(\"KEY\")\n  }": "name would expose a secret",
	} {
		_, err := policies.Parse("policy.hcl", []byte(limited+"verifier \"v\" {\n  plugin = \"mine\"\n  config {\n  "+config+"\n  }\n}\nstrategy \"index\" {\n  lambda = 1\n}\n"),
			policies.LoadOptions{Env: []string{"KEY=" + planted}, Schemas: source})
		if err != nil && (strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), planted)) {
			t.Errorf("%s: it shows in %v", config, err)
		}
		if want == "" && err != nil && strings.Contains(err.Error(), "secret") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

// A variable that a plugin's config names and that is not set is reported as that of an api_key is.
func TestUnsetVariablesInPluginConfigs(t *testing.T) {
	for _, config := range []string{`token = env("FORGOTTEN")`, `list = ["a", env("FORGOTTEN")]`, "server {\n    key = env(\"FORGOTTEN\")\n  }"} {
		text := []byte(limited + "verifier \"v\" {\n  plugin = \"mine\"\n  config {\n  " + config + "\n  }\n}\nstrategy \"index\" {\n  lambda = 1\n}\n")
		const want = "environment variable FORGOTTEN is not set"
		o := policies.LoadOptions{Env: []string{"KEY=" + planted}}
		p, err := policies.Parse("policy.hcl", text, o)
		if err != nil || !strings.Contains(fmt.Sprint(p.Warnings), want) {
			t.Errorf("%s: %v without a warning", config, err)
		}
		o.RequireSecrets = true
		if _, err := policies.Parse("policy.hcl", text, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s with secrets required: %v", config, err)
		}
		o.WithoutSecrets = true
		if p, err := policies.Parse("policy.hcl", text, o); err != nil || strings.Contains(fmt.Sprint(p.Warnings), want) {
			t.Errorf("%s without secrets: %v", config, err)
		}
	}
}

// A variable for which the config has something else need not be set.
func TestUnsetVariablesWithAnotherValue(t *testing.T) {
	for _, config := range []string{`token = env("FORGOTTEN") != "" ? env("FORGOTTEN") : "none"`, `token = env("FORGOTTEN") == "" ? env("KEY") : env("FORGOTTEN")`, `debug = env("FORGOTTEN") != ""`} {
		text := []byte(limited + "verifier \"v\" {\n  plugin = \"mine\"\n  config {\n  " + config + "\n  }\n}\nstrategy \"index\" {\n  lambda = 1\n}\n")
		if _, err := policies.Parse("policy.hcl", text, policies.LoadOptions{Env: []string{"KEY=" + planted}, RequireSecrets: true}); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// Keys planted in every possible place appear neither in diagnostics nor in a printed policy nor in the output of
// Show.
func TestPlantedSecretsNeverShow(t *testing.T) {
	other := "p@ssw0rd planted too"
	env := []string{"KEY=" + planted, "OTHER=" + other, "STEPFALL__MODEL__SMALL__BASE_URL=http://x/?api_key=" + planted}
	head := "model \"small\" {\n  provider = \"openai\"\n  served = \"gpt-4o-mini\"\n"
	tail := "}\nstrategy \"route\" {\n  lambda = 1\n}\n"
	places := []string{
		`  api_key = "` + planted + `"`,
		`  api_key = env("KEY`,
		`  api_key = "` + planted,
		`  api_key = ` + planted,
		`  apikey = "` + other + `"`,
		`  api_key = "x${env("KEY")}"`,
		`  api_key = [env("KEY")]`,
		`  api_key = max(env("KEY"), 1)`,
		`  api_key = env(env("KEY"))`,
		`  timeout = env("KEY")`,
		`  timeout = duration(env("KEY"))`,
		`  base_url = file(env("KEY"))`,
		`  context_tokens = env("KEY") + 1`,
		`  capabilities = [env("OTHER")]`,
		`  served = "${env("OTHER")}"`,
		`  capabilities = {a = env("OTHER")}[env("KEY")]`,
		`  base_url = local.key`,
		`  provider = local.all.key`,
		`  capabilities = local.list`,
		`  timeout = local.nothere[env("KEY")]`,
		`  timeout = [1][env("OTHER")]`,
		`  context_tokens = "${min(env("OTHER"), 2)}"`,
		`  max_output_tokens = env("KEY") == "` + planted + `" ? 1 : "` + planted + `"`,
	}
	locals := "locals {\n  key = env(\"KEY\")\n  all = { key = env(\"OTHER\") }\n  list = [env(\"KEY\"), env(\"OTHER\")]\n}\n"
	for _, place := range places {
		for _, extra := range []string{"", `verifier "v" {` + "\n" + ` plugin = "verifier-tests"` + "\n config {\n token = env(\"KEY\")\n command = [env(\"OTHER\")]\n }\n}\n"} {
			p, err := policies.Parse("policy.hcl", []byte(locals+head+place+"\n"+tail+extra), policies.LoadOptions{
				Env: env, Schemas: schemas, Sets: []string{"model.small.api_key=" + planted, `fit.profile=` + other},
			})
			var out bytes.Buffer
			if err != nil {
				fmt.Fprintf(&out, "%v\n%+v\n%#v\n", err, err, err)
				text, jsonErr := json.Marshal(err)
				if jsonErr != nil {
					t.Fatal(jsonErr)
				}
				out.Write(text)
			} else {
				t.Errorf("%s: was taken", place)
				fmt.Fprintf(&out, "%v %+v\n", p, p.Settings())
			}
			if strings.Contains(out.String(), planted) {
				t.Errorf("%s: the key shows in\n%s", place, &out)
			}
			if strings.Contains(out.String(), "p@ssw0rd") && !strings.Contains(place, "p@ssw0rd") {
				t.Errorf("%s: the password shows in\n%s", place, &out)
			}
		}
	}
}

// A valid policy with secrets in all permitted places shows none of them.
func TestGoodPolicyKeepsItsSecrets(t *testing.T) {
	p, err := policies.Parse("policy.hcl", []byte(`
locals {
  key = env("KEY")
}
model "small" {
  provider = "openai"
  served   = "gpt-4o-mini"
  api_key  = local.key
  deployment "other" {
    base_url = "http://127.0.0.1:1/v1"
    api_key  = env("KEY")
  }
}
verifier "judge" {
  plugin = "verifier-tests"
  config {
    command = ["judge"]
    token   = local.key
  }
}
strategy "route" {
  lambda = 1
}
`), policies.LoadOptions{Env: []string{"KEY=" + planted}, Schemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, v := range []any{p, *p, p.Models, p.Verifiers, p.Verifiers[0].Config, p.Verifiers[0].Config.Values(), p.Settings()} {
		fmt.Fprintf(&out, "%v\n%+v\n%#v\n%s\n%x\n", v, v, v, v, v)
	}
	text, err := json.Marshal(p.Models)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	if err := p.Show(&out, policies.ShowOptions{Defaults: true, Origins: true}); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("policy", "policy", p)
	if strings.Contains(out.String(), "planted") || strings.Contains(out.String(), fmt.Sprintf("%x", "planted")) {
		t.Errorf("the key shows in\n%s", &out)
	}
	if p.Models[0].APIKey.Reveal() != planted || p.Models[0].Deployments[0].APIKey.Reveal() != planted || p.Verifiers[0].Config.Reveal()["token"] != planted {
		t.Error("the key is lost")
	}
	if got := p.Redact("error: key " + planted + " was refused"); strings.Contains(got, "planted") {
		t.Errorf("Redact: %s", got)
	}
}

// The password in a database's address does not show, and there is a warning of it; the store is still opened by it.
func TestPasswordsOfAddressesDoNotShow(t *testing.T) {
	const address = "postgres://stepfall:s3cret@db/fleet"
	text := strings.NewReplacer(`step_usd = 0.05`, `ledger = "`+address+`"`, `file = "traces.jsonl"`, `database = "`+address+`"`).Replace(sample)
	p := load(t, text, policies.LoadOptions{Env: []string{"OPENAI_API_KEY=k"}})
	if p.Trace.Database != address || p.Budget.Ledger != address {
		t.Errorf("the addresses are %s and %s", p.Trace.Database, p.Budget.Ledger)
	}
	var out bytes.Buffer
	if err := p.Show(&out, policies.ShowOptions{Origins: true}); err != nil {
		t.Fatal(err)
	}
	warnings := fmt.Sprint(p.Warnings)
	out.WriteString(warnings)
	if strings.Contains(out.String(), "s3cret") || !strings.Contains(out.String(), "postgres://stepfall:xxxxx@db/fleet") {
		t.Errorf("it shows as\n%s", &out)
	}
	for _, want := range []string{"ledger contains a password", "STEPFALL__TRACE__DATABASE"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no %q in %s", want, warnings)
		}
	}
}
