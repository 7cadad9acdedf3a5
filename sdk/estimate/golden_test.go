package estimate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The tests of this file compare each estimator with values computed by other means: in
// closed form, by hand, or by summing a density over a fine grid.

// readParams returns an estimator with these parameters, as a profile has them.
func readParams(t *testing.T, quality, cost string) *estimate.Estimator {
	t.Helper()
	var e estimate.Estimator
	if err := json.Unmarshal(fmt.Appendf(nil, `{"models":["a","b"],"quality":%s,"cost":%s}`, quality, cost), &e); err != nil {
		t.Fatal(err)
	}
	return &e
}

const (
	anyQuality = `{"kind":"mean","params":{"overall":[0.5,0.5]}}`
	anyCost    = `{"kind":"mean","params":{"cost_usd":[1,1]}}`
)

// fitParams fits an estimator and returns the parameters of a fit, as a profile has them.
func fitParams(t *testing.T, table *outcome.Table, o estimate.Options, quality, cost any) *estimate.Estimator {
	t.Helper()
	e, err := estimate.Fit(table, o)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	file := struct {
		Quality, Cost struct{ Params json.RawMessage }
	}{}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		from json.RawMessage
		into any
	}{{file.Quality.Params, quality}, {file.Cost.Params, cost}} {
		if p.into == nil {
			continue
		}
		if err := json.Unmarshal(p.from, p.into); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// table of two models: a row is the two qualities.
func rows(quality ...[]float64) *outcome.Table {
	t := &outcome.Table{Models: []string{"a", "b"}, Quality: quality}
	for q := range quality {
		t.Queries = append(t.Queries, fmt.Sprint("q", q))
		t.CostUSD = append(t.CostUSD, []float64{1, 2})
	}
	return t
}

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want)) // NaN is close to nothing
}

// shown is a run of which this is known.
func shown(change func(*estimate.Run)) *estimate.Run {
	nan := math.NaN()
	r := &estimate.Run{Verdict: nan, Post: nan, CostUSD: nan, OutputTokens: nan}
	change(r)
	return r
}

func normal(x, mean, variance float64) float64 {
	return math.Exp(-(x-mean)*(x-mean)/(2*variance)) / math.Sqrt(2*math.Pi*variance)
}

// normal2 is the density of two normal variables of mean 0 with this covariance.
func normal2(x, y float64, c [2][2]float64) float64 {
	det := c[0][0]*c[1][1] - c[0][1]*c[0][1]
	return math.Exp(-(c[1][1]*x*x-2*c[0][1]*x*y+c[0][0]*y*y)/(2*det)) / (2 * math.Pi * math.Sqrt(det))
}

// A group's mean is shrunk by four outcomes at the overall mean.
func TestGoldenMean(t *testing.T) {
	table := rows([]float64{1, 0}, []float64{1, 1}, []float64{0, math.NaN()}, []float64{0, 1}, []float64{0, 0})
	table.Groups = []string{"x", "x", "x", "y", ""}
	e := fitParams(t, table, estimate.Options{Quality: estimate.KindMean}, nil, nil)
	for group, want := range map[string][2]float64{
		// Over all, a is right in 2 of 5 and b in 2 of 4.
		"":  {0.4, 0.5},
		"z": {0.4, 0.5},
		"x": {(2 + 4*0.4) / (3 + 4), (1 + 4*0.5) / (2 + 4)},
		"y": {(0 + 4*0.4) / (1 + 4), (1 + 4*0.5) / (1 + 4)},
	} {
		c, b := e.Quality.Cursor(), make([]cascade.Belief, 2)
		c.Begin(&estimate.Query{Group: group})
		c.Beliefs(b)
		if !near(b[0].Mean, want[0], 1e-12) || !near(b[1].Mean, want[1], 1e-12) || b[0].StdDev != 0 {
			t.Errorf("group %q: %v, want %v", group, b, want)
		}
		c.Observe(1, shown(func(r *estimate.Run) { r.Verdict = 0.25 }))
		c.Beliefs(b)
		if b[1] != (cascade.Belief{Mean: 0.25}) || !near(b[0].Mean, want[0], 1e-12) {
			t.Errorf("group %q after a verdict on b: %v", group, b)
		}
	}
}

// A signal is mapped by the line through the outcomes; a run is expected to change the
// estimate by as much as the two lines differed.
func TestGoldenSignal(t *testing.T) {
	table := rows([]float64{0, 0}, []float64{0, 1}, []float64{1, 0}, []float64{1, 1})
	table.Ante = [][]float64{{0, 5}, {1, 5}, {2, 5}, {3, 5}} // a's line is -0.1 + 0.4 x; b's signal never changes
	table.Post = [][]float64{{0, 1}, {0, 3}, {2, 1}, {4, 3}} // a's is 1/11 + 3/11 x, b's -0.5 + 0.5 x
	e := fitParams(t, table, estimate.Options{Quality: estimate.KindSignal}, nil, nil)
	c, b := e.Quality.Cursor(), make([]cascade.Belief, 2)
	c.Begin(&estimate.Query{Ante: []float64{2.5, 9}})
	c.Beliefs(b)
	// What the lines of a differ by on the four queries: 1/11+0.1, 1/11-0.3, 7/11-0.7, 13/11-1.1.
	d := []float64{1.0/11 + 0.1, 1.0/11 - 0.3, 7.0/11 - 0.7, 13.0/11 - 1.1}
	sum, squares := 0.0, 0.0
	for _, v := range d {
		sum, squares = sum+v, squares+v*v
	}
	dev := math.Sqrt((squares - sum*sum/4) / 3)
	// Those of b: -0.5, 0.5, -0.5, 0.5.
	if !near(b[0].Mean, 0.9, 1e-12) || !near(b[0].StdDev, dev, 1e-9) || !near(b[1].Mean, 0.5, 1e-12) || !near(b[1].StdDev, math.Sqrt(1.0/3), 1e-9) {
		t.Errorf("before: %+v, want 0.9 ± %v and 0.5 ± %v", b, dev, math.Sqrt(1.0/3))
	}
	c.Observe(0, shown(func(r *estimate.Run) { r.Post = 3 }))
	c.Beliefs(b)
	if !near(b[0].Mean, 10.0/11, 1e-12) || b[0].StdDev != 0 || !near(b[1].Mean, 0.5, 1e-12) {
		t.Errorf("after: %+v, want 10/11", b)
	}
	c.Begin(&estimate.Query{})
	c.Beliefs(b)
	if !near(b[0].Mean, 0.5, 1e-12) {
		t.Errorf("without a signal: %v, want the mean", b[0].Mean)
	}
}

// gaussianParams are those of a joint Gaussian of two models.
type gaussianParams struct {
	QualityMean [][]float64 `json:"quality_mean"`
	AnteMean    [][]float64 `json:"ante_mean"`
	PostMean    [][]float64 `json:"post_mean"`
	StdDev      [][]float64 `json:"std_dev"`
	Correlation [][]float64 `json:"correlation"`
	AnteSlope   []float64   `json:"ante_slope"`
	PostSlope   []float64   `json:"post_slope"`
	AnteErrors  [][]float64 `json:"ante_errors"`
	PostErrors  [][]float64 `json:"post_errors"`
	HasAnte     bool        `json:"has_ante"`
	HasPost     bool        `json:"has_post"`
	Groups      []string    `json:"groups"`
}

func pair(rows [][]float64) [2][2]float64 {
	return [2][2]float64{{rows[0][0], rows[0][1]}, {rows[1][0], rows[1][1]}}
}

// byQuadrature adds up, on a grid over the two qualities, their density given what was
// seen: NaN is not seen. post is of model a; verdict, of a too, fixes its quality. It
// returns the means of both qualities, and the deviation of what b's own signal would
// change in the mean of b.
func (p *gaussianParams) byQuadrature(ante [2]float64, post, verdict float64) (meanA, meanB, devB float64) {
	c := [2][2]float64{}
	for i := range 2 {
		for j := range 2 {
			c[i][j] = p.Correlation[i][j] * p.StdDev[0][i] * p.StdDev[0][j]
		}
	}
	a, b := pair(p.AnteErrors), pair(p.PostErrors)
	const steps, span = 160, 8.0
	var mass, sumA, sumB, squareB, sumS, squareS, product float64
	for i := range steps {
		x := span * math.Sqrt(c[0][0]) * (2*(float64(i)+0.5)/steps - 1)
		if !math.IsNaN(verdict) {
			if i > 0 {
				break
			}
			x = verdict - p.QualityMean[0][0]
		}
		for j := range steps {
			y := span * math.Sqrt(c[1][1]) * (2*(float64(j)+0.5)/steps - 1)
			w := normal2(x, y, c)
			e := [2]float64{ante[0] - p.AnteMean[0][0] - p.AnteSlope[0]*x, ante[1] - p.AnteMean[0][1] - p.AnteSlope[1]*y}
			switch {
			case math.IsNaN(ante[0]) && math.IsNaN(ante[1]):
			case math.IsNaN(ante[1]):
				w *= normal(e[0], 0, a[0][0])
			case math.IsNaN(ante[0]):
				w *= normal(e[1], 0, a[1][1])
			default:
				w *= normal2(e[0], e[1], a)
			}
			// b's signal given the qualities, and the error of a's where that was seen.
			s, v := p.PostSlope[1]*y, b[1][1]
			if !math.IsNaN(post) {
				seen := post - p.PostMean[0][0] - p.PostSlope[0]*x
				w *= normal(seen, 0, b[0][0])
				s += b[0][1] / b[0][0] * seen
				v -= b[0][1] * b[0][1] / b[0][0]
			}
			mass, sumA, sumB, squareB = mass+w, sumA+w*x, sumB+w*y, squareB+w*y*y
			sumS, squareS, product = sumS+w*s, squareS+w*(s*s+v), product+w*s*y
		}
	}
	sumA, sumB, sumS = sumA/mass, sumB/mass, sumS/mass
	meanA, meanB = p.QualityMean[0][0]+sumA, p.QualityMean[0][1]+sumB
	devB = math.Abs(product/mass-sumS*sumB) / math.Sqrt(squareS/mass-sumS*sumS)
	// A quality in [0, 1] varies by no more than its mean allows.
	if variance, most := squareB/mass-sumB*sumB, meanB*(1-meanB); variance > most {
		devB *= math.Sqrt(most / variance)
	}
	return meanA, meanB, devB
}

// The joint Gaussian's posterior is that of the density added up on a grid, whether the
// models err alike or in opposite ways.
func TestGoldenGaussianPosterior(t *testing.T) {
	nan := math.NaN()
	for _, sign := range []float64{1, -1} {
		p := &gaussianParams{
			QualityMean: [][]float64{{0.6, 0.55}}, AnteMean: [][]float64{{0.5, 0.7}}, PostMean: [][]float64{{0.4, 0.6}}, StdDev: [][]float64{{0.3, 0.25}},
			Correlation: [][]float64{{1, sign * 0.6}, {sign * 0.6, 1}}, AnteSlope: []float64{0.4, 0.3}, PostSlope: []float64{0.8, 0.9},
			AnteErrors: [][]float64{{0.04, 0.01}, {0.01, 0.05}}, PostErrors: [][]float64{{0.02, -0.008}, {-0.008, 0.03}}, HasAnte: true, HasPost: true, Groups: []string{},
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		e := readParams(t, `{"kind":"gaussian","params":`+string(data)+`}`, anyCost)
		for _, c := range []struct {
			ante          [2]float64
			post, verdict float64
		}{
			{[2]float64{nan, nan}, nan, nan}, {[2]float64{0.6, 0.65}, nan, nan}, {[2]float64{0.3, nan}, nan, nan}, {[2]float64{nan, 0.9}, nan, nan},
			{[2]float64{nan, nan}, 0.7, nan}, {[2]float64{0.6, 0.65}, 0.7, nan}, {[2]float64{0.6, 0.65}, 0.1, nan}, {[2]float64{nan, 0.9}, 0.2, nan},
			{[2]float64{nan, nan}, nan, 1}, {[2]float64{0.6, 0.65}, nan, 0}, {[2]float64{0.3, nan}, 0.5, 0.8},
		} {
			cursor, b := e.Quality.Cursor(), make([]cascade.Belief, 2)
			q := &estimate.Query{Ante: c.ante[:]}
			cursor.Begin(q)
			if !math.IsNaN(c.post) || !math.IsNaN(c.verdict) {
				cursor.Observe(0, shown(func(r *estimate.Run) { r.Post, r.Verdict = c.post, c.verdict }))
			}
			cursor.Beliefs(b)
			meanA, meanB, devB := p.byQuadrature(c.ante, c.post, c.verdict)
			if !near(b[0].Mean, meanA, 1e-6) || !near(b[1].Mean, meanB, 1e-6) || !near(b[1].StdDev, devB, 1e-6) {
				t.Errorf("correlation %v, seen %+v: %v, %v ± %v; on the grid %v, %v ± %v", sign*0.6, c, b[0].Mean, b[1].Mean, b[1].StdDev, meanA, meanB, devB)
			}
		}
	}
}

// signalled is a small table with signals.
func signalled() *outcome.Table {
	table := rows([]float64{1, 1}, []float64{0.9, 0.7}, []float64{0.2, 0.4}, []float64{0, 0.3}, []float64{0.8, 1}, []float64{0.1, 0}, []float64{0.5, 0.6}, []float64{0.6, 0.9}, []float64{0.3, 0.1}, []float64{0.7, 0.5})
	rng := rand.New(rand.NewPCG(7, 8))
	for _, q := range table.Quality {
		shared := rng.NormFloat64()
		table.Ante = append(table.Ante, []float64{0.5*q[0] + 0.1*shared + 0.05*rng.NormFloat64(), 0.3*q[1] + 0.2*shared + 0.05*rng.NormFloat64()})
		table.Post = append(table.Post, []float64{0.9*q[0] - 0.1*shared + 0.02*rng.NormFloat64(), 0.8*q[1] - 0.1*shared + 0.02*rng.NormFloat64()})
	}
	return table
}

// columns of a matrix of two, less their means, and the means.
func centredMatrix(matrix [][]float64) (a, b []float64, meanA, meanB float64) {
	n := float64(len(matrix))
	for _, row := range matrix {
		meanA, meanB = meanA+row[0]/n, meanB+row[1]/n
	}
	for _, row := range matrix {
		a, b = append(a, row[0]-meanA), append(b, row[1]-meanB)
	}
	return a, b, meanA, meanB
}

func inner(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// drawn is the covariance of two columns of mean 0, their correlation r drawn to none by
// the share of its square that is noise: Schäfer and Strimmer's λ = Var(r) / r².
func drawn(a, b []float64) (variances [2]float64, covariance float64) {
	n := float64(len(a))
	variances = [2]float64{inner(a, a) / n, inner(b, b) / n}
	mean := inner(a, b) / n
	varMean := 0.0
	for i := range a {
		varMean += (a[i]*b[i] - mean) * (a[i]*b[i] - mean) / (n - 1) / n
	}
	return variances, mean * (1 - min(1, varMean/(mean*mean)))
}

// The joint Gaussian is fitted by moments: means, deviations, the line of each signal in
// the quality and the covariance of what it leaves.
func TestGoldenGaussianFit(t *testing.T) {
	table := signalled()
	var p gaussianParams
	fitParams(t, table, estimate.Options{Quality: estimate.KindGaussian}, &p, nil)
	a, b, meanA, meanB := centredMatrix(table.Quality)
	n := float64(len(a))
	check := func(what string, got, want float64) {
		t.Helper()
		if !near(got, want, 2e-3*max(math.Abs(want), 0.1)) { // deviations are raised by a thousandth, against none at all
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("mean of a", p.QualityMean[0][0], meanA)
	check("mean of b", p.QualityMean[0][1], meanB)
	check("deviation of a", p.StdDev[0][0]-1e-3, math.Sqrt(inner(a, a)/n))
	check("deviation of b", p.StdDev[0][1]-1e-3, math.Sqrt(inner(b, b)/n))
	variances, covariance := drawn(a, b)
	check("correlation", p.Correlation[0][1], covariance/p.StdDev[0][0]/p.StdDev[0][1])
	check("correlation, the other way", p.Correlation[1][0], p.Correlation[0][1])
	check("variance of a standardised", p.Correlation[0][0], variances[0]/p.StdDev[0][0]/p.StdDev[0][0])
	for _, s := range []struct {
		what   string
		matrix [][]float64
		mean   [][]float64
		slope  []float64
		errors [][]float64
	}{{"ante", table.Ante, p.AnteMean, p.AnteSlope, p.AnteErrors}, {"post", table.Post, p.PostMean, p.PostSlope, p.PostErrors}} {
		x, y, meanX, meanY := centredMatrix(s.matrix)
		slopeX, slopeY := inner(a, x)/inner(a, a), inner(b, y)/inner(b, b)
		check(s.what+" mean of a", s.mean[0][0], meanX)
		check(s.what+" mean of b", s.mean[0][1], meanY)
		check(s.what+" slope of a", s.slope[0], slopeX)
		check(s.what+" slope of b", s.slope[1], slopeY)
		for i := range x {
			x[i] -= slopeX * a[i]
			y[i] -= slopeY * b[i]
		}
		variances, covariance := drawn(x, y)
		for i, row := range [2][2]float64{{variances[0], covariance}, {covariance, variances[1]}} {
			for j, want := range row {
				if !near(s.errors[i][j]*1e3, want*1e3, 1e-3*max(1, want*1e3)) {
					t.Errorf("%s errors %d %d: %v, want %v", s.what, i, j, s.errors[i][j], want)
				}
			}
		}
	}
}

// least finds the coefficients at which a convex function is least, one after another.
func least(n int, f func(c []float64) float64) []float64 {
	c := make([]float64, n)
	for range 80 {
		for j := range c {
			low, high := c[j]-4, c[j]+4
			for range 45 {
				third := (high - low) / 3
				c[j] = low + third
				left := f(c)
				c[j] = high - third
				if left < f(c) {
					high -= third
				} else {
					low += third
				}
			}
			c[j] = (low + high) / 2
		}
	}
	return c
}

// The regressions are those of least penalised loss on standardised signals: a's own,
// and b's.
func TestGoldenRegressions(t *testing.T) {
	table := signalled()
	table.Post = nil
	x, y, meanX, meanY := centredMatrix(table.Ante)
	n := float64(len(x))
	devX, devY := math.Sqrt(inner(x, x)/(n-1)), math.Sqrt(inner(y, y)/(n-1))
	predict := map[string]func(v float64) float64{
		estimate.KindLinear:   func(v float64) float64 { return v },
		estimate.KindLogistic: func(v float64) float64 { return 1 / (1 + math.Exp(-v)) },
	}
	for kind, link := range predict {
		c := least(3, func(c []float64) float64 {
			// The intercept is hardly penalised, so that it stays finite.
			loss := 0.05/2*c[0]*c[0] + 8.0/2*(c[1]*c[1]+c[2]*c[2])
			for i := range x {
				p, v := link(c[0]+c[1]*x[i]/devX+c[2]*y[i]/devY), table.Quality[i][0]
				if kind == estimate.KindLinear {
					loss += (v - p) * (v - p) / 2
				} else {
					loss -= v*math.Log(p) + (1-v)*math.Log(1-p)
				}
			}
			return loss
		})
		e := fitParams(t, table, estimate.Options{Quality: kind, Features: []string{"signal"}}, nil, nil)
		for _, ante := range [][]float64{{meanX, meanY}, {meanX + devX, meanY}, {meanX, meanY - devY}, {meanX - devX/2, meanY + devY/2}} {
			cursor, b := e.Quality.Cursor(), make([]cascade.Belief, 2)
			cursor.Begin(&estimate.Query{Ante: ante})
			cursor.Beliefs(b)
			if want := link(c[0] + c[1]*(ante[0]-meanX)/devX + c[2]*(ante[1]-meanY)/devY); !near(b[0].Mean, want, 1e-6) {
				t.Errorf("%s, signals %v: %v, want %v", kind, ante, b[0].Mean, want)
			}
		}
	}
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// latentParams are those of a latent difficulty of two models.
type latentParams struct {
	Mean  []float64   `json:"mean"`
	Base  []float64   `json:"base"`
	Slope []float64   `json:"slope"`
	Shift [][]float64 `json:"shift"`
}

// expect adds up f over the ease of a query, normal around a mean, times what was seen.
func expect(mean float64, f, seen func(z float64) float64) float64 {
	const steps, span = 2000, 7.0
	sum, mass := 0.0, 0.0
	for i := range steps {
		z := mean + span*(2*(float64(i)+0.5)/steps-1)
		w := normal(z, mean, 1) * seen(z)
		sum, mass = sum+w*f(z), mass+w
	}
	return sum / mass
}

// The latent difficulty's posterior is that of the ease added up on a fine grid: after
// verdicts, and after signals on an answer.
func TestGoldenLatentPosterior(t *testing.T) {
	nodes := "[-7"
	for k := 1; k <= 280; k++ {
		nodes += fmt.Sprintf(",%.3f", -7+float64(k)*0.05)
	}
	nodes += "]"
	const mean = 0.3
	base, slope := [2]float64{0.4, -0.6}, [2]float64{1.3, 0.8}
	p := func(i int) func(z float64) float64 {
		return func(z float64) float64 { return logistic(base[i] + slope[i]*z) }
	}
	always := func(float64) float64 { return 1 }
	params := `"nodes":` + nodes + `,"groups":[],"mean":[0.3],"per_length":[{}],"base":[0.4,-0.6],"slope":[1.3,0.8],"shift":[[0,0]]`
	verified := readParams(t, `{"kind":"latent","params":{`+params+`,"verified":true}}`, anyCost)
	for verdict, seen := range map[float64]func(z float64) float64{
		1:   p(0),
		0:   func(z float64) float64 { return 1 - p(0)(z) },
		0.8: func(z float64) float64 { return 0.8*p(0)(z) + 0.2*(1-p(0)(z)) },
	} {
		cursor, b := verified.Quality.Cursor(), make([]cascade.Belief, 2)
		cursor.Begin(&estimate.Query{})
		cursor.Beliefs(b)
		for i := range b {
			if want := expect(mean, p(i), always); !near(b[i].Mean, want, 1e-6) || !b[i].Bernoulli {
				t.Errorf("before: model %d %+v, want %v", i, b[i], want)
			}
		}
		cursor.Observe(0, shown(func(r *estimate.Run) { r.Verdict = verdict }))
		cursor.Beliefs(b)
		if want := expect(mean, p(1), seen); !near(b[1].Mean, want, 1e-5) || b[0].Mean != verdict || b[0].Bernoulli {
			t.Errorf("after a verdict of %v: %+v, want %v of b", verdict, b, want)
		}
	}
	const right, wrong, rightDev, wrongDev = 0.8, 0.3, 0.2, 0.3
	emission := fmt.Sprintf(`{"right":%v,"wrong":%v,"right_std_dev":%v,"wrong_std_dev":%v}`, right, wrong, rightDev, wrongDev)
	signals := readParams(t, `{"kind":"latent","params":{`+params+`,"post":[`+emission+`,`+emission+`],"ante":[`+emission+`,{}]}}`, anyCost)
	density := func(i int, x float64) func(z float64) float64 {
		return func(z float64) float64 {
			return p(i)(z)*normal(x, right, rightDev*rightDev) + (1-p(i)(z))*normal(x, wrong, wrongDev*wrongDev)
		}
	}
	for _, x := range []float64{0.2, 0.55, 0.9} {
		for _, ante := range []float64{math.NaN(), 0.4} {
			before := always
			own := 1.0 // how much likelier a's ex-ante signal is where its answer is right
			if !math.IsNaN(ante) {
				before = density(0, ante)
				own = normal(ante, right, rightDev*rightDev) / normal(ante, wrong, wrongDev*wrongDev)
			}
			cursor, b := signals.Quality.Cursor(), make([]cascade.Belief, 2)
			cursor.Begin(&estimate.Query{Ante: []float64{ante, math.NaN()}})
			cursor.Beliefs(b)
			meanB := expect(mean, p(1), before)
			// The deviation that a signal makes in a probability: added up over signals.
			second := 0.0
			for i := range 4000 {
				s := -2 + 5*(float64(i)+0.5)/4000
				r, w := meanB*normal(s, right, rightDev*rightDev), (1-meanB)*normal(s, wrong, wrongDev*wrongDev)
				second += r * r / (r + w) * 5 / 4000
			}
			if dev := math.Sqrt(second - meanB*meanB); !near(b[1].Mean, meanB, 1e-6) || !near(b[1].StdDev, dev, 2e-4) {
				t.Errorf("ante %v: %+v, want %v ± %v", ante, b[1], meanB, dev)
			}
			cursor.Observe(0, shown(func(r *estimate.Run) { r.Post = x }))
			cursor.Beliefs(b)
			ratio := own * normal(x, right, rightDev*rightDev) / normal(x, wrong, wrongDev*wrongDev)
			seen := func(z float64) float64 { return p(0)(z)*ratio + 1 - p(0)(z) }
			wantB := expect(mean, p(1), seen)
			wantA := expect(mean, func(z float64) float64 { return p(0)(z) * ratio / seen(z) }, seen)
			if !near(b[0].Mean, wantA, 1e-6) || !near(b[1].Mean, wantB, 1e-6) || b[0].StdDev != 0 {
				t.Errorf("ante %v, post %v: %v, %v; want %v, %v", ante, x, b[0].Mean, b[1].Mean, wantA, wantB)
			}
		}
	}
}

// A fitted latent model predicts how often each model is right, and how often both are.
func TestGoldenLatentFit(t *testing.T) {
	table := &outcome.Table{Models: []string{"a", "b"}, Verified: true}
	for _, c := range []struct {
		n    int
		a, b float64
	}{{160, 1, 1}, {120, 0, 1}, {20, 1, 0}, {100, 0, 0}} {
		for range c.n {
			table.Queries = append(table.Queries, fmt.Sprint("q", len(table.Queries)))
			table.Quality, table.CostUSD = append(table.Quality, []float64{c.a, c.b}), append(table.CostUSD, []float64{1, 2})
		}
	}
	var p latentParams
	fitParams(t, table, estimate.Options{Quality: estimate.KindLatent}, &p, nil)
	of := func(i int) func(z float64) float64 {
		return func(z float64) float64 { return logistic(p.Base[i] + p.Shift[0][i] + p.Slope[i]*z) }
	}
	always := func(float64) float64 { return 1 }
	for what, c := range map[string]struct{ got, want float64 }{
		"a":    {expect(p.Mean[0], of(0), always), 0.45},
		"b":    {expect(p.Mean[0], of(1), always), 0.7},
		"both": {expect(p.Mean[0], func(z float64) float64 { return of(0)(z) * of(1)(z) }, always), 0.4},
	} {
		if math.Abs(c.got-c.want) > 0.015 {
			t.Errorf("right are %s in %v, in the table in %v", what, c.got, c.want)
		}
	}
}

// costs gives what a cost estimator expects of both models.
func costs(e *estimate.Estimator, q *estimate.Query, observe func(c estimate.CostCursor)) []float64 {
	c, dst := e.Cost.Cursor(), make([]float64, 2)
	c.Begin(q)
	if observe != nil {
		observe(c)
	}
	c.Costs(dst)
	return dst
}

func costTable() *outcome.Table {
	t := rows([]float64{1, 0}, []float64{0, 1}, []float64{1, 1}, []float64{0, 0}, []float64{1, 1}, []float64{0, 1})
	t.CostUSD = [][]float64{{1, 3}, {2, 8}, {0.5, 1}, {4, 9}, {1.5, 5}, {3, 20}}
	return t
}

func logs(t *outcome.Table) [][]float64 {
	var out [][]float64
	for _, row := range t.CostUSD {
		out = append(out, []float64{math.Log(row[0]), math.Log(row[1])})
	}
	return out
}

// Before any run each estimator predicts the mean cost; KindCostMean also does so after a
// run.
func TestGoldenMeanCosts(t *testing.T) {
	table := costTable()
	want := []float64{12.0 / 6, 46.0 / 6}
	for _, kind := range []string{estimate.KindCostMean, estimate.KindCostLatent} {
		e := fitParams(t, table, estimate.Options{Quality: estimate.KindMean, Cost: kind}, nil, nil)
		got := costs(e, &estimate.Query{}, nil)
		if !near(got[0], want[0], 1e-9) || !near(got[1], want[1], 1e-9) {
			t.Errorf("%s: %v, want %v", kind, got, want)
		}
		got = costs(e, &estimate.Query{}, func(c estimate.CostCursor) { c.Observe(0, shown(func(r *estimate.Run) { r.CostUSD = 4 })) })
		alone := kind == estimate.KindCostMean
		if got[0] != 4 || near(got[1], want[1], 1e-9) != alone {
			t.Errorf("%s, a has cost 4: %v", kind, got)
		}
	}
}

// The logarithm of a cost is a line in that of the prompt's length, its slope drawn to
// none by ten squares of it.
func TestGoldenCostByLength(t *testing.T) {
	table := costTable()
	lengths := []float64{100, 400, 50, 900, 200, 1600}
	for _, n := range lengths {
		table.InputTokens = append(table.InputTokens, []float64{n, n})
	}
	e := fitParams(t, table, estimate.Options{Quality: estimate.KindMean, Cost: estimate.KindCostLatent}, nil, nil)
	center := 0.0
	for _, n := range lengths {
		center += math.Log(n) / 6
	}
	y := logs(table)
	for i := range 2 {
		xy, xx, mean, meanY := 0.0, 10.0, 0.0, 0.0
		for q, n := range lengths {
			x := math.Log(n) - center
			xy, xx = xy+x*y[q][i], xx+x*x
			mean += table.CostUSD[q][i] / 6
			meanY += y[q][i] / 6
		}
		slope := xy / xx
		// The scale makes the mean of the predictions the mean cost.
		predictions := 0.0
		for _, n := range lengths {
			predictions += math.Exp(slope*(math.Log(n)-center)) / 6
		}
		for _, n := range []float64{25, 300, 5000} {
			want := mean * math.Exp(slope*(math.Log(n)-center)) / predictions
			if got := costs(e, &estimate.Query{InputTokens: n}, nil)[i]; !near(got, want, 1e-9) {
				t.Errorf("model %d, %v tokens: %v, want %v", i, n, got, want)
			}
		}
	}
}

// An observed cost updates the prediction of the other through the shared factor, with given parameters.
func TestGoldenCostByFactor(t *testing.T) {
	e := readParams(t, anyQuality, `{"kind":"latent","params":{"groups":[],"mean":[[0.5,1.2]],"per_length":[0,0.4],"center":5,"load":[0.6,0.9],"noise":[0.1,0.2],"factor":[1.1,0.8]}}`)
	for _, c := range []struct{ tokens, cost float64 }{{0, 1}, {0, 5}, {300, 1}, {300, 0.3}} {
		meanB := 1.2
		if c.tokens > 0 {
			meanB += 0.4 * (math.Log(c.tokens) - 5)
		}
		sum, mass, prior := 0.0, 0.0, 0.0
		for i := range 4000 {
			f := 8 * (2*(float64(i)+0.5)/4000 - 1)
			w := normal(f, 0, 1) * 16 / 4000
			cost := 0.8 * math.Exp(meanB+0.9*f+0.2/2) // over the noise of b
			prior += w * cost
			w *= normal(math.Log(c.cost), 0.5+0.6*f, 0.1)
			sum, mass = sum+w*cost, mass+w
		}
		q := &estimate.Query{InputTokens: c.tokens}
		if got := costs(e, q, nil); !near(got[1], prior, 1e-6) {
			t.Errorf("%+v before: %v, want %v", c, got[1], prior)
		}
		got := costs(e, q, func(cursor estimate.CostCursor) {
			cursor.Observe(0, shown(func(r *estimate.Run) { r.CostUSD = c.cost }))
		})
		if !near(got[1], sum/mass, 1e-6) || got[0] != c.cost {
			t.Errorf("%+v after: %v, want %v of b", c, got, sum/mass)
		}
	}
}

// A fitted factor predicts the variances and covariances of three models' log costs.
func TestGoldenFactorFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	table := &outcome.Table{Models: []string{"a", "b", "c"}}
	load, noise := []float64{0.7, 0.5, 0.9}, []float64{0.8, 0.9, 0.7}
	const n = 1500
	sums := [3][3]float64{}
	all, mean := make([][3]float64, n), [3]float64{}
	for q := range n {
		f := rng.NormFloat64()
		row := make([]float64, 3)
		for i := range row {
			all[q][i] = load[i]*f + noise[i]*rng.NormFloat64()
			mean[i] += all[q][i] / n
			row[i] = math.Exp(all[q][i])
		}
		table.Queries, table.CostUSD, table.Quality = append(table.Queries, fmt.Sprint("q", q)), append(table.CostUSD, row), append(table.Quality, []float64{1, 0, 1})
	}
	for q := range all {
		for i := range 3 {
			for j := range 3 {
				sums[i][j] += (all[q][i] - mean[i]) * (all[q][j] - mean[j]) / n
			}
		}
	}
	var p struct{ Load, Noise []float64 }
	fitParams(t, table, estimate.Options{Quality: estimate.KindMean, Cost: estimate.KindCostLatent}, nil, &p)
	for i := range 3 {
		for j := range 3 {
			got := p.Load[i] * p.Load[j]
			if i == j {
				got += p.Noise[i]
			}
			if math.Abs(got-sums[i][j]) > 0.02*math.Sqrt(sums[i][i]*sums[j][j]) {
				t.Errorf("covariance of %d and %d: %v, of the table %v", i, j, got, sums[i][j])
			}
		}
	}
}

// A replay in folds estimates a query from the other folds only.
func TestGoldenFolds(t *testing.T) {
	table := rows()
	for q := range 24 {
		table.Queries = append(table.Queries, fmt.Sprint("q", q))
		table.Quality = append(table.Quality, []float64{float64(q % 2), float64(q) / 24})
		table.CostUSD = append(table.CostUSD, []float64{float64(1 + q), 2})
	}
	const folds, seed = 3, 5
	_, replay, _, err := estimate.FitFolds(table, folds, estimate.Options{Quality: estimate.KindMean, Cost: estimate.KindCostMean, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	fold := table.Folds(folds, seed)
	for q := range table.Queries {
		var want, usd [2]float64
		n := 0.0
		for k := range table.Queries {
			if fold[k] != fold[q] {
				n++
				for m := range 2 {
					want[m] += table.Quality[k][m]
					usd[m] += table.CostUSD[k][m]
				}
			}
		}
		b, c := make([]cascade.Belief, 2), make([]float64, 2)
		replay.Start(q).Believe(nil, b, c)
		for m := range 2 {
			if !near(b[m].Mean, want[m]/n, 1e-12) || !near(c[m], usd[m]/n, 1e-12) {
				t.Errorf("query %d, model %d: %v at %v USD, the other folds say %v at %v", q, m, b[m].Mean, c[m], want[m]/n, usd[m]/n)
			}
		}
	}
}
