package fit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// interval is a range of one parameter.
type interval struct{ low, high float64 }

// TPE settings: random trials at first, then the share of trials that count as good
// and the number of samples among which the most promising is tried.
const (
	tpeStart   = 12
	tpeGood    = 0.25
	tpeSamples = 24
)

// tpe maximises a function over a box by a tree-structured Parzen estimator
// (Bergstra et al. 2011): past trials are split into the good ones and the rest,
// each is given a density, and the sample with the greatest ratio of the two is
// tried next. Parameters are treated as independent.
func tpe(rng *rand.Rand, space []interval, trials int, f func([]float64) (float64, error)) error {
	type result struct {
		x     []float64
		score float64
	}
	var past []result
	for n := range trials {
		x := make([]float64, len(space))
		if n < tpeStart {
			for i, s := range space {
				x[i] = s.low + rng.Float64()*(s.high-s.low)
			}
		} else {
			slices.SortStableFunc(past, func(a, b result) int { return cmp.Compare(b.score, a.score) })
			cut := max(2, int(math.Ceil(tpeGood*float64(len(past)))))
			for i, s := range space {
				good, rest := make([]float64, 0, cut), make([]float64, 0, len(past))
				for k, r := range past {
					if k < cut {
						good = append(good, r.x[i])
					} else {
						rest = append(rest, r.x[i])
					}
				}
				x[i] = promising(rng, s, good, rest)
			}
		}
		score, err := f(x)
		if err != nil {
			return err
		}
		past = append(past, result{x, score})
	}
	return nil
}

// promising samples the density of the good values and returns the sample that is
// likeliest under it relative to the density of the rest.
func promising(rng *rand.Rand, s interval, good, rest []float64) float64 {
	best, top := s.low, math.Inf(-1)
	for range tpeSamples {
		x := s.low + rng.Float64()*(s.high-s.low)
		if k := rng.IntN(len(good) + 1); k < len(good) {
			x = min(max(good[k]+width(s, len(good))*rng.NormFloat64(), s.low), s.high)
		}
		if ratio := parzen(s, good, x) / parzen(s, rest, x); ratio > top {
			best, top = x, ratio
		}
	}
	return best
}

// width is the bandwidth for n values.
func width(s interval, n int) float64 {
	return (s.high - s.low) / 4 * math.Pow(float64(n), -0.2)
}

// parzen is the density of normals around the values, mixed with one uniform
// component.
func parzen(s interval, values []float64, x float64) float64 {
	span := s.high - s.low
	if span <= 0 {
		return 1
	}
	w := width(s, max(len(values), 1))
	density := 1 / span
	for _, v := range values {
		d := (x - v) / w
		density += math.Exp(-d*d/2) / (w * math.Sqrt(2*math.Pi))
	}
	return density / float64(len(values)+1)
}
