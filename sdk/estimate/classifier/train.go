package classifier

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// Options say how to train. The zero value is a sensible default.
type Options struct {
	// Signals are the names of the signals to use; nil means all of the table's.
	Signals []string
	// Ridge is the penalty on the squared weights of the standardised signals, in
	// answers; 0 means 1.
	Ridge float64
	// Folds is the number of parts for calibration; 0 means 5.
	Folds int
	// MinRows is the least number of answers for a model's own regression; models with
	// fewer use the one for all. 0 means 50.
	MinRows int
}

var errTooFew = errors.New("too few answers to learn from")

var errNoSignals = errors.New("the outcomes hold no signals to learn from")

// Train fits a classifier to the answers of a table: one regression for each
// model with enough answers, and one for all together. The same table gives the
// same classifier.
func Train(t *outcome.Table, o Options) (*Classifier, error) {
	o.Ridge, o.Folds, o.MinRows = cmp.Or(o.Ridge, 1), cmp.Or(o.Folds, 5), cmp.Or(o.MinRows, 50)
	names := o.Signals
	if names == nil {
		names = t.SignalNames()
	}
	for _, name := range names {
		if t.Signals[name] == nil {
			return nil, fmt.Errorf("the outcomes have no signal %q", name)
		}
	}
	c := &Classifier{Version: version, Models: map[string]*Regression{}}
	var all []row
	for m, model := range t.Models {
		rows := rowsOf(t, m, names)
		all = append(all, rows...)
		if len(rows) < o.MinRows {
			continue
		}
		r, err := train(rows, names, o)
		if err != nil {
			return nil, fmt.Errorf("model %q: %w", model, err)
		}
		if r != nil {
			c.Models[model] = r
		}
	}
	r, err := train(all, names, o)
	if err != nil {
		return nil, err
	}
	if r != nil && len(all) < o.MinRows {
		return nil, fmt.Errorf("%w: %d answers have both a verdict and a signal, and %d are needed: judge more of them, and record log-probabilities (mode observe or shadow, models with the capability log_probs)", errTooFew, len(all), o.MinRows)
	}
	if r == nil {
		return nil, errNoSignals
	}
	c.Models[anyModel] = r
	return c, nil
}

// row is one answer: its signals, NaN where unknown, and its quality.
type row struct {
	query int
	x     []float64
	y     float64
}

func rowsOf(t *outcome.Table, model int, names []string) []row {
	var rows []row
	for q := range t.Queries {
		y := outcome.At(t.Quality, q, model)
		if math.IsNaN(y) {
			continue
		}
		r, known := row{query: q, x: make([]float64, len(names)), y: y}, false
		for i, name := range names {
			r.x[i] = outcome.At(t.Signals[name], q, model)
			known = known || !math.IsNaN(r.x[i])
		}
		if known {
			rows = append(rows, r)
		}
	}
	return rows
}

// train fits and calibrates one regression. It returns nil if no signal varies.
func train(rows []row, names []string, o Options) (*Regression, error) {
	r, err := fit(rows, names, o.Ridge)
	if err != nil || r == nil {
		return nil, err
	}
	r.Rows, r.Slope = len(rows), 1
	var held []row // with one signal: the out-of-fold logit of the answer
	for fold := range o.Folds {
		var in, out []row
		for _, a := range rows {
			// By query, so that one query's answers stay together.
			if a.query%o.Folds == fold {
				out = append(out, a)
			} else {
				in = append(in, a)
			}
		}
		part, err := fit(in, names, o.Ridge)
		if err != nil {
			return nil, err
		}
		if part == nil {
			continue
		}
		single := &Classifier{Models: map[string]*Regression{anyModel: part}}
		for _, a := range out {
			if p, ok := single.Predict(anyModel, namedFeatures(names, a.x)); ok {
				held = append(held, row{query: a.query, x: []float64{logit(p)}, y: a.y})
			}
		}
	}
	if len(held) < 2*o.Folds {
		return r, nil
	}
	// Platt calibration: a regression on the out-of-fold logit alone.
	platt, err := fit(held, []string{"logit"}, o.Ridge)
	if err != nil {
		return nil, err
	}
	if platt != nil && platt.Signals[0].Weight > 0 {
		s := platt.Signals[0]
		r.Slope = s.Weight / s.StdDev
		r.Offset = platt.Intercept - s.Weight*s.Mean/s.StdDev
	}
	r.score(held)
	return r, nil
}

func namedFeatures(names []string, x []float64) map[string]float64 {
	m := make(map[string]float64, len(names))
	for i, name := range names {
		m[name] = x[i]
	}
	return m
}

func logit(p float64) float64 {
	const edge = 1e-9
	p = min(max(p, edge), 1-edge)
	return math.Log(p) - math.Log1p(-p)
}

// score measures the calibrated out-of-fold predictions.
func (r *Regression) score(held []row) {
	mean := 0.0
	for _, h := range held {
		mean += h.y / float64(len(held))
	}
	var tenths [10]bin
	for _, h := range held {
		p := sigmoid(r.Offset + r.Slope*h.x[0])
		b := &tenths[min(int(10*p), 9)]
		b.Count++
		b.Predicted += p
		b.Quality += h.y
		r.Brier += (p - h.y) * (p - h.y) / float64(len(held))
		r.BaseBrier += (mean - h.y) * (mean - h.y) / float64(len(held))
	}
	r.AUC = auc(held)
	for _, b := range tenths {
		if b.Count > 0 {
			n := float64(b.Count)
			r.Reliability = append(r.Reliability, bin{b.Count, b.Predicted / n, b.Quality / n})
		}
	}
}

// auc returns the probability that an answer of quality above one half is ranked above
// one below, where ties count half, or 0 if there is only one kind.
func auc(held []row) float64 {
	sorted := slices.Clone(held)
	slices.SortFunc(sorted, func(a, b row) int { return cmp.Compare(a.x[0], b.x[0]) })
	ranks, right := 0.0, 0.0
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j].x[0] == sorted[i].x[0] {
			j++
		}
		for k := i; k < j; k++ {
			if sorted[k].y > 0.5 {
				ranks += float64(i+j+1) / 2
				right++
			}
		}
		i = j
	}
	wrong := float64(len(sorted)) - right
	if right == 0 || wrong == 0 {
		return 0
	}
	return (ranks - right*(right+1)/2) / (right * wrong)
}

// newtonSteps bounds the iterations. The ridge makes the problem strictly convex, so
// ten are plenty.
const newtonSteps = 50

// fit fits a logistic regression with a ridge penalty by Newton's method. A quality
// between 0 and 1 counts as that share right and the rest wrong. It returns nil if no
// signal varies.
func fit(rows []row, names []string, ridge float64) (*Regression, error) {
	r := &Regression{}
	var columns []int
	for i, name := range names {
		mean, deviation := moments(rows, i)
		if deviation > 0 {
			r.Signals = append(r.Signals, Signal{Name: name, Mean: mean, StdDev: deviation})
			columns = append(columns, i)
		}
	}
	if len(columns) == 0 {
		return nil, nil
	}
	n := len(columns) + 1
	z := make([][]float64, len(rows))
	for k, row := range rows {
		z[k] = make([]float64, n)
		z[k][0] = 1
		for i, column := range columns {
			if x := row.x[column]; !math.IsNaN(x) {
				z[k][i+1] = min(max((x-r.Signals[i].Mean)/r.Signals[i].StdDev, -farthest), farthest)
			}
		}
	}
	weights := make([]float64, n)
	gradient := mat.NewVecDense(n, nil)
	hessian := mat.NewSymDense(n, nil)
	var step mat.VecDense
	var cholesky mat.Cholesky
	for range newtonSteps {
		gradient.Zero()
		hessian.Zero()
		for k, row := range rows {
			sum := 0.0
			for i, x := range z[k] {
				sum += weights[i] * x
			}
			p := sigmoid(sum)
			for i, x := range z[k] {
				gradient.SetVec(i, gradient.AtVec(i)+(row.y-p)*x)
				for j := 0; j <= i; j++ {
					hessian.SetSym(i, j, hessian.At(i, j)+p*(1-p)*x*z[k][j])
				}
			}
		}
		for i := range weights {
			penalty := ridge
			if i == 0 {
				penalty = 1e-6 // only to keep one-sided data finite
			}
			gradient.SetVec(i, gradient.AtVec(i)-penalty*weights[i])
			hessian.SetSym(i, i, hessian.At(i, i)+penalty)
		}
		if !cholesky.Factorize(hessian) {
			return nil, errors.New("the regression has no unique solution")
		}
		if err := cholesky.SolveVecTo(&step, gradient); err != nil {
			return nil, fmt.Errorf("solving the regression: %w", err)
		}
		largest := 0.0
		for i := range weights {
			// Longer steps overshoot where the curve is flat.
			change := min(max(step.AtVec(i), -3), 3)
			weights[i] += change
			largest = max(largest, math.Abs(change))
		}
		if largest < 1e-9 {
			break
		}
	}
	r.Intercept = weights[0]
	for i := range r.Signals {
		r.Signals[i].Weight = weights[i+1]
	}
	return r, nil
}

func moments(rows []row, column int) (mean, deviation float64) {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, r := range rows {
		if x := r.x[column]; !math.IsNaN(x) {
			n++
			d := x - sum
			sum += d / n
			squares += d * (x - sum)
		}
	}
	if n < 2 {
		return sum, 0
	}
	return sum, math.Sqrt(squares / n)
}
