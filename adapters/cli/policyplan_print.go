package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// madePlan is what a plan found: the settings that differ, and what each policy
// would do, the one in use first.
type madePlan struct {
	Changed  bool                 `json:"changed"`
	Settings []policies.Change    `json:"settings"`
	Source   string               `json:"source"`
	Policies []*forecast.Forecast `json:"policies"`
}

func newPlan(source string, all []*policies.Policy, results []*forecast.Forecast) *madePlan {
	p := &madePlan{Source: source, Settings: []policies.Change{}, Policies: results}
	if len(all) == 2 {
		p.Settings = append(p.Settings, policies.Diff(all[0], all[1])...)
		was, is := *results[0], *results[1]
		was.Policy = is.Policy
		p.Changed = len(p.Settings) > 0 || !reflect.DeepEqual(was, is)
	}
	return p
}

// printSettings prints what differs, as terraform does: + is new, - is gone, ~ is other.
func (p *madePlan) printSettings(w *printer) {
	if len(p.Policies) < 2 {
		return
	}
	if len(p.Settings) == 0 {
		w.f("no setting differs in effect\n\n")
		return
	}
	verb := "differ"
	if len(p.Settings) == 1 {
		verb = "differs"
	}
	w.f("%s %s in effect:\n", count(len(p.Settings), "setting"), verb)
	for _, c := range p.Settings {
		switch {
		case c.Old == "":
			w.f("  + %s = %s\n", c.Path, c.New)
		case c.New == "":
			w.f("  - %s = %s\n", c.Path, c.Old)
		default:
			w.f("  ~ %s = %s -> %s\n", c.Path, c.Old, c.New)
		}
	}
	w.f("\n")
}

func (p *madePlan) print(w *printer, recorded, believed bool, next *policies.Policy) {
	results := p.Policies
	p.printSettings(w)
	w.f("%s answered by %s\n\n", count(results[0].Queries, "query"), p.Source)
	columns := []column{{name: ""}}
	for _, r := range results {
		columns = append(columns, column{name: r.Policy, number: true})
	}
	if len(results) == 2 {
		columns = append(columns, column{name: "change", number: true})
	}
	t := w.table(columns...)
	row := func(name string, format string, value func(*forecast.Forecast) float64) {
		cells := []any{name}
		for _, r := range results {
			cells = append(cells, fmt.Sprintf(format, value(r)))
		}
		if len(results) == 2 {
			if from, to := value(results[0]), value(results[1]); strings.Contains(format, "%%") && from != to {
				cells = append(cells, fmt.Sprintf("%+.1f", to-from))
			} else {
				cells = append(cells, change(from, to))
			}
		}
		t.row(cells...)
	}
	within := func(format string, stdError float64) {
		if len(results) == 1 {
			t.row("  2 sigma of other queries", fmt.Sprintf("± "+format, 2*stdError))
		}
	}
	row("USD per query", "%.6f", func(r *forecast.Forecast) float64 { return r.CostUSD })
	within("%.6f", results[0].CostStdError)
	some := func(name, format string, value func(*forecast.Forecast) float64) {
		if slices.ContainsFunc(results, func(r *forecast.Forecast) bool { return value(r) != 0 }) {
			row(name, format, value)
		}
	}
	some("of it for verdicts", "%.6f", func(r *forecast.Forecast) float64 { return r.VerdictsUSD })
	some("of it for models drawn for the record", "%.6f", func(r *forecast.Forecast) float64 { return r.ExploreUSD })
	some("USD per query beside the baseline", "%.6f", func(r *forecast.Forecast) float64 { return r.ShadowUSD })
	for _, kind := range []struct {
		name  string
		score func(*forecast.Forecast) forecast.Score
	}{
		{"quality, judged", func(r *forecast.Forecast) forecast.Score { return r.Judged }},
		{"quality, guessed", func(r *forecast.Forecast) forecast.Score { return r.Guessed }},
	} {
		if !slices.ContainsFunc(results, func(r *forecast.Forecast) bool { return kind.score(r).Answers > 0 }) {
			continue
		}
		row(kind.name, "%.4f", func(r *forecast.Forecast) float64 { return kind.score(r).Mean })
		within("%.4f", kind.score(results[0]).StdError)
		row("  answers", "%.0f", func(r *forecast.Forecast) float64 { return float64(kind.score(r).Answers) })
	}
	row("models run per query", "%.2f", func(r *forecast.Forecast) float64 { return r.Steps })
	some("failed calls per query", "%.3f", func(r *forecast.Forecast) float64 { return r.FailedCalls })
	some("moves within a session", "%.1f %%", func(r *forecast.Forecast) float64 { return 100 * r.Moves })
	for _, name := range modelsOf(results) {
		use := func(get func(forecast.ModelUse) float64) func(*forecast.Forecast) float64 {
			return func(r *forecast.Forecast) float64 {
				if i := slices.IndexFunc(r.Models, func(m forecast.ModelUse) bool { return m.Model == name }); i >= 0 {
					return 100 * get(r.Models[i])
				}
				return 0
			}
		}
		row(name+" run for", "%.1f %%", use(func(m forecast.ModelUse) float64 { return m.Ran }))
		row(name+" answers", "%.1f %%", use(func(m forecast.ModelUse) float64 { return m.Chosen }))
	}
	for _, name := range matchesOf(results) {
		row("match "+name, "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Matches[name]) })
	}
	row("stopped by a cap", "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Capped) })
	row("no answer because of a cap", "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Refused) })
	row("no model could be asked", "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Infeasible) })
	some("no answer because calls failed", "%.0f", func(r *forecast.Forecast) float64 { return float64(r.Unanswered) })
	t.print()
	if believed {
		w.f("%s", assumed(next))
	}
	for _, r := range results {
		if len(r.Unpriced) > 0 {
			w.f("%s: what %s asks for verdicts is not in these costs, since nothing recorded says it; max_usd bounds each\n", r.Policy, strings.Join(r.Unpriced, ", "))
		}
		if r.Unknown > 0 {
			w.f("%s: %s of models without recorded outcomes, taken from beliefs: the ± knows nothing of how far those are off\n", r.Policy, count(r.Unknown, "call"))
		}
	}
	if next.Mode != string(middleware.Enforce) {
		w.f("%s has the mode %s: every query goes to %s. --set mode=enforce shows what its strategy would do\n", next.Path, next.Mode, next.Baseline)
	}
	if recorded && next.Fit == nil && len(next.Verifiers) == 0 {
		w.f("%s has neither a profile nor a verifier: nothing tells it good answers from bad ones\n", next.Path)
	}
	if b := next.Budget.ExpectedUSD; b > 0 {
		r := results[len(results)-1]
		verdict := "within"
		if r.CostUSD > b {
			verdict = "ABOVE"
		}
		w.f("%s: %.6f USD per query is %s the budget of %.6f\n", r.Policy, r.CostUSD, verdict, b)
	}
}

func change(from, to float64) string {
	switch from {
	case to:
		return ""
	case 0:
		return fmt.Sprintf("%+.4g", to)
	}
	return fmt.Sprintf("%+.1f %%", 100*(to-from)/from)
}

// modelsOf returns the models of all forecasts that any of them runs, in order.
func modelsOf(results []*forecast.Forecast) []string {
	var names []string
	for _, r := range results {
		for _, m := range r.Models {
			if m.Ran > 0 && !slices.Contains(names, m.Model) {
				names = append(names, m.Model)
			}
		}
	}
	return names
}

func matchesOf(results []*forecast.Forecast) []string {
	var names []string
	for _, r := range results {
		for name := range r.Matches {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
