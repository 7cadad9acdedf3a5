package holdout

import "math"

// Interval is a closed range around an estimate.
type Interval struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// minRuns is the number of runs from which the mean of costs has an interval: with fewer, the variance is too
// uncertain.
const minRuns = 50

// narrowestAt is the number of runs at which the interval of a mean is narrowest for its coverage.
const narrowestAt = 50

// mean returns the confidence sequence of a positive mean of n values with the given sum, whose variance is
// relativeVariance times the square of their mean: the probability that any of the intervals at n = minRuns, minRuns
// + 1, ... misses the mean is about alpha. It is [0, +Inf] below minRuns.
//
//	log mean ± sqrt(v 2 (n r² + 1) / (n² r²) log(sqrt(n r² + 1) / alpha))
//
// v is the relative variance, r² = (-2 log alpha + log(1 - 2 log alpha)) / 50. The logarithm is for costs, whose tail
// is long: by the delta method it changes nothing in the limit, and with a few dozen values it misses half as often.
func mean(n int, sum, relativeVariance, alpha float64) Interval {
	mean := sum / math.Max(float64(n), 1)
	if n < minRuns || !(mean > 0) {
		return Interval{mean, 0, math.Inf(1)}
	}
	t := float64(n)
	r2 := (-2*math.Log(alpha) + math.Log1p(-2*math.Log(alpha))) / narrowestAt
	half := math.Sqrt(relativeVariance * 2 * (t*r2 + 1) / (t * t * r2) * math.Log(math.Sqrt(t*r2+1)/alpha))
	return Interval{mean, mean * math.Exp(-half), mean * math.Exp(half)}
}

// relativeVariance returns the variance of the runs' costs, divided by the square of the mean.
func (a *arm) relativeVariance() float64 {
	n := float64(a.Runs)
	return math.Max(a.Squares/n/(a.USD/n)/(a.USD/n)-1, 0) * n / (n - 1)
}

// proportion returns the confidence sequence of a proportion with right successes out of n: the probability that any
// of the intervals at n = 1, 2, ... misses it is at most alpha. It contains the proportions p with
//
//	B(right + 1, n - right + 1) / (p^right (1 - p)^(n - right)) < 1 / alpha
//
// where B is the beta function. Without values it is [0, 1].
func proportion(right, n int, alpha float64) Interval {
	if n == 0 {
		return Interval{math.NaN(), 0, 1}
	}
	s, f := float64(right), float64(n-right)
	mixed := lgamma(s+1) + lgamma(f+1) - lgamma(s+f+2)
	// excess is positive at excluded proportions; it falls up to s/n, then rises.
	excess := func(p float64) float64 {
		return mixed - xlogy(s, p) - xlogy(f, 1-p) + math.Log(alpha)
	}
	estimate := s / (s + f)
	return Interval{estimate, findZero(excess, estimate, 0), findZero(excess, estimate, 1)}
}

// difference returns the confidence sequence of the policy's share less the baseline's.
func difference(policy, ofPolicy, base, ofBase int) *Interval {
	p, b := proportion(policy, ofPolicy, alpha/2), proportion(base, ofBase, alpha/2)
	return &Interval{Estimate: p.Estimate - b.Estimate, Low: p.Low - b.High, High: p.High - b.Low}
}

// findZero returns where f becomes positive between inside, where it is negative, and outside; or outside if it does
// not.
func findZero(f func(float64) float64, inside, outside float64) float64 {
	if !(f(outside) > 0) {
		return outside
	}
	for range 60 {
		middle := (inside + outside) / 2
		if f(middle) > 0 {
			outside = middle
		} else {
			inside = middle
		}
	}
	return outside
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// xlogy returns x log y, and 0 for x = 0.
func xlogy(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log(y)
}
