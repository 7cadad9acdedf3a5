package eval

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// Point is one operating point of a strategy: means over the queries.
type Point struct {
	Cost    float64 `json:"cost"`
	Quality float64 `json:"quality"`
	Lambda  float64 `json:"lambda"`
	// Steps is the mean number of models run on one query.
	Steps float64 `json:"steps"`
}

// Curve is a strategy's operating points sorted by cost. Between two points the
// strategy chooses between them at random, so cost and quality are linear there:
// that is the mixed strategy by which the paper meets a budget exactly.
type Curve []Point

// NewCurve returns the points sorted by cost, then quality.
func NewCurve(points []Point) Curve {
	c := Curve(slices.Clone(points))
	slices.SortStableFunc(c, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Quality, b.Quality))
	})
	return c
}

// Frame is the reference that curves are measured against: the single models on the
// same queries. It is known only in hindsight, which favours the baselines made from it.
type Frame struct {
	// Models has one point for each single model, in the order of the table.
	Models []Point
	// Cheapest, Dearest and Best are the indexes in Models of the lowest and highest mean
	// cost, and of the highest mean quality (the cheaper of equals).
	Cheapest, Dearest, Best int
	// Lowest is the lowest mean quality of any model.
	Lowest float64
}

// newFrame returns the frame of single models with the given mean costs and qualities.
func newFrame(costs, qualities []float64) Frame {
	f := Frame{Models: make([]Point, len(costs)), Lowest: math.Inf(1)}
	for i := range costs {
		p := Point{Cost: costs[i], Quality: qualities[i], Steps: 1}
		f.Models[i] = p
		if p.Cost < f.Models[f.Cheapest].Cost {
			f.Cheapest = i
		}
		if p.Cost > f.Models[f.Dearest].Cost {
			f.Dearest = i
		}
		best := f.Models[f.Best]
		if p.Quality > best.Quality || p.Quality == best.Quality && p.Cost < best.Cost {
			f.Best = i
		}
		f.Lowest = min(f.Lowest, p.Quality)
	}
	return f
}

func (f *Frame) costRange() (low, high float64) {
	return f.Models[f.Cheapest].Cost, f.Models[f.Dearest].Cost
}

// at returns the point of the curve at a cost: linear between points; left of the
// first, linear from the corner (cheapest model's cost, lowest model's quality),
// which holds left of the corner too; right of the last, its values.
func (c Curve) at(cost float64, f *Frame) Point {
	i, _ := slices.BinarySearchFunc(c, cost, func(p Point, x float64) int {
		if p.Cost <= x {
			return -1
		}
		return 1
	})
	corner := Point{Cost: f.Models[f.Cheapest].Cost, Quality: f.Lowest, Steps: 1}
	switch {
	case i == len(c) && i > 0:
		return Point{Cost: cost, Quality: c[i-1].Quality, Lambda: c[i-1].Lambda, Steps: c[i-1].Steps}
	case i > 0:
		return mix(c[i-1], c[i], cost)
	case len(c) > 0 && cost > corner.Cost:
		return mix(corner, c[0], cost)
	}
	corner.Cost = cost
	return corner
}

// QualityAt returns the mean quality of the strategy at a budget of cost per query.
// It is the integrand of the AUC.
func (c Curve) QualityAt(cost float64, f *Frame) float64 { return c.at(cost, f).Quality }

// reach returns the cheapest point of the curve whose quality is at least the
// given one, and false if there is none.
func (c Curve) reach(quality float64) (Point, bool) {
	for i, p := range c {
		if p.Quality < quality {
			continue
		}
		if i == 0 || p.Quality == quality {
			return p, true
		}
		before := c[i-1]
		share := (quality - before.Quality) / (p.Quality - before.Quality)
		return Point{
			Cost: before.Cost + share*(p.Cost-before.Cost), Quality: quality, Lambda: p.Lambda,
			Steps: before.Steps + share*(p.Steps-before.Steps),
		}, true
	}
	return Point{}, false
}

func mix(a, b Point, cost float64) Point {
	share := 0.0
	if b.Cost > a.Cost {
		share = (cost - a.Cost) / (b.Cost - a.Cost)
	}
	return Point{
		Cost: cost, Quality: a.Quality + share*(b.Quality-a.Quality),
		Lambda: b.Lambda, Steps: a.Steps + share*(b.Steps-a.Steps),
	}
}

// meanQuality integrates QualityAt over [low, high] and divides by the length.
// It returns NaN if the length is not positive.
func (c Curve) meanQuality(low, high float64, f *Frame) float64 {
	if !(high > low) {
		return math.NaN()
	}
	// The two limits are ends of segments like any point; where several points
	// share a cost, the segments between them have no length.
	area := 0.0
	last := c.at(low, f)
	for _, p := range c {
		if p.Cost < low || p.Cost > high {
			continue
		}
		area += (p.Cost - last.Cost) * (last.Quality + p.Quality) / 2
		last = p
	}
	if last.Cost < high {
		area += (high - last.Cost) * (last.Quality + c.at(high, f).Quality) / 2
	}
	return area / (high - low)
}

// upperHull returns the vertices of the non-decreasing concave hull of the points, which
// random mixtures of them can reach.
func upperHull(points []Point) Curve {
	var hull Curve
	for _, p := range NewCurve(points) {
		if len(hull) > 0 && p.Quality <= hull[len(hull)-1].Quality {
			continue
		}
		for len(hull) > 0 {
			last := hull[len(hull)-1]
			if last.Cost == p.Cost {
				hull = hull[:len(hull)-1]
				continue
			}
			if len(hull) < 2 {
				break
			}
			before := hull[len(hull)-2]
			if (last.Quality-before.Quality)*(p.Cost-last.Cost) > (p.Quality-last.Quality)*(last.Cost-before.Cost) {
				break
			}
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, p)
	}
	return hull
}

// Sample holds the results of one strategy on every query of a test half at every lambda.
// Row l of a matrix belongs to Lambdas[l] and has one entry for each query.
type Sample struct {
	Lambdas              []float64
	Cost, Quality, Steps [][]float64
}

// NewSample returns a sample of zeros for the lambdas and a number of queries.
func NewSample(lambdas []float64, queries int) *Sample {
	n := len(lambdas)
	return &Sample{Lambdas: lambdas, Cost: zeros(n, queries), Quality: zeros(n, queries), Steps: zeros(n, queries)}
}

// curve returns the mean cost, quality and steps at each lambda over the queries,
// where query q counts weight[q] times; nil counts every query once.
func (s *Sample) curve(weight []float64, _ *Frame) Curve {
	points := make([]Point, len(s.Lambdas))
	for l, lambda := range s.Lambdas {
		points[l] = Point{
			Lambda: lambda,
			Cost:   mean(s.Cost[l], weight), Quality: mean(s.Quality[l], weight), Steps: mean(s.Steps[l], weight),
		}
	}
	return NewCurve(points)
}

// mean returns the weighted mean of x; nil counts every entry once.
func mean(x, weight []float64) float64 {
	if weight == nil {
		return floats.Sum(x) / float64(len(x))
	}
	return floats.Dot(x, weight) / floats.Sum(weight)
}

// singles returns a sample with one row for each model run alone.
func singles(o *outcome.Table) *Sample {
	queries, models := len(o.Quality), len(o.Models)
	s := NewSample(make([]float64, models), queries)
	for m := range models {
		for q := range queries {
			s.Cost[m][q], s.Quality[m][q], s.Steps[m][q] = o.CostUSD[q][m], o.Quality[q][m], 1
		}
	}
	return s
}

func (s *Sample) newFrame(weight []float64) Frame {
	costs, qualities := make([]float64, len(s.Cost)), make([]float64, len(s.Cost))
	for m := range s.Cost {
		costs[m], qualities[m] = mean(s.Cost[m], weight), mean(s.Quality[m], weight)
	}
	return newFrame(costs, qualities)
}

func (s *Sample) rows(queries []int) *Sample {
	part := NewSample(s.Lambdas, len(queries))
	for l := range s.Lambdas {
		for i, q := range queries {
			part.Cost[l][i], part.Quality[l][i], part.Steps[l][i] = s.Cost[l][q], s.Quality[l][q], s.Steps[l][q]
		}
	}
	return part
}
