package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Noise is a noise level of the RouterBench simulation: the standard deviations of the
// Gaussian noise on the true quality, and on the cost in US dollars, before and after a model has run.
// [Simulate] ignores the noise on costs. That after a run has no effect anywhere, because decisions
// ignore cost already spent.
type Noise struct{ Ante, Post, CostAnte, CostPost float64 }

// NoiseLevels are the paper's levels by name: low, medium and high.
func NoiseLevels() map[string]Noise {
	return map[string]Noise{"low": {Ante: 0.6, Post: 0.3}, "medium": {Ante: 1.6, Post: 0.8}, "high": {Ante: 2.4, Post: 1.2}}
}

// Simulate returns the table with ex-ante and post-hoc signals that are the true
// quality plus noise, as in the paper's RouterBench experiment. If a quality is unknown,
// so are its signals.
func Simulate(t *outcome.Table, noise Noise, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 0x901e))
	simulated := *t
	simulated.Ante, simulated.Post = make([][]float64, len(t.Queries)), make([][]float64, len(t.Queries))
	for q, row := range t.Quality {
		simulated.Ante[q], simulated.Post[q] = make([]float64, len(row)), make([]float64, len(row))
		for m, v := range row {
			simulated.Ante[q][m] = v + noise.Ante*rng.NormFloat64()
			simulated.Post[q][m] = v + noise.Post*rng.NormFloat64()
		}
	}
	return &simulated
}

type line struct {
	Intercept float64 `json:"intercept"`
	Slope     float64 `json:"slope"`
}

func (l line) at(x float64) float64 { return l.Intercept + l.Slope*x }

// fitLine returns the least-squares line through the known points, or their mean if
// there are fewer than two different x.
func fitLine(x, y []float64) line {
	n, sx, sy := 0.0, 0.0, 0.0
	for i := range x {
		if !math.IsNaN(x[i] + y[i]) {
			n, sx, sy = n+1, sx+x[i], sy+y[i]
		}
	}
	if n == 0 {
		return line{Intercept: math.NaN()}
	}
	mx, my, sxx, sxy := sx/n, sy/n, 0.0, 0.0
	for i := range x {
		if !math.IsNaN(x[i] + y[i]) {
			sxx += (x[i] - mx) * (x[i] - mx)
			sxy += (x[i] - mx) * (y[i] - my)
		}
	}
	if sxx == 0 {
		return line{Intercept: my}
	}
	return line{Intercept: my - sxy/sxx*mx, Slope: sxy / sxx}
}

// signal maps each model's own signals to quality by straight lines. Its deviation is
// that of the difference between the post-hoc and the ex-ante estimate.
type signal struct {
	Means  []float64 `json:"means"`
	Ante   []line    `json:"ante"`
	Post   []line    `json:"post"`
	StdDev []float64 `json:"std_dev"`
}

func (e *signal) fit(t *outcome.Table, _ Options) error {
	if t.Ante == nil || t.Post == nil {
		return fmt.Errorf("quality estimator %q needs the columns ante and post", KindSignal)
	}
	n := len(t.Models)
	e.Means, e.Ante, e.Post, e.StdDev = t.MeanQualities(), make([]line, n), make([]line, n), make([]float64, n)
	for m := range n {
		ante, post, quality := column(t.Ante, m), column(t.Post, m), column(t.Quality, m)
		e.Ante[m], e.Post[m] = fitLine(ante, quality), fitLine(post, quality)
		if math.IsNaN(e.Ante[m].Intercept) || math.IsNaN(e.Post[m].Intercept) {
			return fmt.Errorf("signals of model %q: %w", t.Models[m], errNoOutcomes)
		}
		var s moments
		for q := range ante {
			s.add(e.Post[m].at(post[q]) - e.Ante[m].at(ante[q]))
		}
		e.StdDev[m] = s.stdDev()
	}
	return nil
}

func (e *signal) Kind() string      { return KindSignal }
func (e *signal) Signals() []string { return nil }
func (e *signal) Cursor() qualityCursor {
	return &signalCursor{e, make([]cascade.Belief, len(e.Means))}
}

func (e *signal) check(models int) error {
	if len(e.Means) != models || len(e.Ante) != models || len(e.Post) != models || len(e.StdDev) != models {
		return fmt.Errorf("parameters do not fit %d models", models)
	}
	return nil
}

type signalCursor struct {
	*signal
	now []cascade.Belief
}

func (c *signalCursor) Begin(q *queryFacts) {
	for m := range c.now {
		c.now[m] = cascade.Belief{Mean: c.Means[m], StdDev: c.StdDev[m]}
		if q.Ante != nil && !math.IsNaN(q.Ante[m]) {
			c.now[m].Mean = c.Ante[m].at(q.Ante[m])
		}
	}
}

func (c *signalCursor) Observe(model int, r *runFacts) {
	if !math.IsNaN(r.Post) {
		c.now[model].Mean = c.Post[model].at(r.Post)
	}
	if !math.IsNaN(r.Verdict) {
		c.now[model].Mean = r.Verdict
	}
	c.now[model].StdDev = 0
}

func (c *signalCursor) Beliefs(dst []cascade.Belief) { copy(dst, c.now) }

func column(matrix [][]float64, model int) []float64 {
	out := make([]float64, len(matrix))
	for q := range matrix {
		out[q] = matrix[q][model]
	}
	return out
}

// moments is a running mean and variance that ignores NaN.
type moments struct{ n, mean, m2 float64 }

func columnMoments(matrix [][]float64, i int) (m moments) {
	for _, row := range matrix {
		m.add(row[i])
	}
	return m
}

func (s *moments) add(x float64) {
	if math.IsNaN(x) {
		return
	}
	s.n++
	d := x - s.mean
	s.mean += d / s.n
	s.m2 += d * (x - s.mean)
}

func (s *moments) stdDev() float64 {
	if s.n < 2 {
		return 0
	}
	return math.Sqrt(s.m2 / (s.n - 1))
}
