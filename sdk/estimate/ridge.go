package estimate

import "math"

// The link functions of a ridge regression, from the linear predictor to the quality.
const (
	linkLinear   = "linear"
	linkLogistic = "logistic"
)

// ridge is a regression of qualities in [0, 1] on features, with a penalty of
// precision/2 times the squared coefficients other than the first, the intercept. Rows
// are added one by one; the same ridge serves many fits.
type ridge struct {
	link      string
	precision float64
	intercept float64 // precision of the intercept; it keeps that finite if all qualities are 0 or all are 1
	x         [][]float64
	y, weight []float64
}

func (r *ridge) add(x []float64, y, weight float64) {
	r.x, r.y, r.weight = append(r.x, x), append(r.y, y), append(r.weight, weight)
}

// newtonSteps bounds the steps of a logistic fit; convergence is quadratic near the optimum.
const newtonSteps = 12

// fit returns the coefficients for d features, which are 0 without rows.
func (r *ridge) fit(d int) []float64 {
	c := make([]float64, d)
	if len(r.y) == 0 || d == 0 {
		return c
	}
	grad, hess := make([]float64, d), square(d)
	for range newtonSteps {
		r.system(c, grad, hess)
		step := solve(hess, grad)
		if step == nil {
			return c
		}
		size := 0.0
		for j := range c {
			c[j] += limit(step[j])
			size = max(size, math.Abs(step[j]))
		}
		if r.link == linkLinear || size < 1e-6 {
			break
		}
	}
	return c
}

// system fills in the gradient of the penalised log-likelihood and the upper half of
// its negated second derivative.
func (r *ridge) system(c, grad []float64, hess [][]float64) {
	for j := range grad {
		precision := r.precision
		if j == 0 {
			precision = r.intercept
		}
		grad[j] = -precision * c[j]
		clear(hess[j])
		hess[j][j] = precision
	}
	for i, x := range r.x {
		p := applyLink(r.link, dot(c, x))
		rest, curve := r.weight[i]*(r.y[i]-p), r.weight[i]
		if r.link == linkLogistic {
			curve *= p * (1 - p)
		}
		for j, v := range x {
			if v == 0 {
				continue
			}
			grad[j] += rest * v
			row, cv := hess[j], curve*v
			for k := j; k < len(x); k++ {
				row[k] += cv * x[k]
			}
		}
	}
}

func applyLink(link string, x float64) float64 {
	if link == linkLogistic {
		return sigmoid(x)
	}
	return x
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
