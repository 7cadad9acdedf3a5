package eval

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"
)

// A row is one line of the comparison: how its curve follows from the weights of
// the queries and from the frame that the same weights give.
type row func(weight []float64, f *Frame) Curve

// bootstrap resamples the queries with replacement.
type bootstrap struct {
	// Resamples is their number; 0 means no intervals.
	Resamples int
	// Seed makes the resamples; resample i depends on Seed and i alone, so
	// results do not depend on the number of cores.
	Seed uint64
	// Costs are the costs at which qualities are recorded for the bands of the figures.
	Costs []float64
}

// resample holds the values of each row and resample from which intervals are computed.
type resample struct {
	auc, costAtBest, qualityAtBestCost [][]float64
	// quality[row][cost][resample]
	quality [][][]float64
}

// weights returns how often resample i draws each of n queries.
func (b *bootstrap) weights(i, n int) []float64 {
	rng := rand.New(rand.NewPCG(b.Seed, uint64(i)+1))
	w := make([]float64, n)
	for range n {
		w[rng.IntN(n)]++
	}
	return w
}

// run computes every row on every resample. The frame is that of the resample: the
// limits of the AUC vary with the queries as the curves do.
func (b *bootstrap) run(ctx context.Context, models *Sample, rows []row, done func(int)) (*resample, error) {
	queries := len(models.Cost[0])
	table := func() [][]float64 { return zeros(len(rows), b.Resamples) }
	out := &resample{auc: table(), costAtBest: table(), qualityAtBestCost: table()}
	for range rows {
		out.quality = append(out.quality, zeros(len(b.Costs), b.Resamples))
	}
	err := inParallel(ctx, b.Resamples, func(i int) error {
		w := b.weights(i, queries)
		f := models.frame(w)
		for r, curveOf := range rows {
			c := curveOf(w, &f)
			out.auc[r][i] = c.AUC(&f)
			best := f.Models[f.Best]
			out.qualityAtBestCost[r][i] = c.QualityAt(best.Cost, &f)
			out.costAtBest[r][i] = math.NaN()
			if at, ok := c.Reach(best.Quality); ok {
				out.costAtBest[r][i] = at.Cost
			}
			for k, cost := range b.Costs {
				// The corner left of a curve is no operating point of it.
				if len(c) > 0 {
					cost = max(cost, c[0].Cost)
				}
				out.quality[r][k][i] = c.QualityAt(cost, &f)
			}
		}
		if done != nil {
			done(1)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// interval is a value with its two-sigma limits.
type interval struct{ Value, Low, High float64 }

// twoSigma returns value plus and minus twice the standard deviation of the
// resampled values; without resamples the limits are NaN.
func twoSigma(value float64, values []float64) interval {
	if len(values) < 2 {
		return interval{value, math.NaN(), math.NaN()}
	}
	d := 2 * stat.StdDev(values, nil)
	return interval{value, value - d, value + d}
}

// difference returns the interval of a minus b, paired by resample.
func difference(value float64, a, b []float64) interval {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return twoSigma(value, d)
}

// Significant reports whether zero lies outside the interval.
func (i interval) Significant() bool { return i.Low > 0 || i.High < 0 }
