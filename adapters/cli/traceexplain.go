package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/sdk"
)

func (p *printer) head(t *sdk.Trace) {
	p.f("trace %s, %s\n", t.ID, t.Start.Format("2006-01-02 15:04:05 MST"))
	for _, known := range []struct{ name, value string }{
		{"run", t.Run}, {"session", t.Session}, {"tenant", t.Tenant}, {"group", t.Group}, {"query", t.QueryID},
		{"policy", t.Policy}, {"profile", t.Profile}, {"mode", t.Mode},
	} {
		if known.value != "" {
			p.f("%s %s\n", known.name, known.value)
		}
	}
	if t.Prompt != "" {
		p.f("prompt: %s\n", p.cut(oneLine(t.Prompt), len("prompt: ")))
	}
	p.infeasible(t)
	switch {
	case !sdk.IsStep(t.Mode):
		p.f("verdict on the run: %s\n", verdictSummary(t.Verdict))
		return
	case t.Error != "":
		p.f("no answer: %s\n", strings.ReplaceAll(t.Error, "\n", "; "))
	default:
		p.f("answer of %s, stopped because %s\n", t.Chosen, say.Because(t.Stop))
	}
	judged, judging := "", time.Duration(0)
	for i := range t.Calls {
		if v := t.Calls[i].Verdict; v != nil {
			judging += v.Duration
		}
	}
	if judging > 0 {
		judged = short(judging) + " in verifiers and "
	}
	paid := ""
	if spent := t.VerdictsUSD(); spent > 0 {
		paid = " (" + usd(spent) + " of it for verdicts)"
	}
	p.f("%s USD%s, %s, of which %s%s in stepfall\n", usd(t.CostUSD), paid, short(t.Duration), judged, short(t.Overhead))
}

func (p *printer) explain(t *sdk.Trace) {
	p.head(t)
	if len(t.Decisions) > 0 {
		p.f("%s", beliefsLegend)
	}
	for n, d := range t.Decisions {
		p.decision(n+1, t, &d)
		if d.Look != "" {
			p.f("%s\n", decisionBasis(t, n))
		}
		p.beliefs(t, &d)
		p.alternatives(d.Alternatives)
	}
}

// beliefsLegend explains the columns of beliefs.
const beliefsLegend = `
±: standard deviation of the quality; for a model that has not run, of what judging its answer would change (0: nothing judges it).
USD: for a model that has not run, its expected cost; for one that has, the cost of its calls in this step.
`

func decisionsOf(t *sdk.Trace) any {
	type decision struct {
		*sdk.Decision

		Why string `json:"why"`
	}
	decisions := make([]decision, len(t.Decisions))
	for i := range t.Decisions {
		decisions[i] = decision{&t.Decisions[i], decisionBasis(t, i)}
	}
	return struct {
		ID        string         `json:"id"`
		Strategy  string         `json:"strategy"`
		Decisions []decision     `json:"decisions"`
		Chosen    string         `json:"chosen,omitempty"`
		Stop      sdk.StopReason `json:"stop"`
		Error     string         `json:"error,omitempty"`
	}{t.ID, t.Strategy, decisions, t.Chosen, t.Stop, t.Error}
}

func (p *printer) decision(n int, t *sdk.Trace, d *sdk.Decision) {
	p.f("\ndecision %d by %s: ", n, t.Strategy)
	switch {
	case d.Look != "":
		p.f("get a verdict or signal on the answer of %s\n", d.Look)
	case d.Run != "" && d.Answer != "":
		p.f("run %s; the best answer so far is %s's\n", d.Run, d.Answer)
	case d.Run != "":
		p.f("run %s\n", d.Run)
	case d.Answer != "":
		p.f("stop with the answer of %s\n", d.Answer)
	default:
		p.f("stop without an answer\n")
	}
	p.f("a dollar is worth %.6g of quality (lambda)\n", d.Lambda)
	if d.Approximate {
		p.f("the search reached its node limit: this is the best decision found, not proved optimal\n")
	}
	if d.Note != "" {
		p.f("note: %s\n", d.Note)
	}
}

func (p *printer) alternatives(list []sdk.Alternative) {
	if len(list) == 0 {
		return
	}
	tab := newTable(p.w, column{name: "alternative"}, column{name: "E[max]", number: true}, column{name: "USD", number: true},
		column{name: "tau", number: true}, column{name: "reservation", number: true})
	for _, a := range list {
		models := cmp.Or(strings.Join(a.Models, " + "), "stop")
		tab.row(models, number(a.ExpectedMax), usd(a.CostUSD), number(a.Tau), number(a.Reservation))
	}
	tab.print()
}

// number formats a value, with "" for 0 and for infinite placeholders.
func number(x float64) string {
	if x == 0 || x < -1e300 || x > 1e300 {
		return ""
	}
	return fmt.Sprintf("%.4f", x)
}
