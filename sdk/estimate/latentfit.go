package estimate

import (
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// Precisions of the priors, and the size of the fit, of latent.
const (
	latentNodes   = 21
	latentSpan    = 3.5
	latentRounds  = 40
	basePrecision = 0.05
	// slopes are drawn to 1, shifts of a model in a group to none.
	slopePrecision = 2
	shiftPrecision = 2
	// group means are drawn to 0.
	groupPrecision = 1
)

// fitLatent fits by expectation maximisation: the weights of the nodes given all
// outcomes of a query, then each model's logistic regression on the nodes.
func fitLatent(t *outcome.Table) *latent {
	n := len(t.Models)
	e := &latent{Base: make([]float64, n), Slope: make([]float64, n), Verified: t.Verified}
	for k := range latentNodes {
		e.Nodes = append(e.Nodes, latentSpan*(2*float64(k)/(latentNodes-1)-1))
	}
	index := map[string]int{}
	for q := range t.Queries {
		if g := t.Group(q); g != "" {
			index[g] = 0
		}
	}
	e.Groups = slices.Sorted(maps.Keys(index))
	for g, name := range e.Groups {
		index[name] = g
	}
	e.Mean = make([]float64, len(e.Groups)+1)
	e.Shift = make([][]float64, len(e.Groups)+1)
	for g := range e.Shift {
		e.Shift[g] = make([]float64, n)
	}
	for i, v := range t.MeanQualities() {
		e.Base[i], e.Slope[i] = logit(v), 1
	}
	group := make([]int, len(t.Queries))
	for q := range group {
		group[q] = len(e.Groups)
		if g, known := index[t.Group(q)]; known {
			group[q] = g
		}
	}
	f := &latentFit{latent: e, t: t, group: group}
	for range latentRounds {
		f.round()
	}
	if t.Ante != nil && t.Post != nil && !t.Verified {
		e.Ante, e.Post = make([]emission, n), make([]emission, n)
		for i := range n {
			quality := column(t.Quality, i)
			e.Ante[i], e.Post[i] = fitEmission(column(t.Ante, i), quality), fitEmission(column(t.Post, i), quality)
		}
	}
	e.prepare()
	return e
}

type latentFit struct {
	*latent
	t     *outcome.Table
	group []int
}

// round is one round of expectation maximisation.
func (f *latentFit) round() {
	f.prepare()
	n, nodes, groups := len(f.Base), len(f.Nodes), len(f.Mean)
	// By group, model and node: the weight of the outcomes, and of the good ones.
	all, good := cube(groups, n, nodes), cube(groups, n, nodes)
	sums, counts := make([]float64, groups), make([]float64, groups)
	logs, weight := make([]float64, nodes), make([]float64, nodes)
	for q, row := range f.t.Quality {
		g := f.group[q]
		copy(logs, f.tables.prior[g])
		for i, v := range row {
			if math.IsNaN(v) {
				continue
			}
			for k, p := range f.tables.p[g][i] {
				logs[k] += v*math.Log(p) + (1-v)*math.Log(1-p)
			}
		}
		softmax(weight, logs)
		counts[g]++
		for k, w := range weight {
			sums[g] += w * f.Nodes[k]
			for i, v := range row {
				if !math.IsNaN(v) {
					all[g][i][k] += w
					good[g][i][k] += w * v
				}
			}
		}
	}
	for i := range n {
		f.regress(i, all, good)
	}
	for g := range f.Mean[:len(f.Groups)] {
		f.Mean[g] = sums[g] / (counts[g] + groupPrecision)
	}
}

// regress does two Newton steps of model i's penalised logistic regression.
func (f *latentFit) regress(i int, all, good [][][]float64) {
	groups := len(f.Groups)
	d := 2 + groups
	for range 2 {
		grad, hess := make([]float64, d), square(d)
		penalise := func(j int, precision, off float64) {
			grad[j] -= precision * off
			hess[j][j] += precision
		}
		penalise(0, basePrecision, f.Base[i])
		penalise(1, slopePrecision, f.Slope[i]-1)
		for g := range groups {
			penalise(2+g, shiftPrecision, f.Shift[g][i])
		}
		for g := range all {
			for k, z := range f.Nodes {
				w := all[g][i][k]
				if w == 0 {
					continue
				}
				p := sigmoid(f.Base[i] + f.Slope[i]*z + f.Shift[g][i])
				r, h := good[g][i][k]-w*p, w*p*(1-p)
				grad[0] += r
				grad[1] += r * z
				hess[0][0] += h
				hess[0][1] += h * z
				hess[1][1] += h * z * z
				if g < groups {
					grad[2+g] += r
					hess[0][2+g] += h
					hess[1][2+g] += h * z
					hess[2+g][2+g] += h
				}
			}
		}
		step := solve(hess, grad)
		if step == nil {
			return
		}
		f.Base[i] += limit(step[0])
		f.Slope[i] = max(0, f.Slope[i]+limit(step[1]))
		for g := range groups {
			f.Shift[g][i] += limit(step[2+g])
		}
	}
}

// limit keeps a Newton step from running away.
func limit(x float64) float64 { return min(max(x, -2), 2) }

func logit(p float64) float64 {
	p = min(max(p, 0.01), 0.99)
	return math.Log(p / (1 - p))
}

func fitEmission(x, quality []float64) emission {
	var right, wrong [3]float64 // weight, sum, sum of squares
	for q, v := range quality {
		if math.IsNaN(v) || math.IsNaN(x[q]) {
			continue
		}
		for j, power := 0, 1.0; j < 3; j++ {
			right[j] += v * power
			wrong[j] += (1 - v) * power
			power *= x[q]
		}
	}
	// With a class that has hardly been seen the signal tells nothing.
	if right[0] < 3 || wrong[0] < 3 {
		return emission{}
	}
	m := emission{Right: right[1] / right[0], Wrong: wrong[1] / wrong[0]}
	a := max(0, right[2]/right[0]-m.Right*m.Right)
	b := max(0, wrong[2]/wrong[0]-m.Wrong*m.Wrong)
	// Each variance is drawn to the pooled one, which needs fewer outcomes.
	const weight = 20
	pooled := (a*right[0] + b*wrong[0]) / (right[0] + wrong[0])
	m.RightStdDev = math.Sqrt((a*right[0] + pooled*weight) / (right[0] + weight))
	m.WrongStdDev = math.Sqrt((b*wrong[0] + pooled*weight) / (wrong[0] + weight))
	return m
}

func cube(a, b, c int) [][][]float64 {
	out := make([][][]float64, a)
	for i := range out {
		out[i] = make([][]float64, b)
		for j := range out[i] {
			out[i][j] = make([]float64, c)
		}
	}
	return out
}

func square(n int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, n)
	}
	return out
}

// solve solves a·x = b for a symmetric positive definite a of which the upper half
// is read, by Cholesky's factors; nil when a is not definite.
func solve(a [][]float64, b []float64) []float64 {
	n := len(b)
	l := square(n)
	for i := range n {
		for j := range i + 1 {
			s := a[j][i]
			for k := range j {
				s -= l[i][k] * l[j][k]
			}
			if i == j {
				if !(s > 0) {
					return nil
				}
				l[i][i] = math.Sqrt(s)
				continue
			}
			l[i][j] = s / l[j][j]
		}
	}
	x := slices.Clone(b)
	for i := range n {
		for k := range i {
			x[i] -= l[i][k] * x[k]
		}
		x[i] /= l[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= l[k][i] * x[k]
		}
		x[i] /= l[i][i]
	}
	return x
}
