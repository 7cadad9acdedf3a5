package fit

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"
)

// breakChance bounds the probability that n values are as good as these while the mean of m further ones
// is below a floor, if all n + m are exchangeable: an exact test against the best m values that break
// the promise. The values lie between low and 1; nothing else is assumed about them.
//
// With qualities of 0 and 1 it is the tail of a hypergeometric distribution (Fisher's
// exact test). Otherwise the m values are the given ones repeated, with as many set to
// low as it takes, and the tail is counted over seeded random permutations.
func breakChance(values []float64, low, floor float64, m int) float64 {
	n := len(values)
	if n == 0 || m <= 0 {
		return 1
	}
	binary, sum := true, 0.0
	for _, v := range values {
		binary = binary && (v == 0 || v == 1)
		sum += v
	}
	if binary && low == 0 {
		most := int(math.Ceil(floor*float64(m)-1e-9)) - 1
		if most < 0 {
			return 0
		}
		return hypergeometricTail(int(sum), n, min(most, m), m)
	}
	broken := valuesBelow(values, low, floor, m)
	if broken == nil {
		return 1
	}
	return dealtTail(append(broken, values...), n, sum)
}

// hypergeometricTail returns the probability that n items drawn at random from n+m, of which seen+further
// are marked, contain at least seen marked ones.
func hypergeometricTail(seen, n, further, m int) float64 {
	marked := seen + further
	logChoose := func(n, k int) float64 { return combin.LogGeneralizedBinomial(float64(n), float64(k)) }
	whole := logChoose(n+m, n)
	tail := 0.0
	for k := seen; k <= min(marked, n); k++ {
		if n-k <= n+m-marked {
			tail += math.Exp(logChoose(marked, k) + logChoose(n+m-marked, n-k) - whole)
		}
	}
	return min(tail, 1)
}

// valuesBelow returns m values like the given ones whose mean lies just below the floor, or nil if the
// mean of the given ones already does.
func valuesBelow(values []float64, low, floor float64, m int) []float64 {
	out := make([]float64, m)
	order := rand.New(rand.NewPCG(1, uint64(m))).Perm(m)
	sum := 0.0
	for i := range out {
		out[i] = values[i*len(values)/m]
		sum += out[i]
	}
	target := floor*float64(m) - 1e-9
	if sum <= target {
		return nil
	}
	for _, i := range order {
		if sum <= target {
			break
		}
		sum -= out[i] - low
		out[i] = low
	}
	return out
}

// deals is the number of random permutations over which a tail is counted if the normal approximation is
// not clear enough.
const deals = 2000

// dealtTail returns the probability that n of all values, drawn at random, sum to at least sum.
func dealtTail(all []float64, n int, sum float64) float64 {
	total := float64(len(all))
	mean, variance := stat.MeanVariance(all, nil)
	dev := math.Sqrt(variance * float64(n) * (total - float64(n)) / total)
	if dev == 0 {
		return 1
	}
	if p := math.Erfc((sum-mean*float64(n))/(dev*math.Sqrt2)) / 2; p < 1e-3 || p > 0.3 {
		return p
	}
	rng := rand.New(rand.NewPCG(uint64(len(all)), uint64(n)))
	all = slices.Clone(all)
	reached := 1.0
	for range deals {
		dealt := 0.0
		for i := range n {
			j := i + rng.IntN(len(all)-i)
			all[i], all[j] = all[j], all[i]
			dealt += all[i]
		}
		if dealt >= sum-1e-9 {
			reached++
		}
	}
	return reached / (deals + 1)
}
