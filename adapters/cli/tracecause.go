package cli

import (
	"cmp"
	"fmt"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/sdk"
)

func (p *printer) causes(t *sdk.Trace) {
	next := 0 // the first decision without a call so far
	for i := range t.Calls {
		var why string
		if k := nextDecisionFor(t, t.Calls[i].Model, next); k >= 0 && !isRetry(t, i) {
			why, next = decisionBasis(t, k), k+1
		} else {
			why = callReason(t, i)
		}
		p.f("%d. %s: %s\n", i+1, t.Calls[i].Model, why)
	}
	stop := t.Error
	if n := len(t.Decisions) - 1; n >= next && t.Decisions[n].Run == "" {
		stop = decisionBasis(t, n)
	} else if stop == "" {
		stop = say.Because(t.Stop)
	}
	p.f("stop: %s\n", oneLine(stop))
}

// nextDecisionFor returns the next decision to run a model, or -1.
func nextDecisionFor(t *sdk.Trace, model string, from int) int {
	for k := from; k < len(t.Decisions); k++ {
		if t.Decisions[k].Run == model {
			return k
		}
	}
	return -1
}

// isRetry reports whether a call repeats the previous one, which failed.
func isRetry(t *sdk.Trace, i int) bool {
	return i > 0 && t.Calls[i-1].Model == t.Calls[i].Model && t.Calls[i-1].Error != ""
}

func decisionBasis(t *sdk.Trace, k int) string {
	d := &t.Decisions[k]
	if b := d.Belief(d.Look); b != nil && b.Look != nil {
		return fmt.Sprintf("%s is bought for the answer of %s, for %s USD: %s", b.Look.Signal, d.Look, usd(b.Look.CostUSD), lookEffect(b))
	}
	why, err := view.ExplainDecision(t, k)
	if err != nil {
		why = fmt.Sprintf("chosen by %s", t.Strategy)
		if d.Run == "" {
			why = fmt.Sprintf("%s stopped: %s", t.Strategy, say.Because(t.Stop))
		}
		if b := d.Belief(cmp.Or(d.Run, d.Answer)); b != nil {
			why += fmt.Sprintf(" (quality %.2f, %s USD)", b.Quality.Mean, usd(b.CostUSD))
		}
	}
	if d.Note != "" {
		why += " Note: " + d.Note
	}
	return why
}

// callReason explains a call that the strategy did not choose.
func callReason(t *sdk.Trace, i int) string {
	c := &t.Calls[i]
	switch {
	case isRetry(t, i):
		if before := t.Calls[i-1].Deployment; before != c.Deployment {
			return fmt.Sprintf("the next deployment, since %s failed", cmp.Or(before, "the one before"))
		}
		return "retried, since the previous attempt failed"
	case c.Propensity > 0 && c.Propensity < 1:
		return fmt.Sprintf("drawn at random for the record, with probability %.3g", c.Propensity)
	case i > 0 && t.Calls[i-1].Verdict != nil && t.Calls[i-1].Verdict.Outcome == sdk.Failed:
		return "routed again, since the previous answer was rejected"
	}
	return "asked in addition to the strategy's choice"
}

// lookEffect describes how a look can change the estimate of an answer.
func lookEffect(b *sdk.Belief) string {
	if b.Look.Judge == nil {
		return fmt.Sprintf("it is expected to change the estimate %.2f by %.2f", b.Quality.Mean, b.Look.StdDev)
	}
	pass, passed, failed := b.Look.Judge.Look(min(max(b.Quality.Mean, 0), 1))
	return fmt.Sprintf("it passes with probability %.2f; the estimate %.2f becomes %.2f after a pass, otherwise %.2f", pass, b.Quality.Mean, passed, failed)
}
