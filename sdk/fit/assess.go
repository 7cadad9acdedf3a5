package fit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Assessment says whether the estimates of a profile still hold for the queries that
// it decides about: what traces say was believed just before each model ran, beside
// what came. A model is asked or not by what was believed and shown before, so that the
// outcomes of those that were asked are not chosen by what they are.
type Assessment struct {
	// Traces are those with a judged call, Calls how many calls those have.
	Traces int `json:"traces"`
	Calls  int `json:"calls"`
	// Quality compares estimates with verdicts. Its Reference is the Brier score that
	// they would have if they held, as the fit measured itself.
	Quality Reliability `json:"quality"`
	// Drifts are the ways in which they hold no longer, the surest first.
	Drifts []Drift `json:"drifts"`
	// Tests is how many ways were looked at.
	Tests int `json:"tests"`
}

// Drift is a mean that is not what was estimated.
type Drift struct {
	// Of is what: the quality or the cost of a model, the quality in a group, or the
	// share of queries of groups that the fit did not know.
	Of       string  `json:"of"`
	Count    int     `json:"count"`
	Expected float64 `json:"expected"`
	Observed float64 `json:"observed"`
	// Deviations is by how many standard deviations they differ.
	Deviations float64 `json:"deviations"`
}

// False alarms of one assessment, in which something is said to have drifted that has
// not, and how many outcomes a mean is told from.
const (
	falseAlarm  = 0.01
	leastDrift  = 20
	leastStrays = 0.02
)

// Assess compares what the profile believed with what came, over traces of steps that
// it decided. A drift is told with a chance of 1 % that there is none, over all ways
// together (Bonferroni), where the estimates are calibrated given what ran before; where
// they are not, more often.
func Assess(p *Profile, traces []*sdk.Trace) (*Assessment, error) {
	a := &assessor{p: p, quality: map[string]*tally{}, cost: map[string]*tally{}, group: map[string]*tally{}, groups: map[string]int{}}
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

// tally sums up what was expected and what came.
type tally struct {
	n                  int
	expected, observed float64
	// off and offSquared are of the differences, spread the variance that is expected.
	off, offSquared, spread float64
}

func (t *tally) add(expected, observed, spread float64) {
	t.n++
	t.expected, t.observed = t.expected+expected, t.observed+observed
	t.off, t.offSquared = t.off+observed-expected, t.offSquared+(observed-expected)*(observed-expected)
	t.spread += spread
}

type assessor struct {
	p      *Profile
	out    Assessment
	spread float64
	// By model, by model and by group; groups counts queries.
	quality, cost, group map[string]*tally
	groups               map[string]int
}

func at(m map[string]*tally, name string) *tally {
	if m[name] == nil {
		m[name] = &tally{}
	}
	return m[name]
}

// trace takes in one step.
func (a *assessor) trace(t *sdk.Trace) {
	a.groups[t.Group]++
	judged := 0
	expected, observed, spread := 0.0, 0.0, 0.0
	for i := range t.Calls {
		call := &t.Calls[i]
		if call.Error != "" || !slices.Contains(a.p.Names(), call.Model) {
			continue
		}
		belief, known := believedBefore(t, call.Model)
		if !known {
			continue
		}
		if belief.CostUSD > 0 {
			at(a.cost, call.Model).add(belief.CostUSD, call.CostUSD, 0)
		}
		quality, ok := call.Verdict.Quality()
		if !ok {
			continue
		}
		// As the fit saw such estimates come true.
		mean := belief.Quality.Mean
		if b := a.p.Calibration.Ante.Bins[min(max(int(mean*10), 0), 9)]; b.Count >= leastDrift {
			mean += b.Quality - b.Estimate
		}
		mean = min(max(mean, 0.01), 0.99)
		judged++
		a.out.Quality.add(belief.Quality.Mean, quality, mean)
		a.spread += mean*(1-mean) + (mean-belief.Quality.Mean)*(mean-belief.Quality.Mean)
		at(a.quality, call.Model).add(mean, quality, mean*(1-mean))
		expected, observed, spread = expected+mean, observed+quality, spread+mean*(1-mean)
	}
	if judged == 0 {
		return
	}
	a.out.Traces++
	a.out.Calls += judged
	n := float64(judged)
	at(a.group, t.Group).add(expected/n, observed/n, spread/n/n)
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
	fitted := float64(max(a.p.Data.Complete, 1))
	test := func(of string, t *tally, variance float64) {
		if t.n < leastDrift {
			return
		}
		a.out.Tests++
		n := float64(t.n)
		// The fit's own mean is known from so many queries.
		variance *= 1 + n/fitted
		if variance > 0 {
			found = append(found, Drift{of, t.n, t.expected / n, t.observed / n, t.off / math.Sqrt(variance)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.quality)) {
		test("quality of "+name, a.quality[name], a.quality[name].spread)
	}
	for _, name := range slices.Sorted(maps.Keys(a.cost)) {
		t := a.cost[name]
		n := float64(t.n)
		test("cost of "+name, t, t.offSquared-t.off*t.off/n)
	}
	for _, name := range slices.Sorted(maps.Keys(a.group)) {
		test("quality in group "+name, a.group[name], a.group[name].spread)
	}
	if len(a.p.Data.Groups) > 0 {
		strays := 0
		for name, n := range a.groups {
			if !slices.Contains(a.p.Data.Groups, name) {
				strays += n
			}
		}
		if traces >= leastDrift {
			a.out.Tests++
			n := float64(traces)
			share := float64(strays) / n
			// Fewer strays than are let pass are no drift.
			share = max(share, leastStrays)
			found = append(found, Drift{"queries of groups not fitted to", traces, 0, float64(strays) / n, (share - leastStrays) / math.Sqrt(leastStrays*(1-leastStrays)/n)})
		}
	}
	least := deviationsFor(falseAlarm / float64(max(a.out.Tests, 1)))
	for _, d := range found {
		if math.Abs(d.Deviations) > least {
			a.out.Drifts = append(a.out.Drifts, d)
		}
	}
	slices.SortStableFunc(a.out.Drifts, func(a, b Drift) int { return cmp.Compare(math.Abs(b.Deviations), math.Abs(a.Deviations)) })
}

// deviationsFor is the number of deviations that a normal passes, to either side, with a
// probability.
func deviationsFor(p float64) float64 { return math.Sqrt2 * math.Erfinv(1-p) }

// Rival compares a profile with one fitted anew, on steps that neither was fitted to.
type Rival struct {
	// Calls are those that were judged.
	Calls int `json:"calls"`
	// Quality is by how much the logarithmic loss of the new one's estimates of quality
	// is smaller, per call, and Cost the squared error of its logarithms of costs; each
	// with its standard error.
	Quality         float64 `json:"quality"`
	QualityStdError float64 `json:"quality_std_error"`
	Cost            float64 `json:"cost"`
	CostStdError    float64 `json:"cost_std_error"`
}

// Better reports that the new one is better at quality or at cost by more than two
// standard errors, and not worse at the other by as much.
func (r *Rival) Better() bool {
	quality, cost := r.Quality-2*r.QualityStdError, r.Cost-2*r.CostStdError
	return (quality > 0 || cost > 0) && r.Quality+2*r.QualityStdError >= 0 && r.Cost+2*r.CostStdError >= 0
}

// Compare has two profiles of the same models estimate what came in traces, given what
// ran before.
func Compare(old, fresh *Profile, traces []*sdk.Trace) (*Rival, error) {
	table, err := outcome.OfTraces(traces)
	if err != nil {
		return nil, err
	}
	for _, p := range []*Profile{old, fresh} {
		if table, err = widened(table, p.Names()); err != nil {
			return nil, err
		}
	}
	var losses, errs [2][]float64
	for k, p := range []*Profile{old, fresh} {
		own, err := table.Select(p.Names()...)
		if err != nil {
			return nil, err
		}
		if losses[k], errs[k], err = told(p, own, traces); err != nil {
			return nil, err
		}
	}
	r := &Rival{Calls: len(losses[0])}
	r.Quality, r.QualityStdError = gain(losses[0], losses[1])
	r.Cost, r.CostStdError = gain(errs[0], errs[1])
	return r, nil
}

// widened returns the table with a column for each of the models, empty where the
// traces have nothing of one.
func widened(t *outcome.Table, models []string) (*outcome.Table, error) {
	for _, name := range t.Models {
		if !slices.Contains(models, name) {
			return nil, fmt.Errorf("%w: traces of %q", ErrModels, name)
		}
	}
	wide := *t
	for _, name := range models {
		if wide.Index(name) >= 0 {
			continue
		}
		wide.Models = append(slices.Clone(wide.Models), name)
		for _, m := range []*[][]float64{&wide.Quality, &wide.CostUSD, &wide.InputTokens, &wide.OutputTokens, &wide.LatencySeconds, &wide.Ante, &wide.Post, &wide.Propensity} {
			*m = appended(*m, math.NaN())
		}
		wide.Answers = appended(wide.Answers, "")
		signals := map[string][][]float64{}
		for k, m := range wide.Signals {
			signals[k] = appended(m, math.NaN())
		}
		wide.Signals = signals
	}
	return &wide, nil
}

func appended[T any](m [][]T, v T) [][]T {
	if m == nil {
		return nil
	}
	out := make([][]T, len(m))
	for i, row := range m {
		out[i] = append(slices.Clone(row), v)
	}
	return out
}

// told returns what a profile loses on every judged call, and how far off it is on the
// cost of every call that was paid for.
func told(p *Profile, t *outcome.Table, traces []*sdk.Trace) (losses, errs []float64, err error) {
	replay, err := p.Estimator.On(t)
	if err != nil {
		return nil, nil, err
	}
	rows := map[string]int{}
	for q, id := range t.Queries {
		rows[id] = q
	}
	beliefs, costs := make([]cascade.Belief, len(t.Models)), make([]float64, len(t.Models))
	for _, trace := range traces {
		q, known := rows[cmp.Or(trace.QueryID, trace.ID)]
		if !known {
			continue
		}
		x := replay.Start(q)
		var ran []int
		for i := range trace.Calls {
			call := &trace.Calls[i]
			m := t.Index(call.Model)
			if m < 0 || call.Error != "" || slices.Contains(ran, m) {
				continue
			}
			x.Believe(ran, beliefs, costs)
			ran = append(ran, m)
			if v, ok := call.Verdict.Quality(); ok {
				mean := bounded(beliefs[m].Mean)
				losses = append(losses, -v*math.Log(mean)-(1-v)*math.Log(1-mean))
			}
			if call.CostUSD > 0 && costs[m] > 0 {
				off := math.Log(call.CostUSD / costs[m])
				errs = append(errs, off*off)
			}
		}
	}
	return losses, errs, nil
}

// gain is the mean of before less after, with its standard error.
func gain(before, after []float64) (mean, stdError float64) {
	n := float64(len(before))
	if len(after) != len(before) || n < 2 {
		return 0, math.Inf(1)
	}
	squares := 0.0
	for i, x := range before {
		mean += (x - after[i]) / n
	}
	for i, x := range before {
		squares += (x - after[i] - mean) * (x - after[i] - mean)
	}
	return mean, math.Sqrt(squares / (n - 1) / n)
}
