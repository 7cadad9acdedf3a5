package cli

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// ratesInUse returns the error rates of the policy's judges that its current profile has learned from known truths;
// nil without such a profile.
func ratesInUse(p *policies.Policy, folder string) map[string]cascade.Rates {
	if p.Fit == nil {
		return nil
	}
	path := p.Fit.Profile
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	profile, err := fit.Load(path, nil)
	if err != nil {
		return nil
	}
	learned := learnedRates(profile)
	for i := range p.Verifiers {
		if v := &p.Verifiers[i]; v.StatedRates() != nil {
			delete(learned, v.Name)
		}
	}
	return learned
}

// learnedRates returns the error rates of a profile, or nil if they were learned from verdicts alone.
func learnedRates(p *fit.Profile) map[string]cascade.Rates {
	if p.Data.Inferred > 0 && p.Data.Assumed == nil {
		return nil
	}
	return p.Estimator.Judges
}

// keepRates copies learned rates into a profile that was fitted to verdicts with these rates.
func keepRates(p *fit.Profile, learned map[string]cascade.Rates) {
	for judge := range p.Data.Assumed {
		if rates, known := learned[judge]; known {
			if p.Estimator.Judges == nil {
				p.Estimator.Judges = map[string]cascade.Rates{}
			}
			p.Estimator.Judges[judge] = rates
		}
	}
}

// judgesOf returns the table with the verdicts of the policy's verifiers only, and sets their stated error rates in
// the options. If none of them has verdicts beside the truth, the qualities are treated as verdicts: as final ones
// or, if all judges err, as evidence at stated or learned rates.
func judgesOf(p *policies.Policy, t *outcome.Table, learned map[string]cascade.Rates, o *fit.Options) *outcome.Table {
	own := *t
	own.Verdicts = nil
	own.VerdictsUSD = unattributedPrices(p, t)
	o.Estimate.Judges = map[string]cascade.Rates{}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		verdicts, recorded := t.Verdicts[v.Name]
		if recorded && v.As == "bought" && t.Signals[v.Name] == nil && t.Signals[v.Name+sdk.SignalCostUSD] != nil {
			own.Signals = maps.Clone(own.Signals)
			own.Signals[v.Name] = verdicts
		}
		if !recorded || !v.Judges() {
			continue
		}
		if own.Verdicts == nil {
			own.Verdicts = map[string][][]float64{}
		}
		own.Verdicts[v.Name] = verdictsOf(v, t.Models, verdicts)
		o.Estimate.JudgeOrder = append(o.Estimate.JudgeOrder, v.Name)
		if rates := v.StatedRates(); rates != nil {
			o.Estimate.Judges[v.Name] = *rates
		}
	}
	judges := slices.DeleteFunc(slices.Clone(p.Verifiers), func(v policies.Verifier) bool { return !v.Judges() })
	if own.Verdicts != nil || own.Labels != "" || len(judges) == 0 {
		own.Verified = own.Verified && own.Verdicts == nil
		return &own
	}
	treatAsVerdicts(judges, learned, o)
	own.Verified = own.Verified || own.Propensity != nil || !o.VerdictsErr // steps in use were judged
	return &own
}

// verdictsOf returns the verdicts that the verifier will have in use: those on the models that its block lists.
func verdictsOf(v *policies.Verifier, models []string, recorded [][]float64) [][]float64 {
	if v.Models == nil {
		return recorded
	}
	own := make([][]float64, len(recorded))
	for q, row := range recorded {
		own[q] = slices.Clone(row)
		for m := range row {
			if !slices.Contains(v.Models, models[m]) {
				own[q][m] = math.NaN()
			}
		}
	}
	return own
}

// treatAsVerdicts treats the qualities as the judges' verdicts, with their error rates.
func treatAsVerdicts(judges []policies.Verifier, learned map[string]cascade.Rates, o *fit.Options) {
	for i := range judges {
		o.Estimate.JudgeOrder = append(o.Estimate.JudgeOrder, judges[i].Name)
		rates, known := learned[judges[i].Name]
		if stated := judges[i].StatedRates(); stated != nil {
			rates, known = *stated, true
		}
		if known {
			o.Estimate.Judges[judges[i].Name] = rates
		}
	}
	o.VerdictsErr = !slices.ContainsFunc(judges, func(v policies.Verifier) bool {
		rates := v.Rates(learned)
		return rates == nil || *rates == cascade.Rates{}
	})
}

// unattributedPrices returns the total costs of verdicts, or nil if they are known for each verifier.
func unattributedPrices(p *policies.Policy, t *outcome.Table) [][]float64 {
	priced := 0
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		switch isPriced := t.Signals[v.Name+sdk.SignalCostUSD] != nil; {
		case isPriced && (v.Judges() || v.As == "bought"):
			priced++
		case v.Judges() && !isPriced:
			return t.VerdictsUSD
		}
	}
	if priced > 0 {
		return nil
	}
	return t.VerdictsUSD
}

// judgedCounts counts the wrong and right answers that a judge has verdicts on.
type judgedCounts struct{ wrong, right int }

// minJudged is the weight of the prior rates, in wrong or right answers.
const minJudged = 10

// countJudged counts judged answers for every judge of a table without known rates, including judges whose verdicts
// are signals.
func countJudged(t *outcome.Table, known map[string]cascade.Rates) map[string]judgedCounts {
	counts := map[string]judgedCounts{}
	for _, columns := range []map[string][][]float64{t.Signals, t.Verdicts} {
		for judge, verdicts := range columns {
			if _, isKnown := known[judge]; isKnown {
				continue
			}
			var c judgedCounts
			for q, row := range verdicts {
				for m, v := range row {
					switch quality := outcome.At(t.Quality, q, m); {
					case math.IsNaN(v) || math.IsNaN(quality):
					case quality < 0.5:
						c.wrong++
					default:
						c.right++
					}
				}
			}
			counts[judge] = c
		}
	}
	return counts
}

// String describes how many answers the rates are learned from, and whether the prior dominates them.
func (c judgedCounts) String() string {
	text := fmt.Sprintf("learned from %s and %d right", count(c.wrong, "wrong answer"), c.right)
	switch {
	case c.wrong < minJudged && c.right < minJudged:
		return text + ", TOO FEW: MOSTLY THE DEFAULT RATES"
	case c.wrong < minJudged:
		return text + fmt.Sprintf(", TOO FEW: the first is MOSTLY THE DEFAULT %g %%", 100*cascade.PriorFalsePass)
	case c.right < minJudged:
		return text + fmt.Sprintf(", TOO FEW: the second is MOSTLY THE DEFAULT %g %%", 100*cascade.PriorFalseReject)
	}
	return text
}
