package policies_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// limited has two models: usual answers cost 0.0005 and 0.001 US dollars, the longest
// 0.01 and 0.02.
const limited = `model "small" {
  provider = "openai"
  served   = "small-served"
  price {
    input_usd_per_million  = 0.5
    output_usd_per_million = 1
  }
  context_tokens         = 10000
  max_output_tokens      = 10000
  expected_output_tokens = 500
  quality { mean = 0.5 }
}
model "large" {
  provider = "openai"
  served   = "large-served"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 2
  }
  context_tokens         = 20000
  max_output_tokens      = 10000
  expected_output_tokens = 500
  quality { mean = 0.9 }
}
verifier "tests" {
  plugin = "verifier-tests"
  when { checks = true }
}
`

// What is said of a number begins one step beyond its limit, not at it.
func TestLimitsAreWhereTheyAreSaidToBe(t *testing.T) {
	const strategy = "strategy \"index\" {\n  lambda = 1\n}\n"
	for _, c := range []struct{ text, says string }{
		{strategy + "budget {\n  step_usd = 0.01\n}\n", ""},
		{strategy + "budget {\n  step_usd = 0.0099\n}\n", `step_usd leaves no room for a single call; The worst case of a call is reserved before it: the longest answer of "small", the cheapest there, costs 0.01 US dollars.`},
		{strategy + "budget {\n  expected_usd_per_query = 0.0005\n}\n", ""},
		{strategy + "budget {\n  expected_usd_per_query = 0.0004\n}\n", `the budget is below the cheapest model; A usual answer of "small" costs 0.0005 US dollars before its prompt is counted; the budget is 0.0004.`},
		{strategy + "budget {\n  step_usd = 1\n  run_usd = 1\n  tenant_usd = 1\n}\n", ""},
		{strategy + "budget {\n  step_usd = 2\n  run_usd = 1\n}\n", "step_usd can never be reached; run_usd is lower: 1."},
		{strategy + "budget {\n  run_usd = 2\n  tenant_usd = 1\n}\n", "run_usd can never be reached; tenant_usd is lower: 1."},
		{strings.Replace(strategy, "lambda = 1", "lambda = [1, 2]", 1), ""},
		{strings.Replace(strategy, "lambda = 1", "lambda = [1, 2, 3]", 1), "lambda has 3 values for 2 models; The last ones are never used."},
		{strings.Replace(strategy, "lambda = 1", "lambda = 1\n  max_depth = 2", 1), ""},
		{strings.Replace(strategy, "lambda = 1", "lambda = 1\n  max_depth = 3", 1), "max_depth is 3, and there are 2 models; "},
		{strategy + "retry {\n  base_delay = \"2s\"\n  max_delay = \"2s\"\n}\n", ""},
		{strategy + "retry {\n  base_delay = \"2s\"\n  max_delay = \"1s\"\n}\n", "max_delay is shorter than base_delay; No wait is longer than max_delay: 1s."},
		{strategy + "baseline = \"small\"\nholdout {\n  share = 0.99\n}\n", ""},
		{strategy + "baseline = \"small\"\nholdout {\n  share = 0\n}\n", "a holdout of 0 measures nothing; No run goes the baseline's way."},
		{strategy + "baseline = \"small\"\nholdout {\n  share = 1\n}\n", "with a holdout of 1 the policy never decides; Every run goes the baseline's way."},
		{strategy + "override\n", `model "small" answers longer than its context; max_output_tokens is 10001, context_tokens 10000: prompt and answer together.`},
	} {
		text := limited + c.text
		if strings.HasSuffix(text, "override\n") {
			text = strings.Replace(limited, "max_output_tokens      = 10000", "max_output_tokens      = 10001", 1) + strategy
		}
		p, err := loadText(t, text)
		said := ""
		if err != nil {
			said = err.Error()
		} else if len(p.Warnings) > 0 {
			said = p.Warnings.Error()
		}
		if c.says == "" && said != "" {
			t.Errorf("%s\nat the limit:\n%s", c.text, said)
		}
		for part := range strings.SplitSeq(c.says, "; ") {
			if !strings.Contains(strings.Join(strings.Fields(said), " "), part) {
				t.Errorf("%s\nwant %q in\n%s", c.text, part, said)
			}
		}
	}
}

func TestSettingOfAStrategy(t *testing.T) {
	base := policies.Strategy{
		Kind: cascade.NameCascadeRoute, Lambda: []float64{1}, Threshold: []float64{2}, Gamma: 0.25, MaxDepth: 3, Scale: 0.5, NodeLimit: 7,
		Order: []string{"large", "small"},
	}
	want := cascade.Setting{Name: cascade.NameCascadeRoute, Lambdas: []float64{1}, Thresholds: []float64{2}, Gamma: 0.25, MaxDepth: 3, Scale: 0.5, NodeLimit: 7, Order: []string{"large", "small"}}
	for _, c := range []struct {
		variant, answer string
		change          func(*cascade.Setting)
	}{
		{"", "", func(*cascade.Setting) {}},
		{"exact", "last", func(s *cascade.Setting) { s.LastAnswer = true }},
		{"slow", "", func(s *cascade.Setting) { s.Name = cascade.NameCascadeRouteSlow }},
		{"greedy", "", func(s *cascade.Setting) { s.Name = cascade.NameCascadeRouteGreedy }},
		{"no_expect", "", func(s *cascade.Setting) { s.Name, s.Scale, s.NoExpect = cascade.NameCascadeRouteNoExpect, 0, true }},
	} {
		s, want := base, want
		s.Variant, s.Answer = c.variant, c.answer
		c.change(&want)
		got := s.Setting()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s: %+v, want %+v", c.variant, c.answer, got, want)
		}
		if _, err := got.Strategy([]string{"small", "large"}); err != nil {
			t.Error(err)
		}
		if _, err := got.Strategy([]string{"small"}); !errors.Is(err, cascade.ErrUnknownModel) {
			t.Errorf("an order of a model that is not there: %v", err)
		}
	}
	other := policies.Strategy{Kind: cascade.NameIndex, Variant: "slow"}
	if name := other.Setting().Name; name != cascade.NameIndex {
		t.Errorf("an index has a variant: %s", name)
	}
}

// Of models of one price the first judges, and the last is the one that is not judged.
func TestJudgeIsTheCheapest(t *testing.T) {
	m := func(name string, price float64) *policies.Model {
		return &policies.Model{Name: name, Price: policies.Price{Output: price}}
	}
	a := policies.Judge([]*policies.Model{m("b", 2), m("a1", 1), m("c1", 3), m("a2", 1), m("c2", 3)})
	if strings.Contains(a, `"c2"`) || strings.Contains(a, `"a2", "a1"`) {
		t.Errorf("judges and judged:\n%s", a)
	}
	for _, name := range []string{`"b"`, `"a1"`, `"c1"`, `"a2"`} {
		if !strings.Contains(a, name) {
			t.Errorf("%s is not judged:\n%s", name, a)
		}
	}
	judges := fmt.Sprint(strings.Count(a, `"a1"`), strings.Count(a, `"a2"`))
	if judges != "2 1" {
		t.Errorf("a1 and a2 are named %s times:\n%s", judges, a)
	}
}

// Blocks of the file have an empty line between them and none before the first; those in
// blocks have none.
func TestShowPutsBlocksApart(t *testing.T) {
	p, err := loadText(t, limited+"strategy \"index\" {\n  lambda = 1\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Show(&out, policies.ShowOptions{}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.HasPrefix(text, "\n") || strings.Contains(text, "\n\n\n") || strings.Contains(text, "\n\n  ") {
		t.Errorf("empty lines where none belong:\n%s", text)
	}
	for line := range strings.SplitSeq(text, "\n}\n") {
		if rest := strings.TrimPrefix(line, "\n"); rest != "" && rest == line && !strings.HasPrefix(text, line) {
			t.Errorf("no empty line before\n%s", line)
		}
	}
}

func TestErrorRatesOfVerifiers(t *testing.T) {
	learned := map[string]cascade.Rates{"judge": {FalsePass: 0.3, FalseReject: 0.1}}
	for _, c := range []struct {
		verifier policies.Verifier
		learned  map[string]cascade.Rates
		want     *cascade.Rates
	}{
		{policies.Verifier{Name: "judge"}, nil, nil},
		{policies.Verifier{Name: "judge"}, learned, &cascade.Rates{FalsePass: 0.3, FalseReject: 0.1}},
		{policies.Verifier{Name: "judge", FalsePass: new(0.2)}, learned, &cascade.Rates{FalsePass: 0.2}},
		{policies.Verifier{Name: "judge", Learn: true}, nil, &cascade.Rates{FalsePass: cascade.PriorFalsePass, FalseReject: cascade.PriorFalseReject}},
		{policies.Verifier{Name: "judge", Plugin: "verifier-judge"}, nil, &cascade.Rates{FalsePass: cascade.PriorFalsePass, FalseReject: cascade.PriorFalseReject}},
		{policies.Verifier{Name: "judge", Plugin: "verifier-judge"}, learned, &cascade.Rates{FalsePass: 0.3, FalseReject: 0.1}},
		{policies.Verifier{Name: "judge", Plugin: "verifier-judge", FalsePass: new(0.2)}, nil, &cascade.Rates{FalsePass: 0.2}},
		{policies.Verifier{Name: "judge", Plugin: "verifier-judge", FalsePass: new(0.0)}, learned, &cascade.Rates{}},
		{policies.Verifier{Name: "judge", FalsePass: new(0.0), FalseReject: new(0.1)}, learned, &cascade.Rates{FalseReject: 0.1}},
		{policies.Verifier{Name: "judge", As: "signal"}, learned, nil},
	} {
		if got := c.verifier.Rates(c.learned); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.verifier, got, c.want)
		}
	}
	for arguments, want := range map[string]string{
		"false_pass = 0.1\n  learn = true":        "both given and learned",
		"false_pass = 0.7\n  false_reject = 0.3":  "1 or more together",
		"as = \"signal\"\n  false_reject = 0.1":   "gives no verdicts",
		"as = \"signal\"\n  false_reject = 0":     "gives no verdicts",
		"false_pass = 0\n  learn = true":          "both given and learned",
		"false_pass = 0":                          "",
		"false_pass = 0.1\n  false_reject = 0.02": "",
		"learn = true":                            "",
	} {
		_, err := loadText(t, limited+"verifier \"judge\" {\n  plugin = \"verifier-judge\"\n  "+arguments+"\n}\nstrategy \"index\" {\n  lambda = 1\n}\n")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}
