package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// gaussian models the qualities of all models and their ex-ante and post-hoc signals
// as one normal vector around the means of the query's group. Observations condition
// it: the ex-ante signals all at once, each post-hoc signal by a rank-one update when
// its model runs. The deviation of a model that has not run is that of the change
// which its own post-hoc signal would make to its own estimate.
//
// The vector has 2n entries: the post-hoc signals, then the qualities. A signal is a
// linear function of the quality of its model plus an error; the errors of different
// models can be correlated.
type gaussian struct {
	Groups groupNames `json:"groups"`
	// Means by group (the last row is for any other) and model.
	QualityMean [][]float64 `json:"quality_mean"`
	AnteMean    [][]float64 `json:"ante_mean"`
	PostMean    [][]float64 `json:"post_mean"`
	// StdDev is that of the qualities, by group; Correlation is the same in all groups.
	StdDev      [][]float64 `json:"std_dev"`
	Correlation [][]float64 `json:"correlation"`
	AnteSlope   []float64   `json:"ante_slope"`
	PostSlope   []float64   `json:"post_slope"`
	AnteErrors  [][]float64 `json:"ante_errors"`
	PostErrors  [][]float64 `json:"post_errors"`
	// HasAnte and HasPost say which signals the table had.
	HasAnte  bool `json:"has_ante"`
	HasPost  bool `json:"has_post"`
	Verified bool `json:"verified,omitempty"`
	// Gain corrects the deviations; nil leaves them unchanged.
	Gain *gainScale `json:"gain,omitempty"`

	tables []gaussianTable // by group
}

// gaussianTable is the starting point of a cursor in one group.
type gaussianTable struct {
	mean []float64 // of the vector
	// ante, cross and covariance are the covariances of the ex-ante signals, of the
	// vector with them, and of the vector.
	ante, cross, covariance [][]float64
	// gain conditions the vector on all ex-ante signals, and after is the covariance then.
	gain, after [][]float64
}

func (e *gaussian) prepare() {
	n := len(e.Correlation)
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	e.tables = make([]gaussianTable, len(e.QualityMean))
	for g := range e.tables {
		t := &e.tables[g]
		t.mean = append(slices.Clone(e.PostMean[g]), e.QualityMean[g]...)
		t.ante, t.cross, t.covariance = square(n), zeros(2*n, n), square(2*n)
		for i := range n {
			for j := range n {
				c := e.Correlation[i][j] * e.StdDev[g][i] * e.StdDev[g][j]
				t.ante[i][j] = e.AnteSlope[i]*e.AnteSlope[j]*c + e.AnteErrors[i][j]
				t.cross[i][j] = e.PostSlope[i] * e.AnteSlope[j] * c
				t.cross[n+i][j] = e.AnteSlope[j] * c
				t.covariance[i][j] = e.PostSlope[i]*e.PostSlope[j]*c + e.PostErrors[i][j]
				t.covariance[n+i][j] = e.PostSlope[j] * c
				t.covariance[j][n+i] = e.PostSlope[j] * c
				t.covariance[n+i][n+j] = c
			}
		}
		t.gain, t.after = t.conditionOn(all)
	}
}

func submatrix(m [][]float64, at []int) [][]float64 {
	out := square(len(at))
	for i, k := range at {
		for j, l := range at {
			out[i][j] = m[k][l]
		}
	}
	return out
}

// conditionOn conditions the vector on the known ex-ante signals.
func (t *gaussianTable) conditionOn(known []int) (gain, after [][]float64) {
	d := len(t.covariance)
	a := submatrix(t.ante, known)
	gain, after = zeros(d, len(known)), square(d)
	b := make([]float64, len(known))
	for i := range d {
		for j, k := range known {
			b[j] = t.cross[i][k]
		}
		if x := solve(a, b); x != nil {
			gain[i] = x
		}
	}
	for i := range d {
		for j := range d {
			after[i][j] = t.covariance[i][j]
			for k, l := range known {
				after[i][j] -= gain[i][k] * t.cross[j][l]
			}
		}
	}
	return gain, after
}

func (e *gaussian) Kind() string      { return KindGaussian }
func (e *gaussian) Signals() []string { return nil }

func (e *gaussian) setGain(s *gainScale) { e.Gain = s }
func (e *gaussian) looks() bool          { return !e.Verified && e.HasPost }

func (e *gaussian) check(models int) error {
	groups := len(e.Groups) + 1
	for _, c := range []struct {
		rows   [][]float64
		height int
	}{
		{e.QualityMean, groups},
		{e.AnteMean, groups},
		{e.PostMean, groups},
		{e.StdDev, groups},
		{e.Correlation, models},
		{e.AnteErrors, models},
		{e.PostErrors, models},
		{[][]float64{e.AnteSlope, e.PostSlope}, 2},
	} {
		switch {
		case len(c.rows) != c.height:
			return fmt.Errorf("parameters do not fit %d models in %d groups", models, groups-1)
		case !wide(c.rows, models):
			return fmt.Errorf("parameters do not fit %d models", models)
		}
	}
	e.prepare()
	return nil
}

func (e *gaussian) Cursor() qualityCursor {
	n := len(e.Correlation)
	return &gaussianCursor{
		gaussian: e, mean: make([]float64, 2*n), cov: square(2 * n), gainOf: make([]float64, 2*n),
		ran: make([]bool, n), verdict: make([]float64, n), surprise: make([]float64, 0, n), known: make([]int, 0, n),
	}
}

type gaussianCursor struct {
	*gaussian
	mean     []float64
	cov      [][]float64
	gainOf   []float64
	ran      []bool
	verdict  []float64
	surprise []float64
	known    []int
}

func (c *gaussianCursor) Begin(q *queryFacts) {
	g := c.Groups.groupOf(q.Group)
	t := &c.tables[g]
	copy(c.mean, t.mean)
	c.surprise, c.known = c.surprise[:0], c.known[:0]
	for i := range c.ran {
		c.ran[i], c.verdict[i] = false, math.NaN()
		if c.HasAnte && q.Ante != nil && !math.IsNaN(q.Ante[i]) {
			c.known = append(c.known, i)
			c.surprise = append(c.surprise, q.Ante[i]-c.AnteMean[g][i])
		}
	}
	gain, after := t.gain, t.after
	switch len(c.known) {
	case len(c.ran):
	case 0:
		gain, after = nil, t.covariance
	default:
		gain, after = t.conditionOn(c.known)
	}
	for i := range c.mean {
		copy(c.cov[i], after[i])
		for k, s := range c.surprise {
			c.mean[i] += gain[i][k] * s
		}
	}
}

func (c *gaussianCursor) Observe(model int, r *runFacts) {
	c.ran[model] = true
	if c.HasPost && !math.IsNaN(r.Post) {
		c.condition(model, r.Post)
	}
	if !math.IsNaN(r.Verdict) {
		c.verdict[model] = r.Verdict
		c.condition(len(c.ran)+model, r.Verdict)
	}
}

func (c *gaussianCursor) condition(at int, value float64) {
	variance := c.cov[at][at]
	if variance <= 1e-9 {
		return
	}
	surprise := value - c.mean[at]
	for i := range c.mean {
		c.gainOf[i] = c.cov[i][at] / variance
	}
	row := c.cov[at]
	for i := range c.mean {
		c.mean[i] += c.gainOf[i] * surprise
		if i == at || c.gainOf[i] == 0 {
			continue
		}
		for j := range row {
			c.cov[i][j] -= c.gainOf[i] * row[j]
		}
	}
	clear(row)
}

func (c *gaussianCursor) Beliefs(dst []cascade.Belief) {
	n := len(c.ran)
	scale := c.Gain.at(slices.Contains(c.ran, true))
	for i := range dst {
		dst[i] = cascade.Belief{Mean: min(max(c.mean[n+i], 0), 1)}
		switch {
		case !math.IsNaN(c.verdict[i]):
			dst[i].Mean = c.verdict[i]
		case c.ran[i]:
		case c.Verified:
			dst[i].Bernoulli = true
		case c.HasPost && c.cov[i][i] > 0:
			// A quality in [0, 1] varies by no more than mean·(1 - mean).
			share := 1.0
			if v := c.cov[n+i][n+i]; v > dst[i].Mean*(1-dst[i].Mean) {
				share = math.Sqrt(dst[i].Mean * (1 - dst[i].Mean) / v)
			}
			dst[i].StdDev = scale * share * math.Abs(c.cov[n+i][i]) / math.Sqrt(c.cov[i][i])
		}
	}
}
