package fit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Assessment says whether the estimates of a profile still hold for the queries that it decides about.
// It compares the estimate in a trace just before each model ran with the outcome. Whether a model is
// called depends only on what was known before, so its outcomes are not a biased selection.
type Assessment struct {
	// Traces counts the steps with a judged call, and Calls their judged calls: those with a verdict, or in a
	// run that has one. Without any, only costs are compared.
	Traces int `json:"traces"`
	Calls  int `json:"calls"`
	// Quality compares estimates with outcomes; for fallible judges it compares the probability of a pass.
	// Its Reference is the Brier score of perfectly calibrated estimates.
	Quality Reliability `json:"quality"`
	// Drifts are the estimates that no longer hold, the most certain first.
	Drifts []Drift `json:"drifts"`
	// Runs compares verdicts on runs with the profile's forecast; nil without enough of them.
	Runs *runForecast `json:"runs,omitempty"`
	// Others counts the steps that other profiles decided, which are left out.
	Others int `json:"others,omitempty"`
	// Tests is the number of means tested.
	Tests int `json:"tests"`
}

// Drift is a mean that is further from its estimate than it was in the fit.
type Drift struct {
	// Of names the mean: the quality or the cost of a model, where the strategy called it or where
	// it was drawn at random; the cost of a judge's verdicts; the quality in a group; or the share of
	// queries from groups that are not in the fit.
	Of    string `json:"of"`
	Count int    `json:"count"`
	// Expected is the estimate, corrected by its usual error in the fit.
	Expected float64 `json:"expected"`
	Observed float64 `json:"observed"`
	// Deviations is the difference in standard deviations.
	Deviations float64 `json:"deviations"`
}

// falseAlarm is the probability that an assessment reports a drift where there is none. A mean is tested
// from leastDrift outcomes on, a cost from leastCosts calls on, which suffice to show a new price.
// A mean cost with prompt caches that is off by less than leastCostDrift comes from the choice of steps.
// leastStrays is the share of queries from unknown groups that counts as normal.
const (
	falseAlarm  = 0.01
	leastDrift  = 20
	leastCosts  = 5
	leastStrays = 0.02

	leastCostDrift = 0.05
)

// ErrUnassessed means that traces have too little to compare estimates with.
var ErrUnassessed = errors.New("nothing to compare estimates with")

// Assess compares the profile's estimates with the outcomes in traces of steps that it decided ([Profile.HasDecided]): costs,
// and qualities by verdicts on answers or, without those, on runs, with the share of each step that a fit
// gives it ([outcome.RunQualities]). The blame for a failed run lands on whoever answered its hard steps, so these shares
// are tested only if the runs themselves are not right as often as forecast ([runForecast]). Some error is normal,
// because a strategy calls the models that it estimates highest; a drift is an error that differs from that in the fit ([Profile.Usual]) by Welch's two-sample test, at 1 % over all tests
// together (Bonferroni). Costs are compared by their logarithms.
func Assess(p *Profile, traces []*sdk.Trace) (*Assessment, error) {
	if len(p.Usual) == 0 {
		return nil, errors.New("the profile does not say how far its estimates were off where nothing had changed: fit it again")
	}
	a := &assessor{p: p, ends: outcome.RunQualities(traces), seen: tallies{}, groups: map[string]int{}}
	if a.out.Runs = forecastRuns(p, traces); a.out.Runs != nil {
		a.out.Tests++
	}
	a.hasJudge = slices.ContainsFunc(traces, func(t *sdk.Trace) bool { return p.HasDecided(t) && p.usesStrategy(t) && p.hasJudge(t) })
	for _, t := range traces {
		switch {
		case p.HasDecided(t):
			a.steps++
			a.groups[t.Group]++
			if p.usesStrategy(t) {
				a.chosen++
				a.addTrace(t)
			}
		case t.Profile != "" && sdk.HasChoice(t.Mode):
			a.out.Others++
		}
	}
	a.out.Quality.finish()
	a.out.Quality.Reference = a.spread / float64(max(a.out.Calls, 1))
	a.conclude()
	if a.out.Tests == 0 {
		return nil, fmt.Errorf("%w: the profile decided %d steps and others %d, match blocks and holdouts chose in %d of its own, and costs need %d calls of a model, qualities %d with a verdict", ErrUnassessed, a.steps, a.out.Others, a.steps-a.chosen, leastCosts, leastDrift)
	}
	return &a.out, nil
}

// Holds reports whether nothing has drifted.
func (a *Assessment) Holds() bool { return len(a.Drifts) == 0 && (a.Runs == nil || a.Runs.Holds) }

type assessor struct {
	p      *Profile
	ends   runEnds
	steps  int
	chosen int // steps in which the fitted strategy chose
	out    Assessment
	spread float64
	seen   tallies
	groups map[string]int
	// hasJudge reports whether anything but free checks judged answers.
	hasJudge bool
}

// runEnds are the qualities of answers by how their runs ended.
type runEnds map[outcome.StepAnswer]float64

// qualityOf returns the quality of an answer by its own verdict or else by how its run ended.
func (e runEnds) qualityOf(t *sdk.Trace, call *sdk.Call) (quality float64, isKnown bool) {
	if quality, isKnown = call.Verdict.Quality(); !isKnown {
		quality, isKnown = e[outcome.StepAnswer{Step: t, Model: call.Model}]
	}
	return quality, isKnown
}

func (a *assessor) addTrace(t *sdk.Trace) {
	judged := 0
	var means, observed, spreads, asked float64
	for i := range t.Calls {
		call := &t.Calls[i]
		if call.Error != "" || !slices.Contains(a.p.Names(), call.Model) {
			continue
		}
		belief, known := lastBelief(t, call.Model)
		if !known {
			continue
		}
		how := ""
		if call.Propensity > 0 && call.Propensity < 1 {
			how = byChance
		}
		mean := belief.Quality.Mean
		quality, ok := a.ends.qualityOf(t, call)
		_, isJudged := call.Verdict.Quality()
		isTested := a.out.Runs == nil || !a.out.Runs.Holds || isJudged
		if isJudged && !a.hasJudge { // free checks only reject: without a judge or runs nothing is known of the others
			isTested = a.out.Runs == nil && len(a.ends) > 0 || a.out.Runs != nil && !a.out.Runs.Holds
		}
		chance, outcome := mean, quality
		switch {
		case !ok || !isTested:
			quality = math.NaN()
		case call.Verdict.Errs():
			chance, outcome, quality = readErring(call.Verdict, mean)
		}
		a.seen.addCall(call.Model, how, mean, quality, 1)
		m, saved := a.modelOf(call.Model), 0.0
		if first := t.Belief(call.Model); m.CachedUSD > 0 && first != nil && first.Price != nil {
			saved = first.Price.CachedUSD(call.Usage)
		}
		a.seen.addCallCost(&m, how, len(t.Tools) > 0, belief.CostUSD, call.CostUSD, saved, 1)
		a.addVerdictCost(call)
		if !ok {
			continue
		}
		judged++
		a.out.Quality.add(chance, outcome, chance)
		a.spread += bernoulliVariance(chance)
		if how == "" && isTested {
			asked++
			means, observed, spreads = means+mean, observed+quality, spreads+bernoulliVariance(mean)
		}
	}
	if judged == 0 {
		return
	}
	a.out.Traces++
	a.out.Calls += judged
	a.seen.addStep(t.Group, means, observed, spreads, asked)
}

// hasJudge reports whether more than free checks judged an answer of the profile's models.
func (p *Profile) hasJudge(t *sdk.Trace) bool {
	return slices.ContainsFunc(t.Calls, func(c sdk.Call) bool {
		_, isJudged := c.Verdict.Quality()
		return isJudged && !sdk.IsCheck(c.Verdict.Verifier) && slices.Contains(p.Names(), c.Model)
	})
}

func (a *assessor) modelOf(name string) Model {
	if i := slices.Index(a.p.Names(), name); i >= 0 {
		return a.p.Models[i]
	}
	return Model{}
}

// addVerdictCost adds the cost of a call's verdict, if the profile knows the price of its judge.
func (a *assessor) addVerdictCost(call *sdk.Call) {
	if e := a.p.Estimator; e != nil && call.Verdict != nil {
		if usd := e.VerdictsUSD[call.Verdict.Verifier]; usd != nil {
			a.seen.addCost(ofVerdicts+call.Verdict.Verifier, usd[slices.Index(e.Models, call.Model)], call.Verdict.CostUSD, call.Verdict.CostUSD, 1)
		}
	}
}

// readErring interprets a fallible judge's verdict on an answer that is right with probability p. It
// returns the probability of a pass, 1 if the verdict is a pass, and an unbiased quality, whose mean over
// verdicts is the share of right answers.
func readErring(v *sdk.Verdict, p float64) (chance, passed, quality float64) {
	ifRight, ifWrong := v.IfRight, v.IfWrong
	if v.Outcome == sdk.Passed {
		passed = 1
	} else {
		ifRight, ifWrong = 1-ifRight, 1-ifWrong
	}
	const least = 0.05 // bounds the quality for judges that say next to nothing
	chance = p*ifRight + (1-p)*ifWrong
	return chance, passed, p + (passed-chance)/max(ifRight-ifWrong, least)
}

// lastBelief returns the belief about a model in the last decision before it ran.
func lastBelief(t *sdk.Trace, model string) (sdk.Belief, bool) {
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

func (a *assessor) conclude() {
	var found []Drift
	unlikely := map[string]float64{}
	// Drifts of equal certainty are reported in this order: models before groups.
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
		i := slices.IndexFunc(a.p.Usual, func(u Offset) bool { return u.Of == of })
		if name, isPlain := strings.CutSuffix(of, withoutTools); i < 0 && isPlain { // a profile that does not tell them apart
			i = slices.IndexFunc(a.p.Usual, func(u Offset) bool { return u.Of == name })
		}
		if i < 0 || a.p.Usual[i].Count < least {
			continue
		}
		then := a.p.Usual[i] // the error of the mean in the fit
		a.out.Tests++
		d, p := welchTest(now.offset(of), then)
		cached := a.modelOf(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(of, ofCost), withoutTools), byChance)).CachedUSD
		if cached > 0 && math.Abs(now.off/now.weights-then.Off) < leastCostDrift*(1-cached*now.n/now.expected) {
			p = 1
		}
		n := now.n
		d.Of, d.Count, d.Expected, d.Observed = of, int(n), now.expected/n, now.observed/n
		if strings.HasPrefix(of, ofCost) {
			d.Expected, d.Observed = d.Expected*math.Exp(then.Off)*now.paid/now.observed, now.paid/n // caches are no part of the test
		} else {
			d.Expected += then.Off
		}
		unlikely[of] = p
		found = append(found, d)
	}
	if d, p, tested := a.testStrays(); tested {
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

// welchTest compares two means: it returns by how many standard deviations the first is above the
// second, and the p-value.
func welchTest(now, then Offset) (Drift, float64) {
	const rounding = 1e-18 // the least variance: costs can follow from prices exactly
	if min(now.Count, then.Count) < leastDrift {
		// So few can be alike by chance: the greater variance is used for both.
		now.Variance = max(now.Variance, then.Variance)
		then.Variance = now.Variance
	}
	a, b := max(now.Variance, rounding)/now.Count, max(then.Variance, rounding)/then.Count
	d := Drift{Deviations: (now.Off - then.Off) / math.Sqrt(a+b)}
	freedom := (a + b) * (a + b) / (a*a/(now.Count-1) + b*b/max(then.Count-1, 1))
	t := distuv.StudentsT{Sigma: 1, Nu: min(freedom, 1e6)}
	return d, 2 * t.Survival(math.Abs(d.Deviations))
}

// testStrays tests whether more than a share of leastStrays of the queries are from groups that are not in
// the fit.
func (a *assessor) testStrays() (Drift, float64, bool) {
	if len(a.p.Data.Groups) == 0 || a.steps < leastDrift {
		return Drift{}, 1, false
	}
	strays := 0
	for name, n := range a.groups {
		if !slices.Contains(a.p.Data.Groups, name) {
			strays += n
		}
	}
	n := float64(a.steps)
	d := Drift{Of: "queries of groups not fitted to", Count: a.steps, Observed: float64(strays) / n}
	d.Deviations = max(d.Observed-leastStrays, 0) / math.Sqrt(leastStrays*(1-leastStrays)/n)
	if strays == 0 {
		return d, 1, true
	}
	return d, 1 - distuv.Binomial{N: n, P: leastStrays}.CDF(float64(strays-1)), true
}
