package eval

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// Names of the rows that need no estimator.
const (
	nameLinearInterpolation = "linear_interpolation"
	nameBestSingle          = "best_single"
	namePickedSingle        = "picked_single"
	nameRandom              = "random"
	nameOracle              = "oracle"
)

// Row is one strategy's row of a comparison.
type Row struct {
	Name string
	// Note describes the row in a few words.
	Note  string
	Curve Curve
	Metrics
	AUCInterval        interval
	CostAtBestInterval interval
	// QualityAtBestCostInterval is the interval of QualityAtBestCost.
	QualityAtBestCostInterval interval
	// CostAtPicked is the lowest mean cost at which the row reaches the quality of the
	// model Comparison.Picked.
	CostAtPicked float64
	// Chosen is the result on the test half of the operating point chosen on the train half:
	// the cheapest that reached the picked model's quality there, or else the best. It is
	// set if Study.Choose is.
	Chosen Point
	// Difference is this row's AUC minus that of the reference row, with a paired interval.
	Difference interval
	// Low and High are the two-sigma limits of the quality at each of Comparison.Costs.
	Low, High []float64
	// Reached is the share of resamples in which the row reaches the best single model's
	// quality; CostAtBestInterval is based on those.
	Reached float64
	// DecisionTime is the mean time of one decision, without estimation.
	DecisionTime time.Duration
	Decisions    int64

	// curveOf computes the curve from the weights of the queries and the frame for the same
	// weights.
	curveOf func(weight []float64, f *Frame) Curve
}

// Comparison is the result of [Measure].
type Comparison struct {
	Frame  Frame
	Models []string
	Rows   []*Row
	// Picked is the single model that was best on the train half, which is what one would
	// have used without hindsight; -1 if unknown.
	Picked int
	// Reference is the name of the row that other rows are compared with.
	Reference string
	// Costs are the costs at which Row.Low and Row.High are computed.
	Costs     []float64
	Queries   int
	Resamples int
	Seed      uint64
	// Setup describes, in words, the settings that a [Study] used.
	Setup map[string]string
	// Groups has the comparison of each group of queries, by its name; see [Study].ByGroup.
	Groups map[string]*Comparison
}

// Row returns the row of that name, or nil.
func (c *Comparison) Row(name string) *Row {
	for _, r := range c.Rows {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Options of a comparison.
type Options struct {
	// Bootstrap is the number of resamples; 0 means no intervals.
	Bootstrap int
	Seed      uint64
	// Reference names the row that other rows are compared with; if empty, it is the
	// first player.
	Reference string
	// Train, when not nil, has the outcomes of the train half, from which
	// Comparison.Picked is chosen.
	Train *outcome.Table
	// Baselines are the rows without an estimator to include; nil means all.
	Baselines []string
	// Progress, when not nil, is called with finished units of work: queries and resamples.
	Progress func(units int)
}

const bandPoints = 48

// Measure measures the samples of players, one for each, and the baselines, on outcomes of every model on
// every query.
func Measure(ctx context.Context, o *outcome.Table, players []*Player, samples []*Sample, opts Options) (*Comparison, error) {
	if err := validate(o); err != nil {
		return nil, err
	}
	models := singles(o)
	c := &Comparison{
		Frame: models.newFrame(nil), Models: o.Models, Reference: opts.Reference,
		Queries: len(o.Queries), Resamples: opts.Bootstrap, Seed: opts.Seed,
	}
	c.Picked = -1
	if opts.Train != nil {
		train := singles(opts.Train).newFrame(nil)
		c.Picked = train.Best
	}
	wanted := func(name string) bool { return opts.Baselines == nil || slices.Contains(opts.Baselines, name) }
	picked := func(_ []float64, f *Frame) Curve { return Curve{f.Models[c.Picked]} }
	for _, r := range []*Row{
		{Name: nameLinearInterpolation, Note: "coin toss between single models (hull on the test half)", curveOf: linearInterpolation},
		{Name: nameBestSingle, Note: "the single model of highest quality on the test half", curveOf: bestSingle},
		{Name: namePickedSingle, Note: "the single model of highest quality on the train half", curveOf: picked},
		{Name: nameRandom, Note: "coin toss between the cheapest and the best single model", curveOf: randomChoice},
	} {
		if wanted(r.Name) && (r.Name != namePickedSingle || c.Picked >= 0) {
			c.Rows = append(c.Rows, r)
		}
	}
	for i, p := range players {
		n, took := p.decisionTime()
		c.Rows = append(c.Rows, &Row{Name: p.Name, Note: p.Note, Decisions: n, DecisionTime: took, curveOf: samples[i].curve})
	}
	if wanted(nameOracle) {
		c.Rows = append(c.Rows, &Row{Name: nameOracle, Note: "knows every outcome, runs one model", curveOf: oracle(o, oracleLambdas(&c.Frame)).curve})
	}
	if c.Reference == "" && len(players) > 0 {
		c.Reference = players[0].Name
	}
	low, high := c.Frame.costRange()
	for i := range bandPoints {
		// Squared spacing, because curves bend most at low cost.
		share := float64(i) / (bandPoints - 1)
		c.Costs = append(c.Costs, low+(high-low)*share*share)
	}
	re, err := c.resample(ctx, models, opts.Progress)
	if err != nil {
		return nil, err
	}
	c.fill(re)
	return c, nil
}

// oracleLambdas covers every trade-off between the models' costs.
func oracleLambdas(f *Frame) []float64 {
	low, high := f.costRange()
	if low <= 0 {
		low = high / 1e6
	}
	return logSpaced(1e-3/high, 100/low, 60)
}

// logSpaced returns 0 and n numbers from low to high at equal ratios.
func logSpaced(low, high float64, n int) []float64 {
	out := []float64{0}
	for i := range n {
		out = append(out, low*math.Pow(high/low, float64(i)/float64(max(n-1, 1))))
	}
	return out
}

func (c *Comparison) fill(re *resamples) {
	reference := slices.IndexFunc(c.Rows, func(r *Row) bool { return r.Name == c.Reference })
	for _, r := range c.Rows {
		r.Curve, r.curveOf = r.curveOf(nil, &c.Frame), nil // a comparison keeps no samples
		r.Metrics = r.Curve.Measure(&c.Frame)
		r.CostAtPicked = math.NaN()
		if c.Picked >= 0 {
			if at, ok := r.Curve.reach(c.Frame.Models[c.Picked].Quality); ok {
				r.CostAtPicked = at.Cost
			}
		}
	}
	for i, r := range c.Rows {
		r.AUCInterval = twoSigma(r.AUC, re.auc[i])
		r.QualityAtBestCostInterval = twoSigma(r.QualityAtBestCost, re.qualityAtBestCost[i])
		reached := slices.DeleteFunc(slices.Clone(re.costAtBest[i]), math.IsNaN)
		r.CostAtBestInterval = twoSigma(r.CostAtBest, reached)
		if len(re.costAtBest[i]) > 0 {
			r.Reached = float64(len(reached)) / float64(len(re.costAtBest[i]))
		}
		r.Difference = interval{math.NaN(), math.NaN(), math.NaN()}
		if reference >= 0 {
			differences := make([]float64, len(re.auc[i])) // paired by resample
			for k := range differences {
				differences[k] = re.auc[i][k] - re.auc[reference][k]
			}
			r.Difference = twoSigma(r.AUC-c.Rows[reference].AUC, differences)
		}
		for k, cost := range c.Costs {
			band := twoSigma(r.Curve.QualityAt(cost, &c.Frame), re.quality[i][k])
			r.Low, r.High = append(r.Low, band.Low), append(r.High, band.High)
		}
	}
}

// The rows that need no estimator are computed on the test half, with hindsight.

// linearInterpolation mixes the single models on the hull at random.
func linearInterpolation(_ []float64, f *Frame) Curve { return upperHull(f.Models) }

// bestSingle always runs the model of highest mean quality.
func bestSingle(_ []float64, f *Frame) Curve { return Curve{f.Models[f.Best]} }

// randomChoice mixes the cheapest and the best single model at random.
func randomChoice(_ []float64, f *Frame) Curve {
	return NewCurve([]Point{f.Models[f.Cheapest], f.Models[f.Best]})
}

// oracle knows every outcome and runs, on each query, the model of highest quality
// less lambda times cost.
func oracle(o *outcome.Table, lambdas []float64) *Sample {
	s := NewSample(lambdas, len(o.Quality))
	for l, lambda := range lambdas {
		for q := range o.Quality {
			chosen, value := 0, math.Inf(-1)
			for m, quality := range o.Quality[q] {
				v := quality
				if lambda > 0 {
					v -= lambda * o.CostUSD[q][m]
				}
				if v > value || v == value && o.CostUSD[q][m] < o.CostUSD[q][chosen] {
					chosen, value = m, v
				}
			}
			s.Cost[l][q], s.Quality[l][q], s.Steps[l][q] = o.CostUSD[q][chosen], o.Quality[q][chosen], 1
		}
	}
	return s
}
