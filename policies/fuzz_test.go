package policies_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/stepfall/stepfall/policies"
)

// seeds are the library, the examples and the bad policies.
func seeds(f *testing.F) []string {
	f.Helper()
	list := []string{sample}
	for _, name := range policies.Library() {
		src, err := policies.LibrarySource(name)
		if err != nil {
			f.Fatal(err)
		}
		list = append(list, string(src))
	}
	for _, e := range policies.BlockExamples() {
		list = append(list, e.Text)
	}
	files, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		list = append(list, string(a.Files[0].Data))
	}
	// Recursion in the parser or the evaluation, on both sides of the limit.
	for _, pair := range [][2]string{
		{"(", ")"}, {"[", "]"}, {"{a=", "}"}, {"!", ""}, {"-", ""}, {"1+", ""}, {"true ? 1 : ", ""}, {`"${`, `}"`}, {"min(", ")"},
		{"[for x in [1] : ", "]"}, {"local.b[", "]"}, {"<<X\n${", "}\nX\n"}, {"\"%{ if true }", "%{ endif }\""},
	} {
		for _, n := range []int{40, 120, 140} {
			list = append(list, "locals {\n  b = [1]\n  a = "+strings.Repeat(pair[0], n)+"1"+strings.Repeat(pair[1], n)+"\n}\n")
		}
	}
	for _, after := range []string{"[local.b]", "[*]", ".*.c", ".c", ".0"} {
		list = append(list, "locals {\n  b = [1]\n  a = local.b"+strings.Repeat(after, 100)+"\n}\n")
	}
	return append(list, doubling("[local.%[1]s, local.%[1]s]", "[1]", 40), doubling(`"${local.%[1]s}${local.%[1]s}"`, `"x"`, 40))
}

// FuzzParse checks that any text gives either a policy or diagnostics with positions inside the text, and that Show
// writes a text that loads to the same policy.
func FuzzParse(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") || strings.Contains(text, "include") {
			return // they read what is on this machine
		}
		p, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: []string{"KEY=" + planted}, Schemas: schemas})
		check(t, text, p, err)
		if err == nil {
			var shown strings.Builder
			if err := p.Show(&shown, policies.ShowOptions{}); err != nil {
				t.Fatal(err)
			}
			again, err := policies.Parse("policy.hcl", []byte(shown.String()), policies.LoadOptions{Env: []string{"KEY=" + planted}, Schemas: schemas})
			if err != nil {
				t.Fatalf("%v\nshown:\n%s", err, &shown)
			}
			if again.Checksum != p.Checksum {
				t.Errorf("another policy when shown:\n%s", &shown)
			}
		}
		if out, err := policies.Format("policy.hcl", []byte(text)); err == nil {
			if twice, err := policies.Format("policy.hcl", out); err != nil || string(twice) != string(out) {
				t.Errorf("formatting twice differs from once: %v", err)
			}
		}
	})
}

func check(t *testing.T, text string, p *policies.Policy, err error) {
	t.Helper()
	var d policies.Diagnostics
	switch {
	case err == nil && p == nil:
		t.Fatal("neither a policy nor an error")
	case err != nil && p != nil:
		t.Fatal("a policy and an error")
	case err != nil && (!errors.As(err, &d) || !d.HasErrors()):
		t.Fatalf("an error without diagnostics: %v", err)
	}
	lines := strings.Count(text, "\n") + 1
	for _, one := range d {
		if one.Summary == "" || one.File == "policy.hcl" && one.Line > lines {
			t.Errorf("%+v", one)
		}
		if strings.Contains(one.String(), planted) && !strings.Contains(text, planted) {
			t.Errorf("the key shows: %s", one)
		}
	}
}

// FuzzLayers checks that any environment and --set give either a policy or diagnostics, and that a value of --set
// takes effect or is rejected.
func FuzzLayers(f *testing.F) {
	for _, s := range [][3]string{
		{"STEPFALL__BUDGET__STEP_USD", "0.5", "budget.step_usd=0.25"},
		{"STEPFALL__MODEL__SMALL__PRICE__INPUT_USD_PER_MILLION", "1", `model["small"].served=gpt-4o`},
		{"STEPFALL__MODEL__SMALL__API_KEY", `env("KEY")`, `model.small.api_key=env("KEY")`},
		{"STEPFALL__VERIFIER__TESTS__CONFIG__COMMAND", `["a", "b"]`, `verifier.tests.config.timeout="3s"`},
		{"STEPFALL__STRATEGY__CASCADE_ROUTE__LAMBDA", "[1, 2]", "strategy.cascade_route.lambda=2"},
		{"STEPFALL____", "", "="},
		{"STEPFALL__STREAM", "x", "stream"},
		{"STEPFALL__LOCALS__A", "1", "locals.a=1"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, name, value, set string) {
		if strings.Contains(value+set, "file") || strings.Contains(set, "include") || strings.Contains(name, "INCLUDE") || strings.ContainsAny(name, "=\x00") {
			return
		}
		p, err := policies.Parse("policy.hcl", []byte(sample), policies.LoadOptions{
			Env: []string{"KEY=" + planted, "OPENAI_API_KEY=k", name + "=" + value}, Sets: []string{set},
		})
		check(t, sample+"\n"+value+"\n"+set, p, err)
		if err == nil && set == "budget.step_usd=0.25" && p.Budget.StepUSD != 0.25 {
			t.Errorf("step_usd = %v", p.Budget.StepUSD)
		}
	})
}
