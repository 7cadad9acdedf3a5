package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/redact"
)

// madePlan is the result of a plan: the settings that differ, and a forecast for each policy, the current one first.
type madePlan struct {
	Changed  bool                 `json:"changed"`
	Settings []policies.Change    `json:"settings"`
	Source   string               `json:"source"`
	Policies []*forecast.Forecast `json:"policies"`
	// assumed is the mean assumed length of answers in tokens; 0 where lengths are recorded.
	assumed float64
	// unread names the judges of the outcomes that have no verifier.
	unread []string
}

func newPlan(source string, all []*policies.Policy, results []*forecast.Forecast) *madePlan {
	p := &madePlan{Source: redact.Addresses(source), Settings: []policies.Change{}, Policies: results}
	if len(all) == 2 {
		p.Settings = append(p.Settings, policies.Diff(all[0], all[1])...)
		was, is := *results[0], *results[1]
		was.Policy = is.Policy
		p.Changed = len(p.Settings) > 0 || !reflect.DeepEqual(was, is)
	}
	return p
}

// printSettings prints the differences as terraform does: + is added, - removed, ~ changed.
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

// planRow is a row of a plan's table. An optional row is omitted if it is 0 for every policy. interval, if not nil,
// returns the interval for the mean of as many further queries.
type planRow struct {
	name, format string
	optional     bool
	value        func(*forecast.Forecast) float64
	interval     func(*forecast.Forecast) (low, high float64)
}

// intervalOf returns the interval of two standard errors for the mean of as many further queries.
func intervalOf(mean, stdError float64) (low, high float64) {
	return mean - 2*math.Sqrt2*stdError, mean + 2*math.Sqrt2*stdError
}

func (p *madePlan) rows() []planRow {
	list := []planRow{
		{"USD per query", "%.6f", false, func(r *forecast.Forecast) float64 { return r.CostUSD }, func(r *forecast.Forecast) (low, high float64) {
			return forecast.RepeatInterval(r.CostUSD, r.CostStdError)
		}},
		{"of it for verdicts", "%.6f", true, func(r *forecast.Forecast) float64 { return r.VerdictsUSD }, nil},
		{"of it for exploration", "%.6f", true, func(r *forecast.Forecast) float64 { return r.ExploreUSD }, nil},
		{"USD per query for shadow runs", "%.6f", true, func(r *forecast.Forecast) float64 { return r.ShadowUSD }, nil},
	}
	list = append(list, p.alwaysRows()...)
	if p.assumed > 0 {
		list = append(list,
			planRow{"tokens of a prompt, on average", "%.0f", false, func(r *forecast.Forecast) float64 { return r.InputTokens }, nil},
			planRow{"tokens of an answer, assumed", "%.0f", false, func(*forecast.Forecast) float64 { return p.assumed }, nil})
	}
	for i, name := range []string{"quality, judged", "quality, estimated"} {
		score := func(r *forecast.Forecast) forecast.Score { return []forecast.Score{r.Judged, r.Guessed}[i] }
		if slices.ContainsFunc(p.Policies, func(r *forecast.Forecast) bool { return score(r).Answers > 0 }) {
			list = append(list,
				planRow{name, "%.4f", false, func(r *forecast.Forecast) float64 { return score(r).Mean }, func(r *forecast.Forecast) (low, high float64) {
					low, high = intervalOf(score(r).Mean, score(r).StdError)
					return max(low, 0), min(high, 1)
				}},
				planRow{"  answers", "%.0f", false, func(r *forecast.Forecast) float64 { return float64(score(r).Answers) }, nil})
		}
	}
	list = append(list,
		planRow{"models run per query", "%.2f", false, func(r *forecast.Forecast) float64 { return r.Steps }, nil},
		planRow{"failed calls per query", "%.3f", true, func(r *forecast.Forecast) float64 { return r.FailedCalls }, nil},
		planRow{"model switches in a session", "%.1f %%", true, func(r *forecast.Forecast) float64 { return 100 * r.Moves }, nil})
	for _, name := range modelsOf(p.Policies) {
		list = append(list, modelRows(name, p.Policies[0].Compared > 0 || p.Policies[0].Unknown > 0)...)
	}
	for _, name := range matchesOf(p.Policies) {
		list = append(list, planRow{"match " + name, "%.0f", false, func(r *forecast.Forecast) float64 { return float64(r.Matches[name]) }, nil})
	}
	return append(list,
		planRow{"stopped by a cap", "%.0f", false, func(r *forecast.Forecast) float64 { return float64(r.Capped) }, nil},
		planRow{"no answer because of a cap", "%.0f", false, func(r *forecast.Forecast) float64 { return float64(r.Refused) }, nil},
		planRow{"no model could be asked", "%.0f", false, func(r *forecast.Forecast) float64 { return float64(r.Infeasible) }, nil},
		planRow{"no answer because calls failed", "%.0f", true, func(r *forecast.Forecast) float64 { return float64(r.Unanswered) }, nil})
}

func (p *madePlan) alwaysRows() []planRow {
	last := p.Policies[len(p.Policies)-1].Always
	if last == nil {
		return nil
	}
	of := func(get func(*forecast.Always) float64) func(*forecast.Forecast) float64 {
		return func(r *forecast.Forecast) float64 { return get(cmp.Or(r.Always, &forecast.Always{})) }
	}
	return []planRow{
		{"always " + last.Model, "%.6f", false, of(func(a *forecast.Always) float64 { return a.CostUSD }), nil},
		{"share of that", "%.1f %%", false, of(func(a *forecast.Always) float64 { return 100 * a.Share }), func(r *forecast.Forecast) (low, high float64) {
			return forecast.RepeatInterval(100*r.Always.Share, 100*r.Always.ShareStdError)
		}},
		{"its quality, judged", "%.4f", true, of(func(a *forecast.Always) float64 { return a.Quality }), nil},
	}
}

func modelRows(name string, withError bool) []planRow {
	use := func(get func(forecast.ModelUse) float64) func(*forecast.Forecast) float64 {
		return func(r *forecast.Forecast) float64 {
			if i := slices.IndexFunc(r.Models, func(m forecast.ModelUse) bool { return m.Model == name }); i >= 0 {
				return 100 * get(r.Models[i])
			}
			return 0
		}
	}
	ran := planRow{name + " run for", "%.1f %%", false, use(func(m forecast.ModelUse) float64 { return m.Ran }), nil}
	if withError {
		stdError := use(func(m forecast.ModelUse) float64 { return m.RanStdError })
		ran.interval = func(r *forecast.Forecast) (low, high float64) {
			low, high = intervalOf(ran.value(r), stdError(r))
			return max(low, 0), min(high, 100)
		}
	}
	return []planRow{ran, {name + " answers", "%.1f %%", false, use(func(m forecast.ModelUse) float64 { return m.Chosen }), nil}}
}

func (p *madePlan) print(w *printer, recorded, believed bool, next *policies.Policy) {
	p.printSettings(w)
	if believed {
		for i := range next.Models {
			p.assumed += float64(next.Models[i].ExpectedOutputTokens) / float64(len(next.Models))
		}
	}
	w.f("%s answered by %s\n\n", count(p.Policies[0].Queries, "query"), p.Source)
	columns := []column{{name: ""}}
	for _, r := range p.Policies {
		columns = append(columns, column{name: r.Policy, number: true})
	}
	isPair := len(p.Policies) == 2
	if isPair {
		columns = append(columns, column{name: "change", number: true})
	}
	t := w.table(columns...)
	for _, row := range p.rows() {
		p.addRow(t, &row)
	}
	t.print()
	if believed {
		w.f("%s", assumedLengths(next))
		if p.Policies[0].Always != nil {
			w.f("Lengths of prompts: --query FILE (input_tokens). The share of always asking %s depends little on lengths.\n", p.Policies[0].Always.Model)
		}
	}
	if !isPair {
		w.f("2 sigma: the same figure over as many new queries lies in this range in 95 of 100 cases; the queries of a run count as one.\n")
		if next.Fit != nil && next.Budget.HoldOver > 0 {
			w.f("Where the profile paces spending (hold_over), the range of the quality is too narrow, and that of the cost too wide.\n")
		}
	}
	p.printNotes(w, next)
	if recorded && next.Fit == nil && len(next.Verifiers) == 0 {
		w.f("%s has neither a profile nor a verifier, so nothing judges its answers\n", next.Path)
	}
	if b, r := next.Budget.ExpectedUSD, p.Policies[len(p.Policies)-1]; b > 0 {
		verdict := "within"
		if r.CostUSD > b {
			verdict = "ABOVE"
		}
		w.f("%s: %.6f USD per query is %s the budget of %.6f\n", r.Policy, r.CostUSD, verdict, b)
	}
}

// addRow adds a row to a plan's table and, with a single policy, a row with its interval.
func (p *madePlan) addRow(t *grid, row *planRow) {
	if row.optional && !slices.ContainsFunc(p.Policies, func(r *forecast.Forecast) bool { return row.value(r) != 0 }) {
		return
	}
	cells := []any{row.name}
	for _, r := range p.Policies {
		cells = append(cells, fmt.Sprintf(row.format, row.value(r)))
	}
	if len(p.Policies) == 2 {
		cells = append(cells, change(row.value(p.Policies[0]), row.value(p.Policies[1]), strings.Contains(row.format, "%%")))
	}
	t.row(cells...)
	if len(p.Policies) == 2 || row.interval == nil {
		return
	}
	// Without variance there is no estimate of the interval.
	if low, high := row.interval(p.Policies[0]); low != high {
		t.row("  2 sigma over new queries", fmt.Sprintf(strings.TrimSuffix(row.format, " %%")+" to "+row.format, low, high))
	}
}

func (p *madePlan) printNotes(w *printer, next *policies.Policy) {
	for _, judge := range p.unread {
		w.f("%s: THE VERDICTS OF %s ARE NOT READ (verdict_%s): the policy has no verifier of that name\n", next.Path, judge, judge)
	}
	compares := slices.ContainsFunc(next.Estimators, func(e policies.Estimator) bool { return e.BuiltIn() })
	for _, r := range p.Policies {
		if len(r.Unpriced) > 0 {
			w.f("%s: these costs do not include the verdicts of %s, whose costs are not recorded; max_usd limits each\n", r.Policy, strings.Join(r.Unpriced, ", "))
		}
		if r.Unrecorded > 0 {
			w.f("%s: the records lack %s that the policy asks for on recorded answers; each counts as inconclusive\n", r.Policy, count(r.Unrecorded, "verdict"))
		}
		w.warnUnchecked(r.Policy, r.Unchecked)
		if r.Assumed > 0 {
			w.f("%s: THE COSTS OF %s ARE ASSUMED: the records have neither a cost nor lengths of these answers; recorded lengths of others and expected_output_tokens are used\n", r.Policy, strings.ToUpper(count(r.Assumed, "call")))
		}
		if r.Unknown == 0 {
			continue
		}
		note, ofError := " of models without recorded outcomes use the policy's estimates", "; 2 sigma does not include their errors"
		if compares {
			note = fmt.Sprintf(" of models that were not asked, simulated from how answers agree on %s with several recorded answers, and from the defaults", count(r.Compared, "query"))
			ofError = "; 2 sigma includes the uncertainty of that"
		}
		if len(p.Policies) > 1 {
			ofError = "" // not printed in a comparison
		}
		w.f("%s: %s%s%s\n", r.Policy, count(r.Unknown, "call"), note, ofError)
	}
	if next.Mode != string(middleware.Enforce) {
		w.f("%s has the mode %s: every query goes to %s. --set mode=enforce shows what its strategy would do\n", next.Path, next.Mode, next.Baseline)
	}
}

func (p *printer) warnUnchecked(what string, judges []string) {
	if len(judges) > 0 {
		p.f("%s: THE ERROR RATES OF %s HAVE NOT BEEN CHECKED: they are those in the policy, or the defaults for a model that judges; "+
			"fit learns them from outcomes that have a column verdict_%s and the truth\n", what, strings.Join(judges, ", "), judges[0])
	}
}

// change formats a difference: in per cent, or in points if the values are shares.
func change(from, to float64, isShare bool) string {
	switch {
	case from == to:
		return ""
	case isShare:
		return fmt.Sprintf("%+.1f", to-from)
	case from == 0:
		return fmt.Sprintf("%+.4g", to)
	}
	return fmt.Sprintf("%+.1f %%", 100*(to-from)/from)
}

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
	names := map[string]int{}
	for _, r := range results {
		maps.Copy(names, r.Matches)
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}
