package estimate

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// evidence is a joint model of all signals of an answer: log-probabilities, the score of
// a judge, and whatever else the table has. They are jointly normal, around one mean if
// the answer is right and another if it is wrong, with one covariance. The log odds are
// then linear in the signals, as in a logistic regression, but the coefficients for any
// subset of the signals follow from the same fit: signals that have not been bought are
// marginalised exactly, and what two signals have in common counts once.
type evidence struct {
	// Names are the signals: the free ones first, then the bought ones, the cheapest
	// first.
	Names []string `json:"names"`
	// CostUSD is the mean price of each bought signal, by signal and model.
	CostUSD [][]float64 `json:"cost_usd,omitempty"`
	// Verdicts has, for each bought signal, how to read it as a verdict, or nil if it has
	// more than two values. It is nil if no signal is a verdict.
	Verdicts []*boughtVerdict `json:"verdicts,omitempty"`
	// Mean and StdDev standardise each signal.
	Mean   []float64 `json:"mean"`
	StdDev []float64 `json:"std_dev"`
	// Right and Wrong are the means by model and signal, and Covariance is around them.
	Right      [][]float64 `json:"right"`
	Wrong      [][]float64 `json:"wrong"`
	Covariance [][]float64 `json:"covariance"`

	first []float64 // by model: the distance that the first bought signal adds to the free ones'
}

// boughtVerdict is a signal of two values, the verdict of a judge: above Cut it is a pass.
// Given whether the answer is right, it is assumed to be independent of the other signals.
type boughtVerdict struct {
	Cut float64 `json:"cut"`
	cascade.Rates
}

// verdict returns how to read signal k as a verdict, or nil if it is none.
func (e *evidence) verdict(k int) *boughtVerdict {
	if at := k - e.free(); e.Verdicts != nil && at >= 0 {
		return e.Verdicts[at]
	}
	return nil
}

// fitVerdict returns how to read a signal as a verdict, with its error rates over all
// models, or nil if it has more than two values.
func fitVerdict(quality, signal [][]float64) *boughtVerdict {
	low, high := math.Inf(1), math.Inf(-1)
	for _, row := range signal {
		for _, v := range row {
			if !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	verdicts := make([]float64, len(signal[0]))
	var all verdictCounts
	for q, row := range signal {
		for i, v := range row {
			if low < v && v < high {
				return nil
			}
			verdicts[i] = (v - low) / (high - low) // 0, 1, or NaN for none
		}
		own := countVerdicts(quality[q], verdicts)
		all.add(&own, 1)
	}
	return &boughtVerdict{Cut: (low + high) / 2, Rates: all.rates()}
}

// Buys returns the names of the signals that the estimator offers as looks.
func (e *Estimator) Buys() []string {
	if l, ok := e.Quality.(*latent); ok && l.Evidence != nil {
		return l.Evidence.Names[l.Evidence.free():]
	}
	return nil
}

// BoughtJudges returns the error rates, by name, of the judges whose verdicts are bought.
func (e *Estimator) BoughtJudges() map[string]cascade.Rates {
	rates := map[string]cascade.Rates{}
	if l, ok := e.Quality.(*latent); ok && l.Evidence != nil {
		for at, v := range l.Evidence.Verdicts {
			if v != nil {
				rates[l.Evidence.Names[l.Evidence.free()+at]] = v.Rates
			}
		}
	}
	return rates
}

// Bounds of evidence.
const (
	// evidenceFar is the number of deviations to which signals are clamped.
	evidenceFar = 3
	// evidenceRidge is added to the variances, and evidenceWeight is the number of answers
	// that the means over all models are worth in those of one.
	evidenceRidge, evidenceWeight = 0.02, 20
	// evidenceLeast is the least number of right, and of wrong, answers.
	evidenceLeast = 10
	// evidenceMost bounds the log odds.
	evidenceMost = 20
)

// signalNames returns the signals that evidence uses: the free ones, and the bought ones
// sorted by mean price.
func signalNames(t *outcome.Table) (free, bought []string) {
	price := map[string]float64{}
	for _, name := range t.SignalNames() {
		switch {
		case strings.HasPrefix(name, signalClass), name == feature.SignalAgreement, isPrice(t, name):
		case t.Signals[name+sdk.SignalCostUSD] != nil:
			var m moments
			for _, row := range t.Signals[name+sdk.SignalCostUSD] {
				for _, v := range row {
					m.add(v)
				}
			}
			price[name] = m.mean
			bought = append(bought, name)
		default:
			free = append(free, name)
		}
	}
	slices.SortStableFunc(bought, func(a, b string) int { return cmp.Compare(price[a], price[b]) })
	return free, bought
}

// isPrice reports whether a signal is the price of another, or of a verdict.
func isPrice(t *outcome.Table, name string) bool {
	of, ok := strings.CutSuffix(name, sdk.SignalCostUSD)
	return ok && (t.Signals[of] != nil || t.Verdicts[of] != nil)
}

func isBought(t *outcome.Table, name string) bool { return t.Signals[name+sdk.SignalCostUSD] != nil }

func (e *evidence) free() int { return len(e.Names) - len(e.CostUSD) }

// check reports whether the parameters, as read from a profile, are consistent.
func (e *evidence) check(models int) bool {
	n := len(e.Names)
	return n > 0 && len(e.Mean) == n && len(e.StdDev) == n &&
		len(e.CostUSD) <= n && wide(e.CostUSD, models) && hasLength(e.Verdicts, len(e.CostUSD)) &&
		len(e.Right) == models && len(e.Wrong) == models && len(e.Covariance) == n && wide(e.Right, n) && wide(e.Wrong, n) && wide(e.Covariance, n) &&
		!slices.ContainsFunc(e.Verdicts, func(v *boughtVerdict) bool { return v != nil && v.Validate() != nil })
}

// scale standardises a signal; it returns NaN if that is unknown, and 1 or -1 for verdicts.
func (e *evidence) scale(k int, x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return math.NaN()
	}
	if v := e.verdict(k); v != nil {
		return math.Copysign(1, x-v.Cut)
	}
	return min(max((x-e.Mean[k])/e.StdDev[k], -evidenceFar), evidenceFar)
}

// odds returns the log likelihood ratio of the signals (NaN: not seen) between a right and
// a wrong answer of the model, and the squared Mahalanobis distance of the two means.
func (e *evidence) odds(model int, x []float64) (log, apart float64) {
	var seen []int
	for k, v := range x {
		switch verdict := e.verdict(k); {
		case math.IsNaN(v):
		case verdict != nil:
			right, wrong := verdict.Likelihoods(v > 0)
			log += math.Log(right / wrong)
		default:
			seen = append(seen, k)
		}
	}
	if len(seen) == 0 {
		return log, 0
	}
	d := make([]float64, len(seen))
	for i, k := range seen {
		d[i] = e.Right[model][k] - e.Wrong[model][k]
	}
	w := solve(submatrix(e.Covariance, seen), d)
	if w == nil {
		return log, 0
	}
	for i, k := range seen {
		log += w[i] * (x[k] - (e.Right[model][k]+e.Wrong[model][k])/2)
		apart += w[i] * d[i]
	}
	return min(max(log, -evidenceMost), evidenceMost), max(apart, 0)
}

// lookNodes is the number of points at which oddsSpread integrates.
const lookNodes = 24

// oddsSpread returns the standard deviation of a probability p after a normal signal is
// seen whose means for right and wrong answers are a squared distance apart.
func oddsSpread(p, apart float64) float64 {
	if p <= 0 || p >= 1 || apart <= 0 {
		return 0
	}
	// E[after²] = p·E[after | right], by the midpoint rule, which is very accurate for a
	// normal.
	d, start := math.Sqrt(apart), math.Log(p/(1-p))
	sum, mass := 0.0, 0.0
	for k := range lookNodes {
		t := -4.5 + 9*(float64(k)+0.5)/lookNodes
		w := math.Exp(-t * t / 2)
		sum += w * sigmoid(start+d*t+apart/2)
		mass += w
	}
	return math.Sqrt(max(0, p*sum/mass-p*p))
}

// fitEvidence fits the signals of answers, with all samples of a model together. It returns
// nil if the table has no usable signals.
func (f *latentFit) fitEvidence() *evidence {
	t, n := f.t, len(f.Base)
	free, bought := signalNames(t)
	if t.Judged() {
		free = nil // with verdicts, only bought signals are used
	}
	e := &evidence{}
	keep := func(names []string) {
		for _, name := range names {
			var m moments
			for _, row := range t.Signals[name] {
				for _, v := range row {
					if !math.IsInf(v, 0) {
						m.add(v)
					}
				}
			}
			if dev := m.stdDev(); m.n >= 2*evidenceLeast && dev > 1e-9 {
				e.Names, e.Mean, e.StdDev = append(e.Names, name), append(e.Mean, m.mean), append(e.StdDev, dev)
			}
		}
	}
	keep(free)
	free = e.Names
	keep(bought)
	bought = e.Names[len(free):]
	for at, name := range bought {
		e.CostUSD = append(e.CostUSD, f.prices(t.Signals[name+sdk.SignalCostUSD]))
		if v := fitVerdict(t.Quality, t.Signals[name]); v != nil {
			if e.Verdicts == nil {
				e.Verdicts = make([]*boughtVerdict, len(bought))
			}
			e.Verdicts[at] = v
		}
	}
	if len(e.Names) == 0 || !e.fit(f, n) {
		return nil
	}
	return e
}

// prices returns the mean prices of a signal by model; a model without prices gets the
// mean over all.
func (f *latentFit) prices(matrix [][]float64) []float64 {
	var all moments
	own := make([]moments, len(f.Base))
	for _, row := range matrix {
		for i, v := range row {
			all.add(v)
			own[f.triesOf(i)[0]].add(v)
		}
	}
	out := make([]float64, len(own))
	for i := range out {
		out[i] = all.mean
		if m := own[f.triesOf(i)[0]]; m.n > 0 {
			out[i] = m.mean
		}
		out[i] = max(out[i], 0)
	}
	return out
}

// fit fits means and covariance. It reports false if there are too few answers.
func (e *evidence) fit(f *latentFit, models int) bool {
	n := len(e.Names)
	// By model (the last: all), wrong or right, and signal.
	sums, counts := cube(models+1, 2, n), cube(models+1, 2, n)
	each := func(visit func(i int, quality float64, x []float64)) {
		x := make([]float64, n)
		for q, row := range f.t.Quality {
			for i, v := range row {
				if math.IsNaN(v) {
					continue
				}
				for k, name := range e.Names {
					x[k] = e.scale(k, f.t.Signals[name][q][i])
				}
				visit(f.triesOf(i)[0], v, x)
			}
		}
	}
	each(func(i int, quality float64, x []float64) {
		for k, v := range x {
			if math.IsNaN(v) {
				continue
			}
			for _, i := range []int{i, models} {
				for right, w := range [2]float64{1 - quality, quality} {
					sums[i][right][k] += w * v
					counts[i][right][k] += w
				}
			}
		}
	})
	mean := func(i, right, k int) float64 {
		all := sums[models][right][k] / max(counts[models][right][k], 1e-9)
		return (sums[i][right][k] + evidenceWeight*all) / (counts[i][right][k] + evidenceWeight)
	}
	e.Right, e.Wrong, e.Covariance = zeros(models, n), zeros(models, n), square(n)
	for k := range n {
		if min(counts[models][0][k], counts[models][1][k]) < evidenceLeast {
			return false
		}
		for i := range models {
			first := f.triesOf(i)[0]
			e.Wrong[i][k], e.Right[i][k] = mean(first, 0, k), mean(first, 1, k)
		}
	}
	weight := square(n)
	each(func(i int, quality float64, x []float64) {
		for right, w := range [2]float64{1 - quality, quality} {
			around := [2][]float64{e.Wrong[i], e.Right[i]}[right]
			for k, v := range x {
				for l := range k + 1 {
					if p := w * (v - around[k]) * (x[l] - around[l]); !math.IsNaN(p) {
						e.Covariance[k][l] += p
						weight[k][l] += w
					}
				}
			}
		}
	})
	for k := range n {
		for l := range k + 1 {
			e.Covariance[k][l] /= max(weight[k][l], 1)
			e.Covariance[l][k] = e.Covariance[k][l]
		}
		e.Covariance[k][k] += evidenceRidge
	}
	return true
}

// evidenceCursor holds the signals of each model's answer that a cursor has seen.
type evidenceCursor struct {
	*evidence
	x      [][]float64 // model, signal
	log    []float64   // by model: log odds so far
	apart  []float64   // by model: distance of the means so far; see odds
	bought []int       // by model: number of signals
	next   []float64   // by model: the distance that the next signal adds
	silent []bool      // by bought signal: it had no value on this query
}

func newEvidenceCursor(e *evidence, models int) *evidenceCursor {
	return &evidenceCursor{
		evidence: e, x: zeros(models, len(e.Names)), log: make([]float64, models), apart: make([]float64, models),
		bought: make([]int, models), next: make([]float64, models), silent: make([]bool, len(e.CostUSD)),
	}
}

// prepare computes the distance that the first bought signal adds to the free ones'.
func (e *evidence) prepare() {
	e.first = make([]float64, len(e.Right))
	if len(e.CostUSD) == 0 {
		return
	}
	for i := range e.first {
		x := make([]float64, len(e.Names))
		for k := e.free(); k < len(x); k++ {
			x[k] = math.NaN()
		}
		_, without := e.odds(i, x)
		x[e.free()] = 0
		_, with := e.odds(i, x)
		e.first[i] = max(with-without, 0)
	}
}

func (n *evidenceCursor) begin() {
	clear(n.silent)
	for i := range n.x {
		n.log[i], n.apart[i], n.bought[i], n.next[i] = 0, 0, 0, 0
		for k := range n.x[i] {
			n.x[i][k] = math.NaN()
		}
	}
}

// addSignals adds the signals from (inclusive) to to (exclusive) and returns the change of the log odds.
func (n *evidenceCursor) addSignals(model, from, to int, signals []float64) float64 {
	for k := from; k < to; k++ {
		n.x[model][k] = math.NaN()
		if k < len(signals) {
			n.x[model][k] = n.scale(k, signals[k])
		}
	}
	was := n.log[model]
	n.log[model], n.apart[model] = n.odds(model, n.x[model])
	n.next[model] = 0
	if at := n.free() + n.bought[model]; at < len(n.Names) {
		// The distance does not depend on the signal's value.
		n.x[model][at] = 0
		_, with := n.odds(model, n.x[model])
		n.x[model][at] = math.NaN()
		n.next[model] = max(with-n.apart[model], 0)
	}
	return n.log[model] - was
}
