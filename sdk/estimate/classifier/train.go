package classifier

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/estimate"
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
		if r := train(rows, names, o); r != nil {
			c.Models[model] = r
		}
	}
	r := train(all, names, o)
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
func train(rows []row, names []string, o Options) *Regression {
	r := fit(rows, names, o.Ridge)
	if r == nil {
		return nil
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
		part := fit(in, names, o.Ridge)
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
		return r
	}
	// Platt calibration: a regression on the out-of-fold logit alone.
	platt := fit(held, []string{"logit"}, o.Ridge)
	if platt != nil && platt.Signals[0].Weight > 0 {
		s := platt.Signals[0]
		r.Slope = s.Weight / s.StdDev
		r.Offset = platt.Intercept - s.Weight*s.Mean/s.StdDev
	}
	r.score(held)
	return r
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

// fit fits a logistic regression with a ridge penalty. It returns nil if no signal varies.
func fit(rows []row, names []string, ridge float64) *Regression {
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
		return nil
	}
	z, y := make([][]float64, len(rows)), make([]float64, len(rows))
	for k, row := range rows {
		z[k], y[k] = make([]float64, len(columns)+1), row.y
		z[k][0] = 1
		for i, column := range columns {
			if x := row.x[column]; !math.IsNaN(x) {
				z[k][i+1] = min(max((x-r.Signals[i].Mean)/r.Signals[i].StdDev, -farthest), farthest)
			}
		}
	}
	weights := estimate.FitLogistic(z, y, ridge, 1e-6) // the latter only keeps one-sided data finite
	r.Intercept = weights[0]
	for i := range r.Signals {
		r.Signals[i].Weight = weights[i+1]
	}
	return r
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
