package fit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// errDrawn means that a promise of quality was requested although some outcomes had to be drawn.
var errDrawn = errors.New("no promise of quality can be made of outcomes that were not met")

// fillTable returns a table of outcomes recorded in use, in which the outcomes of models that were not
// called are drawn at random, and the number drawn. Whether a model was called depends on its estimate,
// so the recorded outcomes are a biased sample. Estimators fitted to them estimate the missing ones from
// the outcomes of the same query; their error is measured for each model on the calls made at random,
// each weighted by the odds against it; and the missing outcomes are drawn from the corrected estimates.
// The mean quality and cost of every model are then unbiased, whatever the estimators' errors (the
// augmented inverse-propensity estimator of Robins, Rotnitzky and Zhao, 1994).
func fillTable(t *outcome.Table, o estimate.Options, seed uint64) (*outcome.Table, int, error) {
	fitted, err := estimate.Fit(t, o)
	if err != nil {
		return nil, 0, err
	}
	full := copyTable(t)
	replay, err := fitted.On(full)
	if err != nil {
		return nil, 0, err
	}
	f := &filler{met: t, full: full, replay: replay, beliefs: make([]cascade.Belief, len(t.Models)), costs: make([]float64, len(t.Models))}
	if err := f.correct(); err != nil {
		return nil, 0, err
	}
	rng := rand.New(rand.NewPCG(seed, 0xd4a3))
	drawn := 0
	for _, m := range rng.Perm(len(t.Models)) {
		drawn += f.draw(m, rng)
	}
	return full, drawn, nil
}

func copyTable(t *outcome.Table) *outcome.Table {
	c := *t
	c.Quality, c.CostUSD, c.Propensity = nil, nil, nil
	for q := range t.Queries {
		c.Quality = append(c.Quality, slices.Clone(t.Quality[q]))
		c.CostUSD = append(c.CostUSD, slices.Clone(t.CostUSD[q]))
	}
	return &c
}

// filler draws the missing outcomes of a table.
type filler struct {
	met, full *outcome.Table
	replay    *estimate.Replay
	// quality and paid are the mean quality and cost of a model's missing outcomes; NaN means those
	// of the estimates.
	quality, paid []float64
	beliefs       []cascade.Belief
	costs         []float64
}

// strategicModels returns the models that the strategy chose on a query, not chance.
func (f *filler) strategicModels(q int) []int {
	var ran []int
	for m, v := range f.met.Quality[q] {
		if p := outcome.At(f.met.Propensity, q, m); !math.IsNaN(v) && !(p < 1) {
			ran = append(ran, m)
		}
	}
	return ran
}

// seldomLeftOut is the share of missing queries up to which a model's estimates are used uncorrected if it
// was never called at random.
const seldomLeftOut = 0.1

// ErrLeftOut is an ErrTooFew: too many outcomes are missing because a strategy chose not to call a model.
var ErrLeftOut = fmt.Errorf("%w", ErrTooFew)

// fairSample returns the outcomes of a table that are an unbiased sample: all if few are missing, else the
// queries on which every model was called regardless of its estimate, as in a collection. Other queries
// with outcomes of every model are those on which a strategy was in doubt.
func fairSample(t *outcome.Table) (*outcome.Table, error) {
	err := checkLeftOut(t)
	if err == nil {
		return t, nil
	}
	var fair []int
	for q, row := range t.Propensity {
		if !slices.ContainsFunc(row, func(p float64) bool { return !(p < 1) }) {
			fair = append(fair, q)
		}
	}
	if len(fair) < minQueries {
		return nil, err
	}
	return t.Rows(fair), nil
}

// checkLeftOut returns an error if too many outcomes are missing to fit without drawing them.
func checkLeftOut(t *outcome.Table) error {
	for m, name := range t.Models {
		n := 0
		for q := range t.Queries {
			if math.IsNaN(t.Propensity[q][m]) {
				n++
			}
		}
		if float64(n) > seldomLeftOut*float64(len(t.Queries)) {
			return fmt.Errorf("%w: %s was left out of %d of %d queries for what was believed of them: only where a check judges in use too (verified) can what is missing be drawn", ErrLeftOut, name, n, len(t.Queries))
		}
	}
	return nil
}

// correct measures the errors of the estimates of models that the strategy left out, and sets the mean
// quality and cost of their missing outcomes accordingly.
func (f *filler) correct() error {
	n := len(f.met.Models)
	believed, unpriced := make([][]float64, n), make([][]float64, n)
	f.quality, f.paid = make([]float64, n), make([]float64, n)
	weight, off, paid, expected := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	chance, unjudged := make([]bool, n), make([]int, n)
	for q := range f.met.Queries {
		ran := f.strategicModels(q)
		f.replay.Start(q).Believe(ran, f.beliefs, f.costs)
		for m := range n {
			if slices.Contains(ran, m) {
				continue
			}
			mean := clampShare(f.beliefs[m].Mean)
			p, v, c := outcome.At(f.met.Propensity, q, m), f.met.Quality[q][m], f.met.CostUSD[q][m]
			chance[m] = chance[m] || p < 1
			if math.IsNaN(c) {
				unpriced[m] = append(unpriced[m], f.costs[m])
			}
			if math.IsNaN(v) {
				believed[m] = append(believed[m], mean)
				if !math.IsNaN(p) {
					unjudged[m]++
				}
				continue
			}
			odds := 1/p - 1
			weight[m] += odds
			off[m] += (v - mean) * odds
			if !math.IsNaN(c) {
				paid[m] += c * odds
				expected[m] += f.costs[m] * odds
			}
		}
	}
	for m, name := range f.met.Models {
		f.quality[m], f.paid[m] = math.NaN(), math.NaN()
		switch {
		case weight[m] > 0:
			f.quality[m] = average(believed[m]) + off[m]/weight[m]
			if expected[m] > 0 {
				f.paid[m] = average(unpriced[m]) * paid[m] / expected[m]
			}
		case float64(len(believed[m])) <= seldomLeftOut*float64(len(f.met.Queries)):
		case chance[m]:
			return fmt.Errorf("%w: %s was asked by chance, and no verdict tells what came of it: %d of its answers were judged by nobody, or inconclusively", ErrTooFew, name, unjudged[m])
		default:
			return fmt.Errorf("%w: %s was never asked by chance where it was left out: explore in the trace block has that done, but for match blocks that do not name it", ErrTooFew, name)
		}
	}
	return nil
}

// clampShare clamps a probability so that its odds are finite.
func clampShare(p float64) float64 { return min(max(p, 1e-3), 1-1e-3) }

func shiftLogit(p, by float64) float64 {
	return 1 / (1 + math.Exp(-(math.Log(p/(1-p)) + by)))
}

// shiftTo returns what to add to the log odds of probabilities so that their mean is the given one.
func shiftTo(p []float64, mean float64) float64 {
	low, high := -12.0, 12.0
	for range 50 {
		middle, sum := (low+high)/2, 0.0
		for _, x := range p {
			sum += shiftLogit(x, middle)
		}
		if sum < mean*float64(len(p)) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// draw fills in the missing outcomes of model m, given the recorded and drawn outcomes of the
// others, since outcomes on one query are dependent. It returns how many were missing.
func (f *filler) draw(m int, rng *rand.Rand) (drawn int) {
	var missing, unpriced []int
	var means []float64
	costs := 0.0
	for q, row := range f.full.Quality {
		if !math.IsNaN(row[m]) {
			continue
		}
		f.replay.Start(q).Believe(f.knownModels(q), f.beliefs, f.costs)
		missing, means = append(missing, q), append(means, clampShare(f.beliefs[m].Mean))
		if math.IsNaN(f.full.CostUSD[q][m]) {
			f.full.CostUSD[q][m] = f.costs[m]
			unpriced, costs = append(unpriced, q), costs+f.costs[m]
		}
	}
	shift, factor := 0.0, 1.0
	if want := f.quality[m]; !math.IsNaN(want) {
		shift = shiftTo(means, want)
	}
	if want := f.paid[m] * float64(len(unpriced)); costs > 0 && !math.IsNaN(want) {
		factor = want / costs
	}
	// Systematic sampling: the number of right answers is the expected one, to within one.
	right := rng.Float64()
	for _, i := range rng.Perm(len(missing)) {
		before := math.Floor(right)
		right += shiftLogit(means[i], shift)
		f.full.Quality[missing[i]][m] = math.Floor(right) - before
	}
	for _, q := range unpriced {
		f.full.CostUSD[q][m] *= factor
	}
	return len(missing)
}

// knownModels returns the models that have an outcome on a query, recorded or drawn.
func (f *filler) knownModels(q int) (ran []int) {
	for m, v := range f.full.Quality[q] {
		if !math.IsNaN(v) {
			ran = append(ran, m)
		}
	}
	return ran
}
