package cascade

import (
	"errors"
	"fmt"
	"math"
)

// negInf is the value of having nothing.
var negInf = math.Inf(-1)

// tieTolerance is the difference below which two values of tau count as equal.
const tieTolerance = 1e-8

// Validate reports what makes the state unusable for strategies: slices of different lengths, indexes
// out of range or repeated, and beliefs and costs that are NaN, negative or infinite. All faults are
// reported at once. Entries that no strategy reads (the cost of a model that has run, everything about
// a model that is infeasible and has not run) are not checked.
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
	var faults []error
	if !(s.Coin >= 0 && s.Coin < 1) {
		faults = append(faults, fmt.Errorf("cascade: coin %v lies outside [0, 1)", s.Coin))
	}
	ran := make([]bool, n)
	for _, i := range s.Ran {
		switch {
		case i < 0 || i >= n:
			faults = append(faults, fmt.Errorf("cascade: model %d ran, of %d models", i, n))
		case ran[i]:
			faults = append(faults, fmt.Errorf("cascade: model %d ran twice", i))
		default:
			ran[i] = true
			if b := s.Beliefs[i]; !finite(b.Mean) {
				faults = append(faults, fmt.Errorf("cascade: model %d: post-hoc quality %v", i, b.Mean))
			}
		}
	}
	for i, b := range s.Beliefs {
		if ran[i] || s.Infeasible != nil && s.Infeasible[i] {
			continue
		}
		if err := b.validate(); err != nil {
			faults = append(faults, fmt.Errorf("cascade: model %d: %w", i, err))
		}
		if c := s.Costs[i]; !finite(c) || c < 0 {
			faults = append(faults, fmt.Errorf("cascade: model %d: cost %v", i, c))
		}
	}
	return errors.Join(faults...)
}

func (b Belief) validate() error {
	switch {
	case !finite(b.Mean):
		return fmt.Errorf("mean quality %v", b.Mean)
	case b.Look.validate() != nil:
		return b.Look.validate()
	case b.Unseen:
		return nil
	case b.Bernoulli && (b.Mean < 0 || b.Mean > 1):
		return fmt.Errorf("probability %v lies outside [0, 1]", b.Mean)
	case b.Bernoulli && b.Judge.Validate() != nil:
		return b.Judge.Validate()
	case !(b.Shared >= 0 && b.Shared <= 1):
		return fmt.Errorf("a shared part of %v lies outside [0, 1]", b.Shared)
	case !b.Bernoulli && !(b.StdDev >= 0 && finite(b.StdDev)):
		return fmt.Errorf("standard deviation %v", b.StdDev)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// law is the distribution of one model's post-hoc estimate: normal with deviation
// dev, or, when two is set, the two points lo and hi, of which hi has probability p
// (dev is then 0).
// A normal with dev 0 is the point mean.
type law struct {
	mean, dev float64
	lo, hi, p float64
	two       bool
}

// law returns the distribution of mean + scale·(X - mean), X distributed as the
// belief says: the deviation shrinks with the scale, and the mean stays.
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
	case l.two:
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

// excess returns E[(X - t)^+], what is gained over a sure t.
func (l *law) excess(t float64) float64 {
	switch {
	case l.two:
		return l.p*max(l.hi-t, 0) + (1-l.p)*max(l.lo-t, 0)
	case l.dev == 0:
		return max(l.mean-t, 0)
	}
	return l.dev * normalExcess((l.mean-t)/l.dev)
}

// check panics when the slices of the state disagree in length.
func (s *State) check() {
	if len(s.Costs) != len(s.Beliefs) || s.Infeasible != nil && len(s.Infeasible) != len(s.Beliefs) {
		panic("cascade: beliefs, costs and infeasible marks of a state differ in length")
	}
}

// negligible is the deviation below which a belief counts as deterministic; the
// error of that is at most 0.4 times as large.
const negligible = 1e-12
