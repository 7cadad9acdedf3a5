package fit

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/stepfall/stepfall/sdk"
)

// Assessment says whether the estimates of a profile still hold for the queries that
// it decides about: what traces say was believed just before each model ran, beside
// what came. A model is asked or not by what was believed and shown before, so that the
// outcomes of those that were asked are not chosen by what they are.
type Assessment struct {
	// Traces are those with a judged call, Calls how many calls those have.
	Traces int `json:"traces"`
	Calls  int `json:"calls"`
	// Quality compares estimates with verdicts, those of judges that err with the chance of a pass. Its Reference is the Brier score that
	// they would have if outcomes came as often as was estimated.
	Quality Reliability `json:"quality"`
	// Drifts are the ways in which they hold no longer, the surest first.
	Drifts []Drift `json:"drifts"`
	// Tests is how many ways were looked at.
	Tests int `json:"tests"`
}

// Drift is a mean that is further from what was estimated than it was in the fit.
type Drift struct {
	// Of is what: the quality or the cost of a model, where the strategy asked it or where
	// chance did; the cost of the verdicts of a judge; the quality in a group; or the share of
	// queries of groups that the fit did not know.
	Of    string `json:"of"`
	Count int    `json:"count"`
	// Expected is what was estimated, corrected by how far estimates were off in the fit.
	Expected float64 `json:"expected"`
	Observed float64 `json:"observed"`
	// Deviations is by how many standard deviations they differ.
	Deviations float64 `json:"deviations"`
}

// False alarms of one assessment, in which something is said to have drifted that has
// not, and how many outcomes a mean is told from: fewer of costs, which follow from
// prices and tokens, so that few calls show a new price.
const (
	falseAlarm  = 0.01
	leastDrift  = 20
	leastCosts  = 5
	leastStrays = 0.02
)

// Assess compares what the profile believed with what came, over traces of steps that
// it decided. What is told is not that estimates are off, which is usual on the steps of
// a strategy that asks the models of which it believes most, but that they are off
// otherwise than they were in the fit ([Profile.Usual]): the test is one of two samples
// (Welch), over all ways together at 1 % (Bonferroni). Costs are compared by their
// logarithms.
func Assess(p *Profile, traces []*sdk.Trace) (*Assessment, error) {
	if len(p.Usual) == 0 {
		return nil, errors.New("the profile does not say how far its estimates were off where nothing had changed: fit it again")
	}
	a := &assessor{p: p, seen: tallies{}, groups: map[string]int{}}
	for _, t := range traces {
		a.trace(t)
	}
	if a.out.Calls == 0 {
		return nil, errors.New("no trace has a verdict and what was believed before it")
	}
	a.out.Quality.finish()
	a.out.Quality.Reference = a.spread / float64(a.out.Calls)
	a.conclude(len(traces))
	return &a.out, nil
}

// Holds reports that nothing has drifted.
func (a *Assessment) Holds() bool { return len(a.Drifts) == 0 }

type assessor struct {
	p      *Profile
	out    Assessment
	spread float64
	seen   tallies
	groups map[string]int
}

// trace takes in one step.
func (a *assessor) trace(t *sdk.Trace) {
	a.groups[t.Group]++
	judged := 0
	var expected, observed, spreads, asked float64
	for i := range t.Calls {
		call := &t.Calls[i]
		if call.Error != "" || !slices.Contains(a.p.Names(), call.Model) {
			continue
		}
		belief, known := believedBefore(t, call.Model)
		if !known {
			continue
		}
		how := ""
		if call.Propensity > 0 && call.Propensity < 1 {
			how = byChance
		}
		mean := belief.Quality.Mean
		quality, ok := call.Verdict.Quality()
		chance, outcome := mean, quality
		switch {
		case !ok:
			quality = math.NaN()
		case call.Verdict.Errs():
			chance, outcome, quality = readErring(call.Verdict, mean)
		}
		a.seen.call(call.Model, how, mean, quality, belief.CostUSD, call.CostUSD, 1)
		a.price(call)
		if !ok {
			continue
		}
		judged++
		a.out.Quality.add(chance, outcome, chance)
		a.spread += bernoulliVariance(chance)
		if how == "" {
			asked++
			expected, observed, spreads = expected+mean, observed+quality, spreads+bernoulliVariance(mean)
		}
	}
	if judged == 0 {
		return
	}
	a.out.Traces++
	a.out.Calls += judged
	a.seen.step(t.Group, expected, observed, spreads, asked)
}

// price takes in what the verdict on an answer cost, if it is of the judge whose price the profile knows.
func (a *assessor) price(call *sdk.Call) {
	if e := a.p.Estimator; e != nil && call.Verdict != nil {
		if usd := e.VerdictsUSD[call.Verdict.Verifier]; usd != nil {
			a.seen.cost(ofVerdicts+call.Verdict.Verifier, usd[slices.Index(e.Models, call.Model)], call.Verdict.CostUSD, 1)
		}
	}
}

// readErring returns, of the verdict of a judge that errs on an answer that was believed to be right with
// probability p, how probable a pass was, 1 where it is one, and a quality that is without bias:
// its mean over verdicts is how often such answers are right.
func readErring(v *sdk.Verdict, p float64) (chance, passed, quality float64) {
	ifRight, ifWrong := v.IfRight, v.IfWrong
	if v.Outcome == sdk.Passed {
		passed = 1
	} else {
		ifRight, ifWrong = 1-ifRight, 1-ifWrong
	}
	const least = 0.05 // of a judge that says next to nothing
	chance = p*ifRight + (1-p)*ifWrong
	return chance, passed, p + (passed-chance)/max(ifRight-ifWrong, least)
}

// believedBefore returns what was believed of a model in the last decision before it ran.
func believedBefore(t *sdk.Trace, model string) (sdk.Belief, bool) {
	var last sdk.Belief
	known := false
	for i := range t.Decisions {
		for _, b := range t.Decisions[i].Models {
			if b.Model == model && !b.Ran {
				last, known = b, true
			}
		}
		if t.Decisions[i].Run == model {
			break
		}
	}
	return last, known
}

// conclude tests every tally.
func (a *assessor) conclude(traces int) {
	var found []Drift
	unlikely := map[string]float64{}
	// In the order in which drifts of equal certainty are told: models before groups.
	names := slices.Sorted(maps.Keys(a.seen))
	slices.Reverse(names)
	for _, of := range names {
		now, least := a.seen[of], float64(leastDrift)
		if strings.HasPrefix(of, ofCost) {
			least = leastCosts
		}
		if now.n < least {
			continue
		}
		then, known := a.usually(of)
		if !known || then.Count < least {
			continue
		}
		a.out.Tests++
		d, p := differ(now.offset(of), then)
		n := now.n
		d.Of, d.Count, d.Expected, d.Observed = of, int(n), now.expected/n, now.observed/n
		if strings.HasPrefix(of, ofCost) {
			d.Expected *= math.Exp(then.Off)
		} else {
			d.Expected += then.Off
		}
		unlikely[of] = p
		found = append(found, d)
	}
	if d, p, tested := a.strays(traces); tested {
		a.out.Tests++
		unlikely[d.Of] = p
		found = append(found, d)
	}
	for _, d := range found {
		if unlikely[d.Of] < falseAlarm/float64(a.out.Tests) {
			a.out.Drifts = append(a.out.Drifts, d)
		}
	}
	slices.SortStableFunc(a.out.Drifts, func(a, b Drift) int { return cmp.Compare(unlikely[a.Of], unlikely[b.Of]) })
}

// usually is how far off a mean was in the fit.
func (a *assessor) usually(of string) (Offset, bool) {
	i := slices.IndexFunc(a.p.Usual, func(u Offset) bool { return u.Of == of })
	if i < 0 {
		return Offset{}, false
	}
	return a.p.Usual[i], true
}

// differ is Welch's test of two means: by how many standard deviations the first is
// above the second, and how likely chance takes them as far apart.
func differ(now, then Offset) (Drift, float64) {
	const rounding = 1e-18 // the least variance: costs may follow from prices exactly
	if min(now.Count, then.Count) < leastDrift {
		// So few may be alike by chance: both vary as much as the one that varies more.
		now.Variance = max(now.Variance, then.Variance)
		then.Variance = now.Variance
	}
	a, b := max(now.Variance, rounding)/now.Count, max(then.Variance, rounding)/then.Count
	d := Drift{Deviations: (now.Off - then.Off) / math.Sqrt(a+b)}
	freedom := (a + b) * (a + b) / (a*a/(now.Count-1) + b*b/max(then.Count-1, 1))
	t := distuv.StudentsT{Sigma: 1, Nu: min(freedom, 1e6)}
	return d, 2 * t.Survival(math.Abs(d.Deviations))
}

// strays tests whether more queries than are let pass are of groups that the fit did not
// know.
func (a *assessor) strays(traces int) (Drift, float64, bool) {
	if len(a.p.Data.Groups) == 0 || traces < leastDrift {
		return Drift{}, 1, false
	}
	strays := 0
	for name, n := range a.groups {
		if !slices.Contains(a.p.Data.Groups, name) {
			strays += n
		}
	}
	n := float64(traces)
	d := Drift{Of: "queries of groups not fitted to", Count: traces, Observed: float64(strays) / n}
	d.Deviations = max(d.Observed-leastStrays, 0) / math.Sqrt(leastStrays*(1-leastStrays)/n)
	if strays == 0 {
		return d, 1, true
	}
	return d, 1 - distuv.Binomial{N: n, P: leastStrays}.CDF(float64(strays-1)), true
}
