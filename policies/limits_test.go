package policies_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// limited has two models: answers of expected length cost 0.0005 and 0.001 US dollars, the longest ones 0.01 and
// 0.02.
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

// A diagnostic about a number appears one step beyond its limit, not at the limit.
func TestLimitsAreWhereTheyAreSaidToBe(t *testing.T) {
	const strategy = "strategy \"index\" {\n  lambda = 1\n}\n"
	for _, c := range []struct{ text, says string }{
		{strategy + "budget {\n  step_usd = 0.02\n}\n", ""},
		{strategy + "budget {\n  step_usd = 0.0199\n}\n", `the policy has 1 warning; step_usd excludes model "large"; the longest answer of "large", 10000 tokens, costs 0.02 US dollars.`},
		{strategy + "budget {\n  step_usd = 0.01\n}\n", `the policy has 1 warning; step_usd excludes model "large"`},
		{strategy + "budget {\n  step_usd = 0.0099\n}\n", `step_usd leaves no room for a single call; The worst case of a call is reserved before it: the longest answer of "small", the cheapest model, costs 0.01 US dollars.`},
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
		{strategy + "baseline = \"small\"\nholdout {\n  share = 0\n}\n", "a holdout of 0 measures nothing; No run uses the baseline."},
		{strategy + "baseline = \"small\"\nholdout {\n  share = 1\n}\n", "with a holdout of 1 the policy never decides; Every run uses the baseline."},
		{strategy + "override\n", `model "small" exceed its context; max_output_tokens is 10001, context_tokens 10000: prompt and answer together.`},
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

// A number at the end of its range is accepted unchanged, and the next one is rejected.
func TestValuesAtTheirLimits(t *testing.T) {
	var p *policies.Policy
	for _, c := range []struct {
		set  string
		got  func() any
		want any // nil where it is refused
	}{
		{"budget.step_usd=0", func() any { return p.Budget.StepUSD }, 0.0},
		{"budget.step_usd=-0.01", nil, nil},
		{"budget.step_usd=1e309", nil, nil},
		{"retry.max_attempts=1", func() any { return p.Retry.MaxAttempts }, 1},
		{"retry.max_attempts=20", func() any { return p.Retry.MaxAttempts }, 20},
		{"retry.max_attempts=0", nil, nil},
		{"retry.max_attempts=21", nil, nil},
		{"retry.max_attempts=2.5", nil, nil},
		{"model.small.max_output_tokens=1e15", nil, nil}, // longer than its context
		{"model.small.context_tokens=1e15", func() any { return p.Models[0].ContextTokens }, 1_000_000_000_000_000},
		{"model.small.context_tokens=1000000000000001", nil, nil},
		{"model.small.sample_temperature=2", func() any { return p.Models[0].SampleTemperature }, 2.0},
		{"model.small.sample_temperature=2.001", nil, nil},
		{"model.small.sample_temperature=0.001", func() any { return p.Models[0].SampleTemperature }, 0.001},
		{"model.small.sample_temperature=0", nil, nil},
		{"model.small.timeout=0s", func() any { return p.Models[0].Timeout }, time.Duration(0)},
		{"model.small.timeout=-1s", nil, nil},
		{"model.small.timeout=1h30m", func() any { return p.Models[0].Timeout }, 90 * time.Minute},
		{"retry.base_delay=1ns", func() any { return p.Retry.BaseDelay }, time.Nanosecond},
		{"retry.base_delay=0s", nil, nil},
		{"strategy.index.lambda=[2, 0]", func() any { return p.Strategy.Lambda }, []float64{2, 0}},
		{"strategy.index.lambda=3", func() any { return p.Strategy.Lambda }, []float64{3}},
		{"strategy.index.lambda=[2, -1]", nil, nil},
		{"strategy.index.gamma=1", func() any { return p.Strategy.Gamma }, 1.0},
		{"strategy.index.gamma=1.01", nil, nil},
		{"strategy.index.scale=0", nil, nil},
		{"verifier.tests.false_pass=0", func() any { return *p.Verifiers[0].FalsePass }, 0.0},
		{"verifier.tests.when.checks=false", func() any { return *p.Verifiers[0].When.Checks }, false},
		{"trace.max_size=0B", nil, nil},
		{"trace.max_size=1.5KiB", func() any { return p.Trace.MaxSize }, policies.Bytes(1536)},
		{"trace.max_size=2 kB", func() any { return p.Trace.MaxSize }, policies.Bytes(2000)},
		{"trace.max_size=3GB", func() any { return p.Trace.MaxSize }, policies.Bytes(3e9)},
		{"trace.max_size=-1B", nil, nil},
		{"trace.max_size=4294967295GiB", func() any { return p.Trace.MaxSize }, policies.Bytes(4294967295 << 30)},
		{"trace.max_size=4294967296GiB", nil, nil},
		{"trace.max_size=manyB", nil, nil},
		{`model.small.served="a\"b"`, func() any { return p.Models[0].Served }, `a"b`},
	} {
		t.Run(c.set, func(t *testing.T) {
			var err error
			p, err = policies.Parse("policy.hcl", []byte(limited+"strategy \"index\" {\n  lambda = 1\n}\ntrace {}\n"), policies.LoadOptions{Env: []string{}, Sets: []string{c.set}})
			switch {
			case c.want == nil && err == nil:
				t.Error("it is taken")
			case c.want != nil && err != nil:
				t.Error(err)
			case c.want != nil && !reflect.DeepEqual(c.got(), c.want):
				t.Errorf("it is %v, want %v", c.got(), c.want)
			}
		})
	}
	// Computed durations can be longer than literal ones.
	for seconds, fits := range map[string]bool{"4611686018": true, "4611686019": false, "-4611686018": false} {
		p, err := loadText(t, strings.Replace(limited, "context_tokens  ", "timeout = duration(\"1s\") * "+seconds+"\n  context_tokens  ", 1)+"strategy \"index\" {\n  lambda = 1\n}\n")
		if (err == nil) != fits || fits && p.Models[0].Timeout != 4611686018*time.Second {
			t.Errorf("%s s: %v", seconds, err)
		}
	}
}

// Overrides apply whether they come from the environment, the command line or both.
func TestOverridesOfEachLayer(t *testing.T) {
	const env, set = "STEPFALL__RETRY__MAX_ATTEMPTS=3", "retry.max_attempts=4"
	for _, c := range []struct {
		env, sets []string
		want      int
	}{
		{[]string{}, nil, 2},
		{[]string{env}, nil, 3},
		{[]string{}, []string{set}, 4},
		{[]string{env}, []string{set}, 4},
		{[]string{}, []string{set, "retry.max_attempts=5"}, 5},
	} {
		p, err := policies.Parse("policy.hcl", []byte(limited+"strategy \"index\" {\n  lambda = 1\n}\n"), policies.LoadOptions{Env: c.env, Sets: c.sets})
		if err != nil || p.Retry.MaxAttempts != c.want {
			t.Errorf("%v and %v: %v, want %d", c.env, c.sets, err, c.want)
		}
	}
}

// Values derived from worth_usd and from the catalogue are those that decisions use.
func TestValuesThatFollowFromOthers(t *testing.T) {
	const facts = `catalog "openai/served" {
  as_of  = "2026-01-01"
  source = "a contract"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 2
  }
`
	for _, c := range []struct {
		catalog, model     string
		context, longest   int
		settings, settless string
	}{
		{"", "", 0, 0, "", "context_tokens max_output_tokens capabilities"},
		{"  context_tokens = 1000\n  max_output_tokens = 1000\n", "", 1000, 1000, "context_tokens max_output_tokens", "capabilities"},
		{"  context_tokens = 1000\n  max_output_tokens = 400\n", "  context_tokens = 300\n", 300, 300, "context_tokens max_output_tokens", ""},
		{"  context_tokens = 1000\n  max_output_tokens = 400\n", "  max_output_tokens = 500\n", 1000, 500, "context_tokens max_output_tokens", ""},
		{"  max_output_tokens = 400\n  capabilities = [\"tools\"]\n", "", 0, 400, "max_output_tokens capabilities", "context_tokens"},
	} {
		p, err := loadText(t, facts+c.catalog+"}\nmodel \"m\" {\n  provider = \"openai\"\n  served = \"served\"\n"+c.model+"}\nstrategy \"route\" {\n  worth_usd = 0.05\n}\n")
		if err != nil {
			t.Fatal(err)
		}
		if m := p.Models[0]; m.ContextTokens != c.context || m.MaxOutputTokens != c.longest || m.Price.Output != 2 || p.Strategy.Lambda[0] != 20 {
			t.Errorf("%s and %s: %+v, lambda %v", c.catalog, c.model, m, p.Strategy.Lambda)
		}
		var out bytes.Buffer
		if err := p.Show(&out, policies.ShowOptions{}); err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(c.settings + " " + c.settless) {
			if got := strings.Contains(out.String(), name); got != slices.Contains(strings.Fields(c.settings), name) {
				t.Errorf("%s and %s: %s is shown: %v\n%s", c.catalog, c.model, name, got, &out)
			}
		}
	}
}

// The model with the cheapest answer and the one with the cheapest longest answer can differ, and the higher price of
// output and reasoning counts.
func TestBudgetsGoByTheCheapestModel(t *testing.T) {
	const strategy = "strategy \"index\" {\n  lambda = 1\n}\n"
	reasons := strings.Replace(limited, "output_usd_per_million = 1\n", "output_usd_per_million = 1\n    reasoning_usd_per_million = 4\n", 1)
	free := limited + "model \"home\" {\n  provider = \"ollama\"\n  price {\n    free = true\n  }\n}\n"
	unbounded := strings.Replace(limited, "max_output_tokens      = 10000\n", "", 1)
	for name, c := range map[string]struct{ text, says string }{
		"the first is cheapest": {limited + "budget {\n  step_usd = 0.001\n}\n", `the longest answer of "small", the cheapest model, costs 0.01 US`},
		"it reasons":            {reasons + "budget {\n  step_usd = 0.001\n}\n", `the longest answer of "large", the cheapest model, costs 0.02 US`},
		"one is free":           {free + "budget {\n  step_usd = 0.001\n  expected_usd_per_query = 0.0001\n}\n", `step_usd excludes model "small"`},
		"no longest answer":     {unbounded + "budget {\n  step_usd = 1\n}\n", `model "small" has no output limit`},
		"a run's cap":           {unbounded + "budget {\n  run_usd = 1\n}\n", `model "small" has no output limit`},
		"a tenant's cap":        {unbounded + "budget {\n  tenant \"a\" {\n    usd = 1\n  }\n}\n", `model "small" has no output limit`},
		"each tenant's cap":     {unbounded + "budget {\n  tenant_usd = 1\n}\n", `model "small" has no output limit`},
		"a shadow's cap":        {unbounded + "mode = \"shadow\"\nbaseline = \"small\"\nshadow {\n  max_usd = 1\n}\n", `model "small" has no output limit`},
		"no cap":                {unbounded, ""},
		"no tenant":             {limited + "budget {\n  tenant_period = \"1h\"\n}\n", "tenant_period has no effect"},
		"each tenant":           {limited + "budget {\n  tenant_usd = 1\n  tenant_period = \"1h\"\n}\n", ""},
		"one tenant":            {limited + "budget {\n  tenant_period = \"1h\"\n  tenant \"a\" {\n    usd = 1\n  }\n}\n", ""},
	} {
		p, err := loadText(t, c.text+strategy)
		said := ""
		if err != nil {
			said = err.Error()
		} else if len(p.Warnings) > 0 {
			said = p.Warnings.Error()
		}
		if c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%s: want %q in %s", name, c.says, said)
		}
	}
}

// A streamed answer cannot be taken back, so passthrough requires a single candidate.
func TestPassthroughHasOneCandidate(t *testing.T) {
	one := limited[:strings.Index(limited, "model \"large\"")]
	stream := "stream {\n  mode = \"passthrough\"\n}\n"
	arms := "  arm \"low\" {\n    reasoning_effort = \"low\"\n  }\n  arm \"high\" {\n    reasoning_effort = \"high\"\n  }\n}\n"
	for name, c := range map[string]struct {
		text string
		fits bool
	}{
		"one model":     {one + "strategy \"index\" {\n  lambda = 1\n}\n", true},
		"two models":    {limited + "strategy \"index\" {\n  lambda = 1\n}\n", false},
		"two answers":   {strings.TrimSuffix(one, "}\n") + "  samples = 2\n}\nstrategy \"index\" {\n  lambda = 1\n}\n", false},
		"two arms":      {strings.TrimSuffix(one, "}\n") + arms + "strategy \"index\" {\n  lambda = 1\n}\n", false},
		"routed":        {limited + "strategy \"route\" {\n  lambda = 1\n}\n", true},
		"one at a time": {limited + "strategy \"index\" {\n  lambda = 1\n  max_depth = 1\n}\n", true},
	} {
		if _, err := loadText(t, c.text+stream); (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), "passthrough needs a single candidate") {
			t.Errorf("%s: %v", name, err)
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

// Among models of equal price the first one judges, and the last one is not judged.
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

// Top-level blocks are separated by a blank line, with none before the first; nested blocks are
// not.
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
		"false_pass = 0.7\n  false_reject = 0.3":  "must be below 1",
		"as = \"signal\"\n  false_reject = 0.1":   "never passes an answer",
		"as = \"signal\"\n  false_reject = 0":     "never passes an answer",
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
