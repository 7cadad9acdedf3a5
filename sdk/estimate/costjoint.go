package estimate

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// costJoint takes the logarithms of the models' costs as jointly normal around a
// mean that depends on the group and on the length of the prompt. The cost of a
// model that has run moves what is expected of the others: conditional on it, with
// a full covariance, or through one shared factor, the latent cost of the query.
type costJoint struct {
	Variant string   `json:"variant"`
	Groups  []string `json:"groups"`
	// Mean is by group (the last row for any other) and model, of the log cost.
	Mean [][]float64 `json:"mean"`
	// PerLength is what one unit of the prompt's log length adds, by model.
	PerLength  []float64   `json:"per_length"`
	Center     float64     `json:"center"`
	Covariance [][]float64 `json:"covariance"`
	// Factor makes the mean of the predictions the mean cost; 0 for a free model.
	Factor []float64 `json:"factor"`

	group map[string]int
}

// fitCostJoint fits the given variant: KindCostLength without a covariance,
// KindCostConditional with a full one, KindCostLatent with one factor.
func fitCostJoint(t *outcome.Table, variant string) *costJoint {
	n := len(t.Models)
	e := &costJoint{Variant: variant, PerLength: make([]float64, n), Covariance: square(n), Factor: make([]float64, n)}
	index := map[string]bool{}
	var center moments
	logs, x := make([][]float64, len(t.Queries)), make([]float64, len(t.Queries))
	for q, row := range t.CostUSD {
		if g := t.Group(q); g != "" {
			index[g] = true
		}
		x[q] = math.NaN()
		if tokens := promptTokens(t, q); tokens > 0 {
			x[q] = math.Log(tokens)
		}
		center.add(x[q])
		logs[q] = make([]float64, n)
		for i, c := range row {
			logs[q][i] = math.NaN()
			if c > 0 {
				logs[q][i] = math.Log(c)
			}
		}
	}
	e.Center = center.mean
	e.Groups = slices.Sorted(maps.Keys(index))
	e.Mean = square2(len(e.Groups)+1, n)
	e.prepare()
	group := make([]int, len(t.Queries))
	for q := range x {
		group[q] = e.groupOf(t.Group(q))
		x[q] -= e.Center
		if math.IsNaN(x[q]) {
			x[q] = 0
		}
	}
	for i := range n {
		e.regress(i, logs, x, group)
	}
	residual := logs
	for q := range logs {
		for i := range n {
			residual[q][i] -= e.Mean[group[q]][i] + e.PerLength[i]*x[q]
		}
	}
	e.covary(residual)
	// What the predictions before any run come to, model by model.
	means := t.MeanCosts()
	for i := range n {
		sum, count := 0.0, 0.0
		for q := range x {
			if !math.IsNaN(t.CostUSD[q][i]) {
				sum += math.Exp(e.Mean[group[q]][i] + e.PerLength[i]*x[q] + e.Covariance[i][i]/2)
				count++
			}
		}
		if sum > 0 {
			e.Factor[i] = means[i] * count / sum
		}
	}
	return e
}

// Effects of groups and of length are drawn to none as if by so many outcomes.
const (
	costGroupPrecision  = 3
	costLengthPrecision = 10
)

// regress fits one model's mean.
func (e *costJoint) regress(i int, logs [][]float64, x []float64, group []int) {
	groups := len(e.Groups)
	d := groups + 1
	var overall moments
	for q := range logs {
		overall.add(logs[q][i])
	}
	a, b := square(d), make([]float64, d)
	for q, row := range logs {
		if math.IsNaN(row[i]) {
			continue
		}
		y := row[i] - overall.mean
		a[groups][groups] += x[q] * x[q]
		b[groups] += x[q] * y
		if g := group[q]; g < groups {
			a[g][g]++
			a[g][groups] += x[q]
			b[g] += y
		}
	}
	for g := range groups {
		a[g][g] += costGroupPrecision
	}
	a[groups][groups] += costLengthPrecision
	c := solve(a, b)
	for g := range e.Mean {
		e.Mean[g][i] = overall.mean
		if c != nil && g < groups {
			e.Mean[g][i] += c[g]
		}
	}
	if c != nil {
		e.PerLength[i] = c[groups]
	}
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
	switch e.Variant {
	case KindCostLength:
		for i := range n {
			for j := range n {
				if i != j {
					e.Covariance[i][j] = 0
				}
			}
		}
	case KindCostLatent:
		e.factorise()
	}
}

// factorise replaces the covariance by one factor and independent rests: principal
// factor analysis.
func (e *costJoint) factorise() {
	n := len(e.PerLength)
	load := make([]float64, n)
	for i := range n {
		load[i] = math.Sqrt(e.Covariance[i][i])
	}
	for range 200 {
		// load_i minimises the squared error of the entries off the diagonal.
		for i := range n {
			top, bottom := 0.0, 0.0
			for j := range n {
				if i != j {
					top += e.Covariance[i][j] * load[j]
					bottom += load[j] * load[j]
				}
			}
			if bottom > 0 {
				limit := 0.95 * math.Sqrt(e.Covariance[i][i])
				load[i] = min(max(top/bottom, -limit), limit)
			}
		}
	}
	for i := range n {
		for j := range n {
			if i != j {
				e.Covariance[i][j] = load[i] * load[j]
			}
		}
	}
}

func (e *costJoint) prepare() {
	e.group = map[string]int{}
	for g, name := range e.Groups {
		e.group[name] = g
	}
}

func (e *costJoint) groupOf(name string) int {
	if g, known := e.group[name]; known {
		return g
	}
	return len(e.Groups)
}

func (e *costJoint) Kind() string { return e.Variant }

func (e *costJoint) check(models int) error {
	if len(e.PerLength) != models || len(e.Covariance) != models || len(e.Factor) != models || len(e.Mean) != len(e.Groups)+1 {
		return fmt.Errorf("parameters do not fit %d models", models)
	}
	for _, rows := range [][][]float64{e.Mean, e.Covariance} {
		for _, row := range rows {
			if len(row) != models {
				return fmt.Errorf("parameters do not fit %d models", models)
			}
		}
	}
	e.prepare()
	return nil
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
	g := c.groupOf(q.Group)
	x := 0.0
	if q.InputTokens > 0 {
		x = math.Log(q.InputTokens) - c.Center
	}
	for i := range c.mean {
		c.mean[i] = c.Mean[g][i] + c.PerLength[i]*x
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
