package eval

import (
	"gonum.org/v1/gonum/floats"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// Sample holds the results of one strategy on every query of a test half at every lambda.
// Row l of a matrix belongs to Lambdas[l] and has one entry for each query.
type Sample struct {
	Lambdas              []float64
	Cost, Quality, Steps [][]float64
}

// NewSample returns a sample of zeros for the lambdas and a number of queries.
func NewSample(lambdas []float64, queries int) *Sample {
	s := &Sample{Lambdas: lambdas}
	for range lambdas {
		s.Cost = append(s.Cost, make([]float64, queries))
		s.Quality = append(s.Quality, make([]float64, queries))
		s.Steps = append(s.Steps, make([]float64, queries))
	}
	return s
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

func (s *Sample) frame(weight []float64) Frame {
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
