package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// Applies reports whether the verifier can judge answers to q: its conditions hold, and q has what its
// plugin needs, as far as that is known.
func (v *Verifier) Applies(q *sdk.Query) bool {
	if !v.When.Matches(q) {
		return false
	}
	switch v.needs() {
	case needsTests:
		return q.WorkDir != "" || len(q.Checks.FailToPass)+len(q.Checks.PassToPass) > 0
	case needsSchema:
		return len(q.Format.Schema) > 0 || len(q.Tools) > 0
	}
	return true
}

// What a verifier can require of a query.
const (
	needsTests  = "a work tree or tests"
	needsSchema = "a JSON schema or tools"
)

// needs returns what a query must have for a conclusive verdict, or "".
func (v *Verifier) needs() string {
	switch {
	case v.Plugin == "verifier-tests" && !v.Config.has([]string{"work_dir"}):
		return needsTests
	case v.Plugin == "verifier-schema" && !v.Config.has([]string{"schema"}) && !v.Config.has([]string{"schema_file"}):
		return needsSchema
	}
	return ""
}

// Rejects reports whether the verifier only finds faults, so that a pass is no evidence.
func (v *Verifier) Rejects() bool {
	return v.Plugin == "verifier-schema" && v.Config.values["may_pass"] != true
}

// Judges reports whether the verifier's result is a verdict that can accept an answer.
func (v *Verifier) Judges() bool { return !v.Rejects() && (v.As == "" || v.As == "verdict") }

func (v *Verifier) judgesModel(name string) bool {
	return v.Judges() && (v.Models == nil || slices.ContainsFunc(v.Models, func(own string) bool { // of its arms and samples, too
		rest, isPart := strings.CutPrefix(name, own)
		return isPart && (rest == "" || strings.ContainsAny(rest[:1], "@#"))
	}))
}

// UnjudgedModels returns those of the candidates whose answers no verifier judges. The dearest alone does not count: no
// other model is asked for a better answer than its own.
func (p *Policy) UnjudgedModels(candidates []string) (names []string) {
	models := p.expandedModels()
	slices.SortStableFunc(models, func(a, b Model) int { return cmp.Compare(a.Price.Output, b.Price.Output) })
	dearest := ""
	for _, m := range models {
		if !slices.Contains(candidates, m.Name) {
			continue
		}
		dearest = m.Name
		if !slices.ContainsFunc(p.Verifiers, func(v Verifier) bool { return v.judgesModel(m.Name) }) {
			names = append(names, m.Name)
		}
	}
	if slices.Equal(names, []string{dearest}) {
		return nil
	}
	return names
}

// judgesAll reports whether the verifier judges the answers to all queries; patches means that all have tests.
func (v *Verifier) judgesAll(patches bool) bool {
	only := v.When.onlyWithChecks()
	return v.needs() == needsTests && patches || !only && (v.needs() == "" || !v.When.Empty())
}

// StatedRates returns the error rates that the policy states for the verifier, or nil if it states none.
func (v *Verifier) StatedRates() *cascade.Rates {
	if !v.Judges() || v.FalsePass == nil && v.FalseReject == nil {
		return nil
	}
	return &cascade.Rates{FalsePass: *cmp.Or(v.FalsePass, new(float64)), FalseReject: *cmp.Or(v.FalseReject, new(float64))}
}

// Rates returns the verifier's error rates: those in the policy, or else the learned ones, or else the
// default ones if a model judges. It returns nil if its verdicts are final.
func (v *Verifier) Rates(learned map[string]cascade.Rates) *cascade.Rates {
	stated := v.StatedRates()
	rates, known := learned[v.Name]
	switch {
	case !v.Judges() || stated != nil:
		return stated
	case known:
		return &rates
	case v.Learn || v.asksModel():
		return &cascade.Rates{FalsePass: cascade.PriorFalsePass, FalseReject: cascade.PriorFalseReject}
	}
	return nil
}

// asksModel reports whether the plugin judges by a model, or its config names one: in the argument model, or anywhere
// one of the policy's.
func (v *Verifier) asksModel() bool {
	return v.Plugin == "verifier-judge" || v.namesModel || v.Config.has([]string{"model"})
}

// asksNone has the plugins that come with stepfall and ask no model: in their configs a model's name is only a word.
var asksNone = []string{"verifier-tests", "verifier-command", "verifier-schema", "verifier-cases"}

// mayAsk reports whether the verifier's config names the model.
func (v *Verifier) mayAsk(model string) bool {
	return !slices.Contains(asksNone, v.Plugin) && contains(v.Config.values, model)
}

// HasJudge reports whether a verifier or an estimator of the policy names the model as its judge.
func (p *Policy) HasJudge(model string) bool {
	return slices.ContainsFunc(p.Verifiers, func(v Verifier) bool { return v.mayAsk(model) }) ||
		slices.ContainsFunc(p.Estimators, func(e Estimator) bool { return contains(e.Config.values, model) })
}

// UncheckedJudges returns the verifiers whose verdicts count as evidence with error rates that no outcomes
// have confirmed.
func (p *Policy) UncheckedJudges(learned map[string]cascade.Rates) (names []string) {
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		if _, known := learned[v.Name]; !known && v.Rates(nil) != nil {
			names = append(names, v.Name)
		}
	}
	return names
}

// Looks reports whether the estimator will judge the model's answer to q, as far as its plugin's needs are
// known.
func (e *Estimator) Looks(q *sdk.Query, m *Model) bool {
	return e.When.Matches(q) && e.mayLook(m)
}

func (e *Estimator) mayLook(m *Model) bool {
	return (e.Models == nil || slices.Contains(e.Models, m.Name)) &&
		(e.Plugin != "estimator-logprob" || slices.Contains(m.Capabilities, "log_probs"))
}

// warnBlindStrategies warns about strategies for several models whose answers nothing judges, or only on some
// queries without the policy stating so.
func (l *loader) warnBlindStrategies(p *Policy) {
	l.warnUnreadSignals(p)
	if p.Fit != nil || l.o.HasVerifier || l.diags.HasErrors() {
		return
	}
	l.warnRoutingOnly(p, &p.Strategy, nil, When{}, []string{"strategy", p.Strategy.Kind})
	for i := range p.Matches {
		if m := &p.Matches[i]; m.Strategy != nil {
			l.warnRoutingOnly(p, m.Strategy, m.Models, m.When, []string{"match", m.Name, "strategy", m.Strategy.Kind})
		}
	}
}

// warnUnreadSignals warns about verifiers whose signals nothing reads or buys.
func (l *loader) warnUnreadSignals(p *Policy) {
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		switch {
		case v.As == "" || v.As == "verdict":
		case p.Fit == nil && !l.o.HasVerifier:
			l.warn(l.blockOrigin([]string{"verifier", v.Name}), fmt.Sprintf("nothing reads the signal of verifier %q", v.Name),
				"Only the estimator of a profile reads signals, if it was fitted to outcomes that have a column of that name.",
				"Add fit { profile = \"profile.json\" }, fitted to outcomes of stepfall collect with this policy, or remove the argument as.")
		case v.As == "bought" && p.Strategy.Kind != "index":
			l.warn(l.blockOrigin([]string{"verifier", v.Name}), fmt.Sprintf("%s buys no signals", p.Strategy.Kind),
				"Only index weighs the gain of a signal against its price: verifier \""+v.Name+"\" is never called.",
				"Use strategy \"index\", or as = \"signal\" to run it on every answer.")
		}
	}
}

// warnRoutingOnly warns if nothing judges the answers of a strategy's models to queries that meet when.
func (l *loader) warnRoutingOnly(p *Policy, s *Strategy, candidates []string, when When, path []string) {
	if s.onlyRoutes() {
		return
	}
	open := s.openModels(p, candidates)
	all, some, said := l.findJudge(p, open, when)
	switch {
	case all || len(open) < 2:
	case some != nil:
		l.warnPartlyJudged(p, s, open, some, said)
	default:
		other := ""
		for i := range p.Verifiers {
			if v := &p.Verifiers[i]; v.Rejects() {
				other = fmt.Sprintf("\nor, where an answer that keeps the schema is right, set may_pass = true in the config of verifier %q: without it, it only finds faults;", v.Name)
			}
		}
		l.warn(l.blockOrigin(path), fmt.Sprintf("nothing judges the answers, so %s only routes", s.Kind),
			"No verifier, estimator or profile tells right answers from wrong ones: each query goes to one model, chosen by the\n"+
				"quality blocks and prices, and to another only where a free check (refusal, format) rejects the answer; std_dev is not read.",
			"Add a verifier, for instance a model that judges:\n\n"+Judge(open)+other+"\nor, if routing is intended, use strategy \"route\".")
	}
}

func (s *Strategy) onlyRoutes() bool { return s.Kind == "route" || s.MaxDepth == 1 }

// openModels returns the candidates (nil means all models) that the strategy can call.
func (s *Strategy) openModels(p *Policy, candidates []string) (open []*Model) {
	for i := range p.Models {
		name := p.Models[i].Name
		if (candidates == nil || slices.Contains(candidates, name)) && (s.Order == nil || slices.Contains(s.Order, name)) {
			open = append(open, &p.Models[i])
		}
	}
	return open
}

// findJudge reports whether something judges a model's answers to all queries that meet when. If not, some is a
// verifier that judges the answers to some of them, and said reports whether its block states that limit.
func (l *loader) findJudge(p *Policy, models []*Model, when When) (all bool, some *Verifier, said bool) {
	patches := l.o.Patches || when.onlyWithChecks()
	for _, m := range models {
		for i := range p.Verifiers {
			v := &p.Verifiers[i]
			switch {
			case !v.judgesModel(m.Name):
			case v.judgesAll(patches):
				return true, nil, false
			case !said:
				some, said = v, v.When.onlyWithChecks() // the block states that it applies only to queries with checks
			}
		}
		if slices.ContainsFunc(p.Estimators, func(e Estimator) bool { return e.mayLook(m) }) {
			return true, nil, false
		}
	}
	return false, some, said
}

// warnPartlyJudged reports the queries on which v, the only verifier of the models, does not judge answers: as a
// warning, or in p.Unjudged if the verifier's block states that limit.
func (l *loader) warnPartlyJudged(p *Policy, s *Strategy, models []*Model, v *Verifier, said bool) {
	judge := Judge(models)
	if v.needs() == needsTests || said {
		judge = strings.Replace(judge, "\n", "\n  when {\n    checks = false\n  }\n", 1)
	}
	summary := fmt.Sprintf("nothing judges answers to queries without %s, such as chats", cmp.Or(v.needs(), needsTests))
	detail := s.Kind + " only routes them: each goes to one model, chosen by the quality blocks and prices, and to another only where a free check (refusal, format) rejects the answer."
	hint := "To judge them too, add a verifier, for instance a model that judges:\n\n" + judge
	if said {
		p.Unjudged = summary + ".\n" + detail + "\n" + hint
		return
	}
	l.warn(l.blockOrigin([]string{"verifier", v.Name}), summary, detail,
		hint+fmt.Sprintf("\nor, where verifier %q is only meant for the others, as with stepfall swe, set when { checks = true }.", v.Name))
}

// Judge returns a verifier block in which the cheapest model judges the answers of all models except the most
// expensive one.
func Judge(models []*Model) string {
	judge, dearest := models[0], models[0]
	for _, m := range models {
		if m.Price.Output < judge.Price.Output {
			judge = m
		}
		if m.Price.Output >= dearest.Price.Output {
			dearest = m
		}
	}
	var names []string
	for _, m := range models {
		if m != dearest {
			names = append(names, strconv.Quote(m.Name))
		}
	}
	limit := ""
	if !judge.Price.Free {
		limit = "  max_usd = 0.01 # the most that judging one answer may cost\n"
	}
	return fmt.Sprintf("verifier \"judge\" {\n  plugin  = \"verifier-judge\"\n  models  = [%s]\n%s  config {\n    model = %q\n  }\n}\n", strings.Join(names, ", "), limit, judge.Name)
}
