package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// A verifier judges the queries that meet its conditions and have what its plugin needs. It can pass answers unless it
// only finds faults or gives a signal.
func TestWhichVerifiersJudge(t *testing.T) {
	plain, tree := &sdk.Query{Group: "code"}, &sdk.Query{WorkDir: "/src"}
	failing, passing, schema, tools := &sdk.Query{}, &sdk.Query{}, &sdk.Query{}, &sdk.Query{Tools: []sdk.Tool{{Name: "find"}}}
	failing.Checks.FailToPass, passing.Checks.PassToPass = []string{"TestX"}, []string{"TestX"}
	schema.Format.Schema = []byte(`{}`)
	queries := map[string]*sdk.Query{"plain": plain, "tree": tree, "failing": failing, "passing": passing, "schema": schema, "tools": tools}
	all := "failing passing plain schema tools tree"
	config := func(key string, value any) policies.Config { return policies.NewConfig(map[string]any{key: value}) }
	for name, c := range map[string]struct {
		v       policies.Verifier
		applies string
		judges  bool
	}{
		"a command":            {policies.Verifier{Plugin: "verifier-command"}, all, true},
		"conditions":           {policies.Verifier{Plugin: "verifier-command", When: policies.When{Groups: []string{"code"}}}, "plain", true},
		"tests":                {policies.Verifier{Plugin: "verifier-tests", As: "verdict"}, "failing passing tree", true},
		"tests somewhere":      {policies.Verifier{Plugin: "verifier-tests", Config: config("work_dir", "/src")}, all, true},
		"a schema":             {policies.Verifier{Plugin: "verifier-schema"}, "schema tools", false},
		"its own schema":       {policies.Verifier{Plugin: "verifier-schema", Config: config("schema", "{}")}, all, false},
		"a schema in a file":   {policies.Verifier{Plugin: "verifier-schema", Config: config("schema_file", "s.json")}, all, false},
		"a schema that passes": {policies.Verifier{Plugin: "verifier-schema", Config: config("may_pass", true)}, "schema tools", true},
		"a signal":             {policies.Verifier{Plugin: "verifier-command", As: "signal"}, all, false},
	} {
		var applies []string
		for name, q := range queries {
			if c.v.Applies(q) {
				applies = append(applies, name)
			}
			// Only the answers of its models, and only if it applies.
			c.v.Models = []string{"small"}
			p := &policies.Policy{Verifiers: []policies.Verifier{c.v}}
			if got := p.Verifies(q, "small"); got != (c.judges && c.v.Applies(q)) || p.Verifies(q, "large") {
				t.Errorf("%s: verifies small's answers to %s: %v; large's: %v", name, name, got, p.Verifies(q, "large"))
			}
			p.Verifiers[0].Models = nil
			if p.Verifies(q, "large") != (c.judges && c.v.Applies(q)) {
				t.Errorf("%s: one for all models does not verify large's answers", name)
			}
		}
		slices.Sort(applies)
		if got := strings.Join(applies, " "); got != c.applies || c.v.Judges() != c.judges {
			t.Errorf("%s: applies to %s and judges: %v; want %s, %v", name, got, c.v.Judges(), c.applies, c.judges)
		}
	}
}

func TestWhichEstimatorsLook(t *testing.T) {
	q, bare, full := &sdk.Query{Group: "code"}, &policies.Model{Name: "bare"}, &policies.Model{Name: "full", Capabilities: []string{"tools", "log_probs"}}
	for name, c := range map[string]struct {
		e          policies.Estimator
		bare, full bool
	}{
		"all models":        {policies.Estimator{Plugin: "agreement"}, true, true},
		"one of them":       {policies.Estimator{Plugin: "agreement", Models: []string{"bare"}}, true, false},
		"log-probabilities": {policies.Estimator{Plugin: "estimator-logprob"}, false, true},
		"other queries":     {policies.Estimator{Plugin: "agreement", When: policies.When{Groups: []string{"prose"}}}, false, false},
	} {
		if c.e.Looks(q, bare) != c.bare || c.e.Looks(q, full) != c.full {
			t.Errorf("%s: %v and %v, want %v and %v", name, c.e.Looks(q, bare), c.e.Looks(q, full), c.bare, c.full)
		}
	}
}

func TestUncheckedJudges(t *testing.T) {
	p := &policies.Policy{Verifiers: []policies.Verifier{
		{Name: "tests", Plugin: "verifier-tests"}, {Name: "judge", Plugin: "verifier-judge"}, {Name: "learning", Plugin: "verifier-command", Learn: true},
		{Name: "asking", Plugin: "mine", Config: policies.NewConfig(map[string]any{"model": "small"})},
	}}
	if got := strings.Join(p.UncheckedJudges(map[string]cascade.Rates{"learning": {}}), " "); got != "judge asking" {
		t.Errorf("unchecked: %s", got)
	}
}

// A model is unjudged if no verifier that decides lists it; the dearest alone needs none.
func TestUnjudgedModels(t *testing.T) {
	models := make([]policies.Model, 3)
	for i, name := range []string{"large", "small", "middle"} {
		models[i].Name, models[i].Price.Output = name, []float64{9, 1, 3}[i]
	}
	all := []string{"small", "middle", "large"}
	for name, c := range map[string]struct {
		verifier   policies.Verifier
		candidates []string
		want       string
	}{
		"all":                 {policies.Verifier{}, all, ""},
		"a signal":            {policies.Verifier{As: "signal"}, all, "small middle large"},
		"bought":              {policies.Verifier{As: "bought"}, all, "small middle large"},
		"not the dearest":     {policies.Verifier{Models: []string{"small", "middle"}}, all, ""},
		"one":                 {policies.Verifier{Models: []string{"small"}}, all, "middle large"},
		"all but a cheap one": {policies.Verifier{Models: []string{"small", "large"}}, all, "middle"},
		"one of two":          {policies.Verifier{Models: []string{"small"}}, []string{"small", "middle"}, ""},
	} {
		c.verifier.Plugin = "verifier-command"
		p := &policies.Policy{Models: models, Verifiers: []policies.Verifier{c.verifier}}
		if got := strings.Join(p.UnjudgedModels(c.candidates), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSetbacksAreCountedWhereABlockAsks(t *testing.T) {
	when := policies.When{Setbacks: 1}
	for name, c := range map[string]struct {
		p    policies.Policy
		want bool
	}{
		"no block":     {policies.Policy{Matches: make([]policies.Match, 1), Verifiers: make([]policies.Verifier, 1), Estimators: make([]policies.Estimator, 1)}, false},
		"a match":      {policies.Policy{Matches: []policies.Match{{}, {When: when}}}, true},
		"a verifier":   {policies.Policy{Verifiers: []policies.Verifier{{When: when}}}, true},
		"an estimator": {policies.Policy{Estimators: []policies.Estimator{{When: when}}}, true},
	} {
		if got := c.p.CountsSetbacks(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A policy whose answers nothing judges gets a warning, unless it states that intent.
func TestWarningsWhereNothingLooks(t *testing.T) {
	const (
		blind  = "nothing judges the answers"
		partly = "nothing judges answers to queries without a work tree or tests"
		schema = "nothing judges answers to queries without a JSON schema or tools"
		unread = "nothing reads the signal of"
		unsold = "cascade buys no signals"
	)
	two := limited[:strings.Index(limited, "verifier")]
	fit := "fit {\n  profile = \"profile.json\"\n}\n"
	strategy := func(more string) string { return "strategy \"cascade\" {\n  lambda = 1\n" + more + "}\n" }
	verifier := func(more string) string { return "verifier \"v\" {\n  " + more + "\n}\n" }
	for name, c := range map[string]struct {
		text, says string
		o          policies.LoadOptions
	}{
		"nothing":              {text: strategy(""), says: blind},
		"one model":            {text: "baseline = \"large\"\n" + strategy("order = [\"small\"]\n")},
		"one at a time":        {text: strategy("max_depth = 1\n")},
		"two at a time":        {text: strategy("max_depth = 2\n"), says: blind},
		"routing is meant":     {text: "strategy \"route\" {\n  lambda = 1\n}\n"},
		"a match":              {text: "strategy \"route\" {\n  lambda = 1\n}\nmatch \"m\" {\n  when {\n    groups = [\"a\"]\n  }\n" + strategy("") + "}\n", says: blind},
		"a match of one model": {text: "strategy \"route\" {\n  lambda = 1\n}\nmatch \"m\" {\n  models = [\"small\"]\n  when {\n    groups = [\"a\"]\n  }\n" + strategy("") + "}\n"},
		"somebody looked":      {text: strategy(""), o: policies.LoadOptions{HasVerifier: true}},
		"a command":            {text: strategy("") + verifier(`plugin = "verifier-command"`)},
		"an estimator":         {text: strategy("") + "estimator \"e\" {\n  plugin = \"agreement\"\n}\n"},
		"no log-probabilities": {text: strategy("") + "estimator \"e\" {\n  plugin = \"estimator-logprob\"\n}\n", says: blind},
		"only faults":          {text: strategy("") + verifier(`plugin = "verifier-schema"`), says: "set may_pass = true in the config of verifier \"v\""},
		"a schema that passes": {text: strategy("") + verifier("plugin = \"verifier-schema\"\n  config {\n    may_pass = true\n  }"), says: schema},
		"tests":                {text: strategy("") + verifier(`plugin = "verifier-tests"`), says: partly},
		"tests of patches":     {text: strategy("") + verifier(`plugin = "verifier-tests"`), o: policies.LoadOptions{Patches: true}},
		"tests where wanted":   {text: "strategy \"route\" {\n  lambda = 1\n}\n" + verifier(`plugin = "verifier-tests"`) + "match \"m\" {\n  when {\n    checks = true\n  }\n" + strategy("") + "}\n"},
		"tests where not":      {text: "strategy \"route\" {\n  lambda = 1\n}\n" + verifier(`plugin = "verifier-tests"`) + "match \"m\" {\n  when {\n    checks = false\n  }\n" + strategy("") + "}\n", says: partly},
		"tests, as it says":    {text: strategy("") + verifier("plugin = \"verifier-tests\"\n  when {\n    checks = true\n  }")},
		"tests of a group":     {text: strategy("") + verifier("plugin = \"verifier-tests\"\n  when {\n    groups = [\"code\"]\n  }")},
		"of other models":      {text: strategy("order = [\"small\", \"large\"]\n") + verifier("plugin = \"verifier-command\"\n  models = [\"large\"]")},
		"a signal":             {text: strategy("") + verifier("plugin = \"verifier-command\"\n  as = \"signal\""), says: unread},
		"a signal that reads":  {text: strategy("") + verifier("plugin = \"verifier-command\"\n  as = \"signal\""), o: policies.LoadOptions{HasVerifier: true}},
		"a fitted signal":      {text: "strategy \"cascade\" {}\n" + fit + verifier("plugin = \"verifier-command\"\n  as = \"signal\""), o: policies.LoadOptions{WithoutProfile: true}},
		"a bought signal":      {text: "strategy \"index\" {}\n" + fit + verifier("plugin = \"verifier-command\"\n  as = \"bought\""), o: policies.LoadOptions{WithoutProfile: true}},
		"bought by a cascade":  {text: "strategy \"cascade\" {}\n" + fit + verifier("plugin = \"verifier-command\"\n  as = \"bought\""), o: policies.LoadOptions{WithoutProfile: true}, says: unsold},
	} {
		p, err := policies.Parse("policy.hcl", []byte(two+c.text), c.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if said := p.Warnings.Error(); c.says == "" && len(p.Warnings) > 0 || !strings.Contains(said, c.says) {
			t.Errorf("%s: want %q in\n%s", name, c.says, said)
		}
		if (p.Unjudged != "") != (name == "tests, as it says") {
			t.Errorf("%s: unjudged: %s", name, p.Unjudged)
		}
	}
}

// A config that names a model anywhere makes it a judge: its verdicts are evidence, and the model can run. A warning
// says so unless the block does; the configs of stepfall's own verifiers that ask no model have none.
func TestAnyArgumentNamesAJudge(t *testing.T) {
	for _, c := range []struct {
		plugin, block, config string
		isJudge, isWarned     bool
	}{
		{"mine", "", `model = "large"`, true, false},
		{"mine", "", `judge = "large"`, true, true},
		{"mine", "learn = true", `judge = "large"`, true, false},
		{"mine", "as = \"signal\"", `judge = "large"`, true, false},
		{"mine", "", `panel = ["other", "large"]`, true, true},
		{"mine", "", "ask {\n    whom = \"large\"\n  }", true, true},
		{"mine", "", `command = ["larger"]`, false, false},
		{"mine", "", ``, false, false},
		{"verifier-judge", "", `model = "large"`, true, false},
		{"verifier-command", "", `command = ["go", "test", "large"]`, false, false},
	} {
		text := limited + "verifier \"v\" {\n  plugin = \"" + c.plugin + "\"\n  " + c.block + "\n  config {\n  " + c.config + "\n  }\n}\nstrategy \"threshold\" {\n  threshold = 0.7\n  order = [\"small\"]\n}\n"
		p, err := policies.Parse("policy.hcl", []byte(text), policies.LoadOptions{Env: []string{"KEY=x"}})
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		isEvidence := slices.Contains(p.UncheckedJudges(nil), "v")
		isIdle := strings.Contains(fmt.Sprint(p.Warnings), `"large" can never run`)
		isWarned := strings.Contains(fmt.Sprint(p.Warnings), `the config of verifier "v" names the model "large"`)
		if wantEvidence := c.isJudge && !strings.HasPrefix(c.block, "as"); isEvidence != wantEvidence || isIdle == c.isJudge || isWarned != c.isWarned || p.HasJudge("large") != c.isJudge {
			t.Errorf("%+v: evidence %v, warned %v, idle %v, judge %v", c, isEvidence, isWarned, isIdle, p.HasJudge("large"))
		}
	}
	stated := limited + "verifier \"v\" {\n  plugin = \"mine\"\n  false_pass = 0\n  config {\n    size = \"large\"\n  }\n}\nstrategy \"index\" {\n  lambda = 1\n}\n"
	p, err := policies.Parse("policy.hcl", []byte(stated), policies.LoadOptions{Env: []string{"KEY=x"}})
	if err != nil || strings.Contains(fmt.Sprint(p.Warnings), "names the model") || *p.Verifiers[len(p.Verifiers)-1].Rates(nil) != (cascade.Rates{}) {
		t.Errorf("stated as final: %v, %v", p, err)
	}
}
