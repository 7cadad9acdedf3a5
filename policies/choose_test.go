package policies_test

import (
	"slices"
	"testing"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// The first of the matching blocks applies. If none matches, the policy's own strategy and all its models
// apply.
func TestTheFirstMatchCounts(t *testing.T) {
	first, second, all := &policies.Strategy{Kind: "route"}, &policies.Strategy{Kind: "index"}, &policies.Strategy{Kind: "cascade"}
	p := &policies.Policy{
		Strategy: policies.Strategy{Kind: "threshold"},
		Models:   []policies.Model{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Matches: []policies.Match{
			{Name: "code", When: policies.When{Groups: []string{"code", "math"}}, Strategy: first, Models: []string{"a", "b"}},
			{Name: "math", When: policies.When{Groups: []string{"math", "prose"}}, Strategy: second, Models: []string{"c"}},
			{Name: "known", When: policies.When{Groups: []string{"*"}, Tenants: []string{"blue"}}, Strategy: all},
		},
	}
	for _, c := range []struct {
		group, tenant, match, kind string
		candidates                 []bool
	}{
		{"code", "", "code", "route", []bool{true, true, false}},
		{"math", "blue", "code", "route", []bool{true, true, false}}, // all three apply
		{"prose", "blue", "math", "index", []bool{false, false, true}},
		{"talk", "blue", "known", "cascade", []bool{true, true, true}},
		{"talk", "red", "", "threshold", []bool{true, true, true}},
	} {
		got := p.Choose(&sdk.Query{Group: c.group, Tenant: c.tenant})
		if got.Match != c.match || got.Strategy.Kind != c.kind || !slices.Equal(got.Candidates, c.candidates) {
			t.Errorf("group %q, tenant %q: match %q, %s, %v; want %q, %s, %v", c.group, c.tenant, got.Match, got.Strategy.Kind, got.Candidates, c.match, c.kind, c.candidates)
		}
	}
}

// A query matches a block if it meets all its conditions; otherwise the result names the condition that it does not
// meet.
func TestConditionsOfAMatch(t *testing.T) {
	yes, no := true, false
	tested := sdk.Query{}
	tested.Checks.PassToPass = []string{"TestX"}
	failing := sdk.Query{}
	failing.Checks.FailToPass = []string{"TestX"}
	for what, c := range map[string]struct {
		when policies.When
		q    sdk.Query
		why  string
	}{
		"nothing":              {policies.When{}, sdk.Query{}, ""},
		"a group":              {policies.When{Groups: []string{"x", "code-*"}}, sdk.Query{Group: "code-go"}, ""},
		"another group":        {policies.When{Groups: []string{"x"}}, sdk.Query{Group: "y"}, `its group "y" is not in ["x"]`},
		"no group at all":      {policies.When{Groups: []string{}}, sdk.Query{}, `its group "" is not in []`},
		"another tenant":       {policies.When{Groups: []string{"*"}, Tenants: []string{"blue"}}, sdk.Query{Tenant: "red"}, `its tenant "red" is not in ["blue"]`},
		"one of the tools":     {policies.When{Tools: []string{"find"}}, sdk.Query{Tools: []sdk.Tool{{Name: "run"}, {Name: "find"}}}, ""},
		"none of the tools":    {policies.When{Tools: []string{"*"}}, sdk.Query{}, `it offers none of the tools ["*"]`},
		"tests":                {policies.When{Checks: &yes}, tested, ""},
		"tests that fail":      {policies.When{Checks: &yes}, failing, ""},
		"a work tree":          {policies.When{Checks: &yes}, sdk.Query{WorkDir: "/src"}, ""},
		"no tests":             {policies.When{Checks: &yes}, sdk.Query{}, "it names no tests that decide"},
		"tests, none wanted":   {policies.When{Checks: &no}, tested, "it names tests that decide"},
		"no tests, as wanted":  {policies.When{Checks: &no}, sdk.Query{}, ""},
		"a hard run":           {policies.When{Setbacks: 1}, sdk.Query{Features: map[string]float64{"disputed_steps": 1}}, ""},
		"tools that fail":      {policies.When{Setbacks: 1}, sdk.Query{Features: map[string]float64{"tool_errors": 1, "repeated_calls": 1}}, ""},
		"one tool that failed": {policies.When{Setbacks: 1}, sdk.Query{Features: map[string]float64{"tool_errors": 1}}, "its run has had 0.5 setbacks, fewer than 1"},
		"labels":               {policies.When{Labels: map[string]string{"a": "1", "b": "*"}}, sdk.Query{Labels: map[string]string{"a": "1", "b": "2"}}, ""},
		"another label":        {policies.When{Labels: map[string]string{"a": "1", "b": "2"}}, sdk.Query{Labels: map[string]string{"a": "1", "b": "3"}}, `its label b is "3", not "2"`},
		"a label that is not":  {policies.When{Labels: map[string]string{"a": "*"}}, sdk.Query{}, `its label a is "", not "*"`},
		"a pattern as a name":  {policies.When{Groups: []string{"[x"}}, sdk.Query{Group: "[x"}, ""},
		"a pattern that isn't": {policies.When{Groups: []string{"[x"}}, sdk.Query{Group: "x"}, `its group "x" is not in ["[x"]`},
	} {
		if got := c.when.Why(&c.q); got != c.why || c.when.Matches(&c.q) != (c.why == "") {
			t.Errorf("%s: %q, matches %v; want %q", what, got, c.when.Matches(&c.q), c.why)
		}
		if empty := what == "nothing"; c.when.Empty() != empty {
			t.Errorf("%s: empty %v", what, !empty)
		}
	}
}
