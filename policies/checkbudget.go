package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

type moneyCap struct {
	name string
	usd  float64
	at   origin
}

func (l *loader) checkBudget(p *Policy) {
	b := p.Budget
	usual, worst, ok := cheapestAnswers(p)
	if !ok {
		return
	}
	// A profile has measured costs, compared with which expected_output_tokens is only a guess.
	if p.Fit == nil && b.ExpectedUSD > 0 && b.ExpectedUSD < usual.usd {
		l.complain(l.originAt("budget", "expected_usd_per_query"), "the budget is below the cheapest model",
			fmt.Sprintf("A usual answer of %q costs %s US dollars before its prompt is counted; the budget is %s.", usual.model, threeDigits(usual.usd), number(b.ExpectedUSD)),
			"Raise the budget, add a cheaper model, or set expected_output_tokens of the model to your usual length.")
	}
	caps := []moneyCap{
		{"step_usd", b.StepUSD, l.originAt("budget", "step_usd")}, {"run_usd", b.RunUSD, l.originAt("budget", "run_usd")},
		{"tenant_usd", b.TenantUSD, l.originAt("budget", "tenant_usd")},
	}
	caps = slices.DeleteFunc(caps, func(c moneyCap) bool { return c.usd == 0 })
	l.checkCaps(caps, worst.model, worst.usd)
	for _, t := range b.Tenants {
		caps = append(caps, moneyCap{fmt.Sprintf("the cap of tenant %q", t.Name), t.USD, l.originAt("budget", "tenant", t.Name, "usd")})
	}
	l.warnExcludedModels(p, slices.DeleteFunc(slices.Clone(caps), func(c moneyCap) bool { return c.usd < worst.usd }))
	l.checkLongestAnswers(p, len(caps) > 0)
	if b.TenantPeriod > 0 && b.TenantUSD == 0 && len(b.Tenants) == 0 {
		l.warn(l.originAt("budget", "tenant_period"), "tenant_period has no effect", "No tenant has a cap.", "Add tenant_usd = ... or a tenant block, or remove the line.")
	}
}

// checkCaps checks that each cap leaves room for the cheapest call, and can be reached before the next cap.
func (l *loader) checkCaps(caps []moneyCap, cheapest string, usd float64) {
	for i, c := range caps {
		if c.usd < usd {
			l.complain(c.at, fmt.Sprintf("%s leaves no room for a single call", c.name),
				fmt.Sprintf("The worst case of a call is reserved before it: the longest answer of %q, the cheapest model, costs %s US dollars.", cheapest, threeDigits(usd)),
				"Raise the cap, or lower max_output_tokens of a model.")
		}
		for _, inner := range caps[:i] {
			if inner.usd > c.usd {
				l.warn(inner.at, fmt.Sprintf("%s can never be reached", inner.name), fmt.Sprintf("%s is lower: %s.", c.name, number(c.usd)), fmt.Sprintf("Lower %s, raise %s, or remove one of the two.", inner.name, c.name))
			}
		}
	}
}

func (l *loader) checkLongestAnswers(p *Policy, isCapped bool) {
	if !isCapped && p.Mode != "shadow" {
		return
	}
	for _, m := range p.Models {
		if m.MaxOutputTokens == 0 && !m.Price.Free && m.Provider != "" {
			l.complain(l.blockOrigin([]string{"model", m.Name}), fmt.Sprintf("model %q has no output limit", m.Name),
				"Caps, including the shadow's, reserve the worst case of each call, which is unknown without it.", "Add max_output_tokens = ... to the model; calls then request no more tokens.")
		}
	}
}

// warnExcludedModels warns about models whose longest answer exceeds the lowest cap: they are called only if a
// request limits its answer.
func (l *loader) warnExcludedModels(p *Policy, caps []moneyCap) {
	if len(caps) == 0 {
		return
	}
	lowest := slices.MinFunc(caps, func(a, b moneyCap) int { return cmp.Compare(a.usd, b.usd) })
	for i := range p.Models {
		m := &p.Models[i]
		if usd := longestAnswerUSD(m); usd > lowest.usd {
			l.warn(lowest.at, fmt.Sprintf("%s excludes model %q", lowest.name, m.Name),
				fmt.Sprintf("The worst case of a call is reserved before it: the longest answer of %q, %d tokens, costs %s US dollars. It is asked only if a request sets a lower max_tokens.", m.Name, m.MaxOutputTokens, threeDigits(usd)),
				"Raise the cap, or set max_output_tokens of the model to what its answers need.")
		}
	}
}

// longestAnswerUSD returns the cost of m's longest answer; 0 if its length is unknown.
func longestAnswerUSD(m *Model) float64 {
	price := m.Price.SDK()
	return float64(m.MaxOutputTokens) * max(price.Output, price.Reasoning) / 1e6
}

type answerPrice struct {
	model string
	usd   float64
}

// cheapestAnswers returns the lowest cost of an answer of expected length, and of an answer of maximum length. ok is
// false if a price is missing, which is reported elsewhere.
func cheapestAnswers(p *Policy) (usual, worst answerPrice, ok bool) {
	for i := range p.Models {
		m := &p.Models[i]
		price := m.Price.SDK()
		if m.Price.Free {
			return answerPrice{model: m.Name}, answerPrice{model: m.Name}, true
		}
		if price.Output == 0 {
			return usual, worst, false
		}
		if usd := float64(m.ExpectedOutputTokens) * price.Output / 1e6; i == 0 || usd < usual.usd {
			usual = answerPrice{m.Name, usd}
		}
		if usd := longestAnswerUSD(m); i == 0 || usd < worst.usd {
			worst = answerPrice{m.Name, usd}
		}
	}
	return usual, worst, len(p.Models) > 0
}

// threeDigits returns usd to three significant digits.
func threeDigits(usd float64) string {
	digits, _ := strconv.ParseFloat(strconv.FormatFloat(usd, 'g', 3, 64), 64) // cannot fail for such a text
	return number(digits)
}
