package eval

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"
)

// resamples holds the values of each row and resample from which intervals are computed.
type resamples struct {
	auc, costAtBest, qualityAtBestCost [][]float64
	// quality[row][cost][resample]
	quality [][][]float64
}

// weights returns how often resample i draws each of n queries, with replacement. It depends only on
// its arguments, so results do not depend on the number of cores.
func weights(seed uint64, i, n int) []float64 {
	rng := rand.New(rand.NewPCG(seed, uint64(i)+1))
	w := make([]float64, n)
	for range n {
		w[rng.IntN(n)]++
	}
	return w
}

// resample computes every row on every resample of the queries. The frame is that of the resample,
// since the limits of the AUC depend on the queries as the curves do.
func (c *Comparison) resample(ctx context.Context, models *Sample, done func(int)) (*resamples, error) {
	table := func() [][]float64 { return zeros(len(c.Rows), c.Resamples) }
	out := &resamples{auc: table(), costAtBest: table(), qualityAtBestCost: table()}
	for range c.Rows {
		out.quality = append(out.quality, zeros(len(c.Costs), c.Resamples))
	}
	err := inParallel(ctx, c.Resamples, func(i int) error {
		w := weights(c.Seed, i, c.Queries)
		f := models.newFrame(w)
		for r, row := range c.Rows {
			curve := row.curveOf(w, &f)
			out.auc[r][i] = curve.AUC(&f)
			best := f.Models[f.Best]
			out.qualityAtBestCost[r][i] = curve.QualityAt(best.Cost, &f)
			out.costAtBest[r][i] = math.NaN()
			if at, ok := curve.reach(best.Quality); ok {
				out.costAtBest[r][i] = at.Cost
			}
			for k, cost := range c.Costs {
				// The corner left of a curve is not one of its operating points.
				if len(curve) > 0 {
					cost = max(cost, curve[0].Cost)
				}
				out.quality[r][k][i] = curve.QualityAt(cost, &f)
			}
		}
		if done != nil {
			done(1)
		}
		return nil
	})
	return out, err
}

type interval struct{ Value, Low, High float64 }

// twoSigma returns value with limits of plus and minus twice the standard deviation
// of the resampled values; without resamples the limits are NaN.
func twoSigma(value float64, values []float64) interval {
	if len(values) < 2 {
		return interval{value, math.NaN(), math.NaN()}
	}
	d := 2 * stat.StdDev(values, nil)
	return interval{value, value - d, value + d}
}

func (i interval) isSignificant() bool { return i.Low > 0 || i.High < 0 }
