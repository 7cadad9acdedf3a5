package eval

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// costNoise replaces a source's predicted costs by the true cost plus noise, shrunk towards the mean
// according to the noise.
type costNoise struct {
	replay.Source
	predicted [][]float64
}

// newCostNoise simulates the costs on a table. The shrinkage is computed from the mean and variance of
// each model's cost on the train half.
func newCostNoise(s replay.Source, train, on *outcome.Table, stdDev float64, seed uint64) *costNoise {
	rng := rand.New(rand.NewPCG(seed, 0xc057))
	n := len(train.Models)
	means, slopes := make([]float64, n), make([]float64, n)
	column := make([]float64, len(train.Queries))
	for m := range n {
		for q := range train.Queries {
			column[q] = train.CostUSD[q][m]
		}
		mean, variance := stat.PopMeanVariance(column, nil)
		means[m], slopes[m] = mean, variance/(variance+stdDev*stdDev)
	}
	c := &costNoise{Source: s}
	for _, row := range on.CostUSD {
		predicted := make([]float64, n)
		for m, cost := range row {
			seen := cost + stdDev*rng.NormFloat64()
			predicted[m] = math.Max(0, means[m]+slopes[m]*(seen-means[m]))
		}
		c.predicted = append(c.predicted, predicted)
	}
	return c
}

// Start returns a cursor with the source's beliefs about quality.
func (c *costNoise) Start(query int) replay.Cursor {
	return &noisyCosts{c.Source.Start(query), c.predicted[query]}
}

type noisyCosts struct {
	replay.Cursor
	predicted []float64
}

func (c *noisyCosts) Believe(ran []int, beliefs []cascade.Belief, costs []float64) {
	c.Cursor.Believe(ran, beliefs, costs)
	copy(costs, c.predicted)
}

// LookUSD implements [replay.Pricer]: the price of a look is not a predicted cost.
func (c *noisyCosts) LookUSD(look int) float64 { return c.Cursor.(replay.Pricer).LookUSD(look) }
