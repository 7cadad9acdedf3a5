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

// evidence is one model of all numbers that are seen of an answer: log-probabilities,
// the score of a judge, whatever else the table has. They are jointly normal, around one
// mean where the answer is right and another where it is wrong, with one covariance. The
// log odds are then linear in the numbers, as in a logistic regression, with the
// difference that the coefficients for any part of the numbers follow from the same fit:
// what has not been bought is left out exactly, and what two signals say twice counts
// once.
type evidence struct {
	// Names are the signals: the free ones first, then those that are bought, the
	// cheapest first.
	Names []string `json:"names"`
	// CostUSD is the mean price of each signal that is bought, by model; there are as
	// many rows as signals that are bought.
	CostUSD [][]float64 `json:"cost_usd,omitempty"`
	// Verdicts has for each signal that is bought how to read it as a verdict, nil for a
	// number that takes more than two values; it is nil where none is one.
	Verdicts []*boughtVerdict `json:"verdicts,omitempty"`
	// Mean and StdDev bring each signal to a common scale.
	Mean   []float64 `json:"mean"`
	StdDev []float64 `json:"std_dev"`
	// Right and Wrong are the means by model and signal, Covariance that around them.
	Right      [][]float64 `json:"right"`
	Wrong      [][]float64 `json:"wrong"`
	Covariance [][]float64 `json:"covariance"`

	first []float64 // by model: the further distance of the first signal that is bought
}

// boughtVerdict is a signal of two values, the verdict of a judge: above Cut it is a pass.
// Given whether the answer is right it is taken to be independent of the other signals.
type boughtVerdict struct {
	Cut float64 `json:"cut"`
	cascade.Rates
}

// verdict returns how signal k is read as a verdict, nil where it is none.
func (e *evidence) verdict(k int) *boughtVerdict {
	if at := k - e.free(); e.Verdicts != nil && at >= 0 {
		return e.Verdicts[at]
	}
	return nil
}

// fitVerdict returns how to read a signal as a verdict, and how often it errs over all
// models; nil where it does not take two values.
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
			verdicts[i] = (v - low) / (high - low) // of a low one, a high one or none
		}
		own := countVerdicts(quality[q], verdicts)
		all.add(&own, 1)
	}
	return &boughtVerdict{Cut: (low + high) / 2, Rates: all.rates()}
}

// Buys returns the names of the signals that the estimator tells what buying them gains.
func (e *Estimator) Buys() []string {
	if l, ok := e.Quality.(*latent); ok && l.Evidence != nil {
		return l.Evidence.Names[l.Evidence.free():]
	}
	return nil
}

// BoughtJudges returns how often the judges err whose verdicts are bought, by their names.
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
	// evidenceFar is beyond how many deviations a number says no more.
	evidenceFar = 3
	// evidenceRidge is added to the variances, evidenceWeight is how many answers the
	// means of all models stand for in those of one.
	evidenceRidge, evidenceWeight = 0.02, 20
	// evidenceLeast is how many right and wrong answers it takes.
	evidenceLeast = 10
	// evidenceMost bounds the log odds.
	evidenceMost = 20
)

// signalNames returns the signals that evidence reads: those that are free, then those
// that are bought, by their mean price.
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

// free is how many of the signals cost nothing.
func (e *evidence) free() int { return len(e.Names) - len(e.CostUSD) }

// check reports whether what was read from a profile fits.
func (e *evidence) check(models int) bool {
	n := len(e.Names)
	return n > 0 && len(e.Mean) == n && len(e.StdDev) == n &&
		len(e.CostUSD) <= n && wide(e.CostUSD, models) && hasLength(e.Verdicts, len(e.CostUSD)) &&
		len(e.Right) == models && len(e.Wrong) == models && len(e.Covariance) == n && wide(e.Right, n) && wide(e.Wrong, n) && wide(e.Covariance, n) &&
		!slices.ContainsFunc(e.Verdicts, func(v *boughtVerdict) bool { return v != nil && v.Validate() != nil })
}

// scale brings a number to the common scale, NaN if it is unknown; verdicts are 1 and -1.
func (e *evidence) scale(k int, x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return math.NaN()
	}
	if v := e.verdict(k); v != nil {
		return math.Copysign(1, x-v.Cut)
	}
	return min(max((x-e.Mean[k])/e.StdDev[k], -evidenceFar), evidenceFar)
}

// odds returns the logarithm of how much likelier the numbers (NaN: not seen) are if the
// model's answer is right than if it is wrong, and how far apart both cases are: the
// squared distance of the means in the numbers' own deviations.
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

// lookNodes are the points of the rule by which oddsSpread adds up, in deviations.
const lookNodes = 24

// oddsSpread is the standard deviation of a probability p after a number is seen that is
// normal, with means that lie a squared distance apart where the answer is right and
// where it is wrong.
func oddsSpread(p, apart float64) float64 {
	if p <= 0 || p >= 1 || apart <= 0 {
		return 0
	}
	// E[after²] = p·E[after | right], by the midpoint rule, which on a normal is as good
	// as any.
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

// fitEvidence fits the numbers that are seen of answers, those of all answers of a model
// together; nil where the table has none.
func (f *latentFit) fitEvidence() *evidence {
	t, n := f.t, len(f.Base)
	free, bought := signalNames(t)
	if t.Judged() {
		free = nil // beside verdicts that err, what may be bought counts alone
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

// prices are the mean prices of a signal by model, where none is known those of all.
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

// fit fits means and covariance; false with too few answers.
func (e *evidence) fit(f *latentFit, models int) bool {
	n := len(e.Names)
	// Of the numbers, by model (the last: all), wrong or right, and signal.
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
	e.Right, e.Wrong, e.Covariance = square2(models, n), square2(models, n), square(n)
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

// evidenceCursor is what a cursor has seen of the numbers of each model's answer.
type evidenceCursor struct {
	*evidence
	x      [][]float64 // model, signal
	log    []float64   // by model: log odds so far
	apart  []float64   // by model: how far apart both cases lie so far
	bought []int       // by model: how many signals
	next   []float64   // by model: the further distance that the next signal brings
	silent []bool      // by signal that is bought: it had nothing to say on this query
}

func newNoticed(e *evidence, models int) *evidenceCursor {
	return &evidenceCursor{
		evidence: e, x: square2(models, len(e.Names)), log: make([]float64, models), apart: make([]float64, models),
		bought: make([]int, models), next: make([]float64, models), silent: make([]bool, len(e.CostUSD)),
	}
}

// prepare works out what the first signal that is bought brings beyond the free ones.
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

// addSignals takes in the number of a signal and returns by how much the log odds change.
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
		// The distance does not depend on the number.
		n.x[model][at] = 0
		_, with := n.odds(model, n.x[model])
		n.x[model][at] = math.NaN()
		n.next[model] = max(with-n.apart[model], 0)
	}
	return n.log[model] - was
}
