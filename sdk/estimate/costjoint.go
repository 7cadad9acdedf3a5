package estimate

import (
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// costJoint takes the logarithms of the models' costs as jointly normal around a
// mean that depends on the group and on the length of the prompt. The cost of a
// model that has run moves what is expected of the others by the covariance.
type costJoint struct {
	costMeans
	Variant    string      `json:"variant"`
	Covariance [][]float64 `json:"covariance"`
	// Factor makes the mean of the predictions the mean cost; 0 for a free model.
	Factor []float64 `json:"factor"`
}

// fitCostJoint fits the given variant: KindCostLength without a covariance,
// KindCostConditional with a full one.
func fitCostJoint(t *outcome.Table, variant string) *costJoint {
	e := &costJoint{Variant: variant, Covariance: square(len(t.Models))}
	e.covary(e.fit(t))
	e.Factor = e.factors(t, func(i int) float64 { return e.Covariance[i][i] })
	return e
}

// covary estimates the covariance of the residuals, NaN where unknown.
func (e *costJoint) covary(residual [][]float64) {
	n := len(e.PerLength)
	for i := range n {
		for j := range i + 1 {
			sum, count := 0.0, 0.0
			for _, row := range residual {
				if !math.IsNaN(row[i]) && !math.IsNaN(row[j]) {
					sum += row[i] * row[j]
					count++
				}
			}
			// Drawn to independence as if by n outcomes of none.
			weight := float64(n)
			if i == j {
				weight = 0
			}
			if count > 0 {
				e.Covariance[i][j] = sum / (count + weight)
				e.Covariance[j][i] = e.Covariance[i][j]
			}
		}
		e.Covariance[i][i] += 1e-6
	}
	if e.Variant == KindCostLength {
		for i := range n {
			for j := range n {
				if i != j {
					e.Covariance[i][j] = 0
				}
			}
		}
	}
}

func (e *costJoint) Kind() string { return e.Variant }

func (e *costJoint) check(models int) error {
	if len(e.Covariance) != models || len(e.Factor) != models {
		return fmt.Errorf("parameters do not fit %d models", models)
	}
	for _, row := range e.Covariance {
		if len(row) != models {
			return fmt.Errorf("parameters do not fit %d models", models)
		}
	}
	return e.costMeans.check(models)
}

func (e *costJoint) Cursor() CostCursor {
	n := len(e.PerLength)
	return &costJointCursor{costJoint: e, mean: make([]float64, n), cov: square(n), gain: make([]float64, n), known: make([]float64, n)}
}

type costJointCursor struct {
	*costJoint
	mean  []float64
	cov   [][]float64
	gain  []float64
	known []float64 // cost of a model that has run, NaN else
}

func (c *costJointCursor) Begin(q *Query) {
	c.at(c.mean, q)
	for i := range c.mean {
		c.known[i] = math.NaN()
		copy(c.cov[i], c.Covariance[i])
	}
}

func (c *costJointCursor) Observe(model int, r *Run) {
	if math.IsNaN(r.CostUSD) {
		return
	}
	c.known[model] = r.CostUSD
	variance := c.cov[model][model]
	if !(r.CostUSD > 0) || variance <= 1e-9 || c.Factor[model] <= 0 {
		return
	}
	surprise := math.Log(r.CostUSD) - c.mean[model]
	for i := range c.gain {
		c.gain[i] = c.cov[i][model] / variance
	}
	for i := range c.mean {
		c.mean[i] += c.gain[i] * surprise
	}
	// The model's own row is read by the others and changes last.
	for i := range c.cov {
		if i == model {
			continue
		}
		for j := range c.cov[i] {
			c.cov[i][j] -= c.gain[i] * c.cov[model][j]
		}
	}
	for j := range c.cov[model] {
		c.cov[model][j] = 0
	}
}

func (c *costJointCursor) Costs(dst []float64) {
	for i := range dst {
		dst[i] = c.known[i]
		if math.IsNaN(dst[i]) {
			dst[i] = c.Factor[i] * math.Exp(c.mean[i]+c.cov[i][i]/2)
		}
	}
}
