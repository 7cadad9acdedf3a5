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
	tpeGood    = 0.15
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
	likely, unlikely := newParzen(s, good), newParzen(s, rest)
	best, top := s.low, math.Inf(-1)
	for range tpeSamples {
		x := likely.sample(rng)
		if ratio := likely.at(x) / unlikely.at(x); ratio > top {
			best, top = x, ratio
		}
	}
	return best
}

// parzen is a mixture of normals around values, each as wide as the way to its
// farther neighbour, and of one uniform component.
type parzen struct {
	interval
	values, widths []float64 // in order
}

func newParzen(s interval, values []float64) *parzen {
	p := &parzen{s, slices.Sorted(slices.Values(values)), make([]float64, len(values))}
	span := s.high - s.low
	narrowest := span / float64(min(100, len(values)+2))
	for i, v := range p.values {
		left, right := v-s.low, s.high-v
		if i > 0 {
			left = v - p.values[i-1]
		}
		if i+1 < len(p.values) {
			right = p.values[i+1] - v
		}
		p.widths[i] = min(max(left, right, narrowest), span)
	}
	return p
}

// sample draws from the mixture, kept within the interval.
func (p *parzen) sample(rng *rand.Rand) float64 {
	k := rng.IntN(len(p.values) + 1)
	if k == len(p.values) {
		return p.low + rng.Float64()*(p.high-p.low)
	}
	return min(max(p.values[k]+p.widths[k]*rng.NormFloat64(), p.low), p.high)
}

// at is the density.
func (p *parzen) at(x float64) float64 {
	span := p.high - p.low
	if span <= 0 {
		return 1
	}
	density := 1 / span
	for i, v := range p.values {
		d := (x - v) / p.widths[i]
		density += math.Exp(-d*d/2) / (p.widths[i] * math.Sqrt(2*math.Pi))
	}
	return density / float64(len(p.values)+1)
}
