package cascade

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// negInf is the value of having no answer.
var negInf = math.Inf(-1)

// tieTolerance is the difference below which two values of tau count as equal.
const tieTolerance = 1e-8

// Validate returns an error that lists everything that makes the state unusable for strategies: slices of
// different lengths, indexes out of range or repeated, and beliefs and costs that are NaN, negative or
// infinite. Entries that no strategy reads (the cost of a model that has run, everything about a model
// that is infeasible and has not run) are not checked.
func (s *State) Validate() error {
	n := len(s.Beliefs)
	if n == 0 {
		return errors.New("cascade: state has no models")
	}
	if len(s.Costs) != n {
		return fmt.Errorf("cascade: state has %d beliefs and %d costs", n, len(s.Costs))
	}
	if s.Infeasible != nil && len(s.Infeasible) != n {
		return fmt.Errorf("cascade: state has %d beliefs and %d infeasible marks", n, len(s.Infeasible))
	}
	var f faults
	f.checkf(isShare(s.Coin) && s.Coin < 1, "coin %v lies outside [0, 1)", s.Coin)
	f.checkRan(s)
	for i, b := range s.Beliefs {
		if s.open(i) {
			err := b.validate()
			f.checkf(err == nil, "model %d: %w", i, err)
			f.checkf(isAmount(s.Costs[i]), "model %d: cost %v", i, s.Costs[i])
		}
	}
	return errors.Join(f...)
}

func (f *faults) checkRan(s *State) {
	for k, i := range s.Ran {
		switch n := len(s.Beliefs); {
		case i < 0 || i >= n:
			f.checkf(false, "model %d ran, of %d models", i, n)
		case slices.Contains(s.Ran[:k], i):
			f.checkf(false, "model %d ran twice", i)
		default:
			f.checkf(finite(s.Beliefs[i].Mean), "model %d: post-hoc quality %v", i, s.Beliefs[i].Mean)
		}
	}
}

func (b Belief) validate() error {
	switch {
	case !finite(b.Mean):
		return fmt.Errorf("mean quality %v", b.Mean)
	case b.Look.validate() != nil:
		return b.Look.validate()
	case b.Unseen:
		return nil
	case b.Bernoulli && !isShare(b.Mean):
		return fmt.Errorf("probability %v lies outside [0, 1]", b.Mean)
	case b.Bernoulli && b.Judge.Validate() != nil:
		return b.Judge.Validate()
	case !isShare(b.Shared):
		return fmt.Errorf("a shared part of %v lies outside [0, 1]", b.Shared)
	case !b.Bernoulli && !isAmount(b.StdDev):
		return fmt.Errorf("standard deviation %v", b.StdDev)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func isAmount(x float64) bool { return x >= 0 && finite(x) }

func isShare(x float64) bool { return x >= 0 && x <= 1 }

// law is the distribution of one model's post-hoc estimate: normal with deviation
// dev, or, if isTwoPoint is set, the two points lo and hi, where hi has probability p
// (dev is then 0). A normal with dev 0 is the point mean.
type law struct {
	mean, dev  float64
	lo, hi, p  float64
	isTwoPoint bool
}

// law returns the distribution of mean + scale·(X - mean), where X has the belief's
// distribution: scale shrinks the deviation and keeps the mean.
func (b Belief) law(scale float64) law {
	if b.Unseen {
		return law{mean: b.Mean}
	}
	if !b.Bernoulli {
		dev := b.StdDev * scale
		if dev <= negligible {
			dev = 0
		}
		return law{mean: b.Mean, dev: dev}
	}
	return b.judgedLaw(scale * (1 - b.Shared))
}

// cdf returns P(X <= x).
func (l *law) cdf(x float64) float64 {
	switch {
	case l.isTwoPoint:
		switch {
		case x < l.lo:
			return 0
		case x < l.hi:
			return 1 - l.p
		}
		return 1
	case l.dev == 0:
		if x < l.mean {
			return 0
		}
		return 1
	}
	return normalCDF((x - l.mean) / l.dev)
}

// excess returns E[(X - t)^+], the expected gain over a certain t.
func (l *law) excess(t float64) float64 {
	switch {
	case l.isTwoPoint:
		return l.p*max(l.hi-t, 0) + (1-l.p)*max(l.lo-t, 0)
	case l.dev == 0:
		return max(l.mean-t, 0)
	}
	return l.dev * normalExcess((l.mean-t)/l.dev)
}

// check panics if the slices of the state differ in length.
func (s *State) check() {
	if len(s.Costs) != len(s.Beliefs) || s.Infeasible != nil && len(s.Infeasible) != len(s.Beliefs) {
		panic("cascade: beliefs, costs and infeasible marks of a state differ in length")
	}
}

// negligible is the deviation up to which a belief counts as deterministic, which
// causes an error of at most 0.4 times the deviation.
const negligible = 1e-12
