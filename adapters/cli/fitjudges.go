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

// ratesInUse returns how often the policy's judges err as the profile that it names has learned it beside the
// truth; nothing where there is no such profile yet.
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

// learnedRates returns the rates of a profile that were learned beside the truth, which verdicts alone do not
// tell better.
func learnedRates(p *fit.Profile) map[string]cascade.Rates {
	if p.Data.Inferred > 0 && p.Data.Assumed == nil {
		return nil
	}
	return p.Estimator.Judges
}

// keepRates hands on to a profile that was fitted to verdicts alone the rates at which it took them.
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

// judgesOf returns the table with the verdicts of the policy's verifiers, and tells the fit
// which of their error rates the policy says. Where none of them has verdicts beside the
// truth, the qualities are taken for theirs: at their word, or as evidence where all of them err, at the rates
// that the policy says or the profile in use has learned.
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
		own.Verdicts[v.Name] = verdicts
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
	takeForVerdicts(judges, learned, o)
	own.Verified = own.Verified || own.Propensity != nil || !o.VerdictsErr // what was met in use was judged
	return &own
}

// takeForVerdicts tells the fit that the qualities are the judges' verdicts, and how often these err.
func takeForVerdicts(judges []policies.Verifier, learned map[string]cascade.Rates, o *fit.Options) {
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

// unattributedPrices returns what all verdicts on the answers cost; nil where that is known verifier by verifier.
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

// judgedCounts are how many wrong and right answers have a judge's verdict beside the truth.
type judgedCounts struct{ wrong, right int }

// fewJudged is how many wrong, or right, answers the usual rates count for in learned ones.
const fewJudged = 10

// countJudged counts them for every judge of a table whose rates are not known, those whose verdicts are signals
// among them.
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

// String says of how many answers rates were learned, and whether they are mostly the usual ones.
func (c judgedCounts) String() string {
	text := fmt.Sprintf("learned of %s and %d right", count(c.wrong, "wrong answer"), c.right)
	switch {
	case c.wrong < fewJudged && c.right < fewJudged:
		return text + ", MOSTLY THE USUAL RATES FOR SO FEW"
	case c.wrong < fewJudged:
		return text + fmt.Sprintf(", the first MOSTLY THE USUAL %g %% FOR SO FEW", 100*cascade.PriorFalsePass)
	case c.right < fewJudged:
		return text + fmt.Sprintf(", the second MOSTLY THE USUAL %g %% FOR SO FEW", 100*cascade.PriorFalseReject)
	}
	return text
}
