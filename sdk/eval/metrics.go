package eval

import "math"

// Metrics are the metrics of one curve. NaN means undefined: the curve never reaches
// a quality, or the frame's models do not differ.
type Metrics struct {
	// AUC is the mean quality over [cost of the cheapest, cost of the most expensive
	// single model], in [0, 1]: see [Curve.AUC].
	AUC float64
	// AIQ is RouterBench's average improvement in quality: the same mean over
	// the non-decreasing concave hull of the curve.
	AIQ float64
	// APGR is RouteLLM's average performance gap recovered, between the cheapest
	// and the best single model: 0 is the cheapest model's quality throughout,
	// 1 the best one's.
	APGR float64
	// CPT50 and CPT80 are RouteLLM's call-performance thresholds in terms of
	// cost: the share of the way from the cheapest model's cost to the best
	// one's that must be spent to recover 50 % and 80 % of the quality gap.
	CPT50, CPT80 float64
	// CostAtBest is the lowest mean cost at which the curve reaches the best single
	// model's quality, and QualityAtBestCost its quality at that model's cost.
	CostAtBest, QualityAtBestCost float64
	// CostPerSuccess is mean cost divided by mean quality, and Steps the mean number
	// of models run, both at the best single model's quality or, if the curve never
	// reaches that, at its point of highest quality.
	CostPerSuccess, Steps float64
}

// AUC returns the area under the curve as the paper defines it: the integral of
// [Curve.QualityAt] from the mean cost of the cheapest to that of the most expensive
// single model, divided by that range. It is NaN if all models cost the same.
func (c Curve) AUC(f *Frame) float64 {
	low, high := f.costRange()
	return c.meanQuality(low, high, f)
}

// Measure returns all metrics of c.
func (c Curve) Measure(f *Frame) Metrics {
	weak, strong := f.Models[f.Cheapest], f.Models[f.Best]
	m := Metrics{
		AUC: c.AUC(f), AIQ: upperHull(c).AUC(f),
		APGR: math.NaN(), CPT50: math.NaN(), CPT80: math.NaN(), CostAtBest: math.NaN(),
		QualityAtBestCost: c.QualityAt(strong.Cost, f),
		CostPerSuccess:    math.NaN(), Steps: math.NaN(),
	}
	if gap := strong.Quality - weak.Quality; gap > 0 && strong.Cost > weak.Cost {
		m.APGR = (c.meanQuality(weak.Cost, strong.Cost, f) - weak.Quality) / gap
		share := func(recovered float64) float64 {
			p, ok := c.reach(weak.Quality + recovered*gap)
			if !ok {
				return math.NaN()
			}
			return max(0, (p.Cost-weak.Cost)/(strong.Cost-weak.Cost))
		}
		m.CPT50, m.CPT80 = share(0.5), share(0.8)
	}
	at, ok := c.reach(strong.Quality)
	if ok {
		m.CostAtBest = at.Cost
	} else {
		at = c.peak()
	}
	m.Steps = at.Steps
	if at.Quality > 0 {
		m.CostPerSuccess = at.Cost / at.Quality
	}
	return m
}

// peak returns the cheapest point of highest quality.
func (c Curve) peak() Point {
	best := Point{Quality: math.Inf(-1)}
	for _, p := range c {
		if p.Quality > best.Quality {
			best = p
		}
	}
	return best
}
