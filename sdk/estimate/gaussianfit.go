package estimate

import (
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// fit fits means by group, and the covariances of the residuals.
func (e *gaussian) fit(t *outcome.Table, _ Options) error {
	e.Verified, e.HasAnte, e.HasPost = t.Verified, t.Ante != nil, t.Post != nil
	e.Groups = groupsOf(t)
	group := make([]int, len(t.Queries))
	for q := range group {
		group[q] = e.Groups.groupOf(t.Group(q))
	}
	groups := len(e.Groups) + 1
	quality := centre(t.Quality, group, groups)
	e.QualityMean = quality.means
	e.StdDev = quality.deviations(group)
	standard := zeros(len(t.Queries), len(t.Models))
	for q, row := range quality.residual {
		for i, v := range row {
			standard[q][i] = v / e.StdDev[group[q]][i]
		}
	}
	e.Correlation = shrinkCorrelations(standard, len(t.Models))
	ante, err := explain(t.Ante, quality, group, groups, t.Models)
	if err != nil {
		return err
	}
	post, err := explain(t.Post, quality, group, groups, t.Models)
	if err != nil {
		return err
	}
	e.AnteMean, e.AnteSlope, e.AnteErrors = ante.means, ante.slope, ante.errors
	e.PostMean, e.PostSlope, e.PostErrors = post.means, post.slope, post.errors
	e.prepare()
	return nil
}

// centredMatrix is a matrix split into the means of its groups and the residuals.
type centredMatrix struct {
	means    [][]float64 // group (the last: all), model
	residual [][]float64
}

// centre shrinks the means of groups with few outcomes towards the overall mean.
func centre(matrix [][]float64, group []int, groups int) centredMatrix {
	n := len(matrix[0])
	overall := make([]float64, n)
	for i := range overall {
		overall[i] = columnMoments(matrix, i).mean
	}
	c := centredMatrix{means: zeros(groups, n), residual: zeros(len(matrix), n)}
	counts := zeros(groups, n)
	for q, row := range matrix {
		for i, v := range row {
			if !math.IsNaN(v) {
				c.means[group[q]][i] += v
				counts[group[q]][i]++
			}
		}
	}
	for g := range c.means {
		for i := range n {
			c.means[g][i] = (c.means[g][i] + groupWeight*overall[i]) / (counts[g][i] + groupWeight)
		}
	}
	copy(c.means[groups-1], overall)
	for q, row := range matrix {
		for i, v := range row {
			c.residual[q][i] = v - c.means[group[q]][i]
		}
	}
	return c
}

// deviations returns the standard deviations of the residuals, by group (the last:
// all) and model. Those of groups are shrunk towards the overall one.
func (c *centredMatrix) deviations(group []int) [][]float64 {
	last, n := len(c.means)-1, len(c.means[0])
	sums, counts := zeros(last+1, n), zeros(last+1, n)
	for q, row := range c.residual {
		for i, v := range row {
			if math.IsNaN(v) {
				continue
			}
			sums[last][i] += v * v
			counts[last][i]++
			if g := group[q]; g < last {
				sums[g][i] += v * v
				counts[g][i]++
			}
		}
	}
	for i := range n {
		overall := sums[last][i] / max(counts[last][i], 1)
		for g := range sums {
			sums[g][i] = math.Sqrt((sums[g][i]+groupWeight*overall)/(counts[g][i]+groupWeight)) + 1e-3
		}
	}
	return sums
}

// signalLine is a signal as a linear function of the quality plus an error.
type signalLine struct {
	means  [][]float64
	slope  []float64
	errors [][]float64 // covariance
}

// explain regresses each model's signal on its quality. A nil matrix stands for a
// signal without information.
func explain(matrix [][]float64, quality centredMatrix, group []int, groups int, models []string) (signalLine, error) {
	n := len(models)
	x := signalLine{means: zeros(groups, n), slope: make([]float64, n), errors: square(n)}
	for i := range n {
		x.errors[i][i] = 1
	}
	if matrix == nil {
		return x, nil
	}
	signal := centre(matrix, group, groups)
	x.means = signal.means
	for i := range n {
		l := fitLine(column(quality.residual, i), column(signal.residual, i))
		if math.IsNaN(l.Intercept) {
			return x, fmt.Errorf("signals of model %q: %w", models[i], errNoOutcomes)
		}
		x.slope[i] = l.Slope
		for q := range signal.residual {
			signal.residual[q][i] -= l.Slope * quality.residual[q][i]
		}
	}
	x.errors = shrinkCorrelations(signal.residual, n)
	return x, nil
}

// shrinkCorrelations returns the covariance of the columns (NaN: unknown), with the
// correlations shrunk towards 0 by the factor that minimises the expected squared error
// (Schäfer and Strimmer 2005).
func shrinkCorrelations(rows [][]float64, n int) [][]float64 {
	dev := make([]float64, n)
	for i := range n {
		m := columnMoments(rows, i)
		dev[i] = math.Sqrt(m.m2/max(m.n, 1)) + 1e-6
	}
	correlation := square(n)
	noise, signal := 0.0, 0.0
	for i := range n {
		for j := range i {
			var m moments
			for q := range rows {
				m.add(rows[q][i] / dev[i] * rows[q][j] / dev[j])
			}
			correlation[i][j], correlation[j][i] = m.mean, m.mean
			signal += m.mean * m.mean
			noise += m.m2 / max(m.n-1, 1) / max(m.n, 1)
		}
	}
	keep := 1.0
	if signal > 0 {
		keep = 1 - min(max(noise/signal, 0), 1)
	}
	out := square(n)
	for i := range n {
		for j := range n {
			out[i][j] = keep * correlation[i][j] * dev[i] * dev[j]
		}
		out[i][i] = dev[i]*dev[i]*1.0001 + 1e-9
	}
	return out
}
