package fit

import (
	"math"
	"math/rand/v2"
	"slices"
)

// breakChance bounds the probability that n values are as good as these while the mean
// of m further ones lies below a floor, when all n + m were dealt at random: an exact
// test of what was seen against the best m that would break the promise. Nothing else
// is assumed of the values, which lie between low and 1.
//
// With qualities of 0 and 1 it is the tail of a hypergeometric distribution (Fisher's
// exact test). For others the m are the given values, repeated, of which as many are
// set to low as it takes, and the tail is counted over seeded random deals.
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
	broken := breaking(values, low, floor, m)
	if broken == nil {
		return 1
	}
	return dealtTail(append(broken, values...), n, sum)
}

// hypergeometricTail is the probability that of seen+further marked among n+m items n
// drawn at random have at least seen.
func hypergeometricTail(seen, n, further, m int) float64 {
	marked := seen + further
	whole := logChoose(n+m, n)
	tail := 0.0
	for k := seen; k <= min(marked, n); k++ {
		if n-k <= n+m-marked {
			tail += math.Exp(logChoose(marked, k) + logChoose(n+m-marked, n-k) - whole)
		}
	}
	return min(tail, 1)
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// breaking returns m values like the given ones whose mean lies just below the floor;
// nil when the given ones are below it by themselves.
func breaking(values []float64, low, floor float64, m int) []float64 {
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

// deals is over how many random deals a tail is counted where the normal approximation
// leaves it open.
const deals = 2000

// dealtTail is the probability that n of all values, drawn at random, sum to at least
// the given sum.
func dealtTail(all []float64, n int, sum float64) float64 {
	mean, total := 0.0, float64(len(all))
	for _, v := range all {
		mean += v / total
	}
	variance := 0.0
	for _, v := range all {
		variance += (v - mean) * (v - mean) / (total - 1)
	}
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
