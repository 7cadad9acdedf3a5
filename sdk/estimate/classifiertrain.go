package estimate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// The settings of the training of a Classifier.
const (
	// classifierRidge is the penalty on the squared weights of the standardised signals, in answers.
	classifierRidge = 1
	// classifierFolds is the number of parts for calibration.
	classifierFolds = 5
	// classifierLeast is the least number of answers for a model's own regression; models with
	// fewer use the one for all.
	classifierLeast = 50
)

var (
	errTooFew    = errors.New("too few answers to learn from")
	errNoSignals = errors.New("the outcomes hold no signals to learn from")
)

// TrainClassifier fits a classifier to the answers of a table: one regression for each
// model with enough answers, and one for all together. The same table gives the
// same classifier.
func TrainClassifier(t *outcome.Table) (*Classifier, error) {
	c := &Classifier{Version: classifierVersion, Models: map[string]*signalRegression{}}
	names := t.SignalNames()
	var all []signalRow
	for m, model := range t.Models {
		rows := signalRows(t, m, names)
		all = append(all, rows...)
		if len(rows) < classifierLeast {
			continue
		}
		if r := trainRegression(rows, names); r != nil {
			c.Models[model] = r
		}
	}
	r := trainRegression(all, names)
	if r != nil && len(all) < classifierLeast {
		return nil, fmt.Errorf("%w: %d answers have both a verdict and a signal, and %d are needed: judge more of them, and record log-probabilities (mode observe or shadow, models with the capability log_probs)", errTooFew, len(all), classifierLeast)
	}
	if r == nil {
		return nil, errNoSignals
	}
	c.Models[anyModel] = r
	return c, nil
}

// signalRow is one answer: its signals, NaN where unknown, and its quality.
type signalRow struct {
	query int
	x     []float64
	y     float64
}

func signalRows(t *outcome.Table, model int, names []string) []signalRow {
	var rows []signalRow
	for q := range t.Queries {
		r := signalRow{q, make([]float64, len(names)), outcome.At(t.Quality, q, model)}
		for i, name := range names {
			r.x[i] = outcome.At(t.Signals[name], q, model)
		}
		isUnknown := !slices.ContainsFunc(r.x, func(x float64) bool { return !math.IsNaN(x) })
		if !math.IsNaN(r.y) && !isUnknown {
			rows = append(rows, r)
		}
	}
	return rows
}

// trainRegression fits and calibrates one regression. It returns nil if no signal varies.
func trainRegression(rows []signalRow, names []string) *signalRegression {
	r := fitRegression(rows, names)
	if r == nil {
		return nil
	}
	r.Rows, r.Slope = len(rows), 1
	var held []signalRow // with one signal: the out-of-fold logit of the answer
	for fold := range classifierFolds {
		// By query, so that one query's answers stay together.
		isIn := func(a signalRow) bool { return a.query%classifierFolds != fold }
		part := fitRegression(slices.DeleteFunc(slices.Clone(rows), func(a signalRow) bool { return !isIn(a) }), names)
		if part == nil {
			continue
		}
		for _, a := range slices.DeleteFunc(slices.Clone(rows), isIn) {
			if logit, ok := part.logit(func(name string) float64 { return a.x[slices.Index(names, name)] }); ok {
				held = append(held, signalRow{a.query, []float64{logit}, a.y})
			}
		}
	}
	if len(held) < 2*classifierFolds {
		return r
	}
	// Platt calibration: a regression on the out-of-fold logit alone.
	platt := fitRegression(held, []string{"logit"})
	if platt != nil && platt.Signals[0].Weight > 0 {
		s := platt.Signals[0]
		r.Slope = s.Weight / s.StdDev
		r.Offset = platt.Intercept - s.Weight*s.Mean/s.StdDev
	}
	r.score(held)
	return r
}

// score measures the calibrated out-of-fold predictions.
func (r *signalRegression) score(held []signalRow) {
	mean := 0.0
	for _, h := range held {
		mean += h.y / float64(len(held))
	}
	var tenths [10]reliabilityBin
	for _, h := range held {
		p := sigmoid(r.Offset + r.Slope*h.x[0])
		b := &tenths[min(int(10*p), 9)]
		b.Count++
		b.Predicted += p
		b.Quality += h.y
		r.Brier += (p - h.y) * (p - h.y) / float64(len(held))
		r.BaseBrier += (mean - h.y) * (mean - h.y) / float64(len(held))
	}
	r.AUC = rankAUC(held)
	for _, b := range tenths {
		if b.Count > 0 {
			n := float64(b.Count)
			r.Reliability = append(r.Reliability, reliabilityBin{b.Count, b.Predicted / n, b.Quality / n})
		}
	}
}

// rankAUC returns the probability that an answer of quality above one half is ranked above
// one below, where ties count half, or 0 if there is only one kind.
func rankAUC(held []signalRow) float64 {
	sorted := slices.Clone(held)
	slices.SortFunc(sorted, func(a, b signalRow) int { return cmp.Compare(a.x[0], b.x[0]) })
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

// fitRegression fits a logistic regression with a ridge penalty. It returns nil if no signal varies.
func fitRegression(rows []signalRow, names []string) *signalRegression {
	r := &signalRegression{}
	var columns []int
	for i, name := range names {
		var m moments
		for _, row := range rows {
			m.add(row.x[i])
		}
		if deviation := math.Sqrt(m.m2 / m.n); m.n > 1 && deviation > 0 {
			r.Signals = append(r.Signals, signalWeight{Name: name, Mean: m.mean, StdDev: deviation})
			columns = append(columns, i)
		}
	}
	if len(columns) == 0 {
		return nil
	}
	g := ridge{link: linkLogistic, precision: classifierRidge, intercept: 1e-6} // the latter only keeps one-sided data finite
	for _, row := range rows {
		z := make([]float64, len(columns)+1)
		z[0] = 1
		for i, column := range columns {
			if x := row.x[column]; !math.IsNaN(x) {
				z[i+1] = r.Signals[i].scale(x)
			}
		}
		g.add(z, row.y, 1)
	}
	weights := g.fit(len(columns) + 1)
	r.Intercept = weights[0]
	for i := range r.Signals {
		r.Signals[i].Weight = weights[i+1]
	}
	return r
}
