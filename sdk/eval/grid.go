package eval

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// A strategyAt returns a strategy's decision rule for a lambda.
type strategyAt func(lambda float64) (cascade.Strategy, error)

func (r strategyAt) player(name, note string, source replay.Source, lambdas []float64) (*Player, error) {
	p := &Player{Name: name, Note: note, Source: source, Lambdas: lambdas}
	for _, lambda := range lambdas {
		s, err := r(lambda)
		if err != nil {
			return nil, err
		}
		p.Strategies = append(p.Strategies, s)
	}
	return p, nil
}

// span returns the lambdas beyond which nothing changes: at the low end the most expensive
// model costs a thousandth of a quality unit, at the high end the cheapest costs 20.
func span(f *Frame) (low, high float64) {
	cheap, dear := f.costRange()
	if cheap <= 0 {
		cheap = dear / 1e4
	}
	return 1e-3 / dear, 20 / cheap
}

// spreadLambdas returns at most n lambdas whose operating points are evenly spaced
// along the rule's curve on the given outcomes, which are those of the train half. It
// starts with lambdas at equal ratios, then repeatedly adds the geometric mean of the
// neighbours whose points are furthest apart.
func spreadLambdas(ctx context.Context, o *outcome.Table, source replay.Source, rule strategyAt, n int, seed uint64) ([]float64, error) {
	frame := singles(o).newFrame(nil)
	low, high := span(&frame)
	lambdas := logSpaced(low, high, max(3, n/4))
	points, err := pointsAt(ctx, o, source, rule, lambdas, seed)
	if err != nil {
		return nil, err
	}
	// Points that repeat their neighbours are dropped, which makes room for others;
	// the number of trials is bounded nevertheless.
	for tried := len(lambdas); len(lambdas) < n && tried < 2*n; {
		var middles []float64
		for _, i := range widest(points, &frame, max(1, (n-len(lambdas)+2)/3)) {
			a, b := lambdas[i], lambdas[i+1]
			middles = append(middles, math.Sqrt(cmp.Or(a, b/1e3)*b))
		}
		if len(middles) == 0 {
			break
		}
		more, err := pointsAt(ctx, o, source, rule, middles, seed)
		if err != nil {
			return nil, err
		}
		tried += len(middles)
		points = append(points, more...)
		slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.Lambda, b.Lambda) })
		points = slices.CompactFunc(points, func(a, b Point) bool { return a.Lambda == b.Lambda })
		points = dropRepeats(points)
		lambdas = lambdas[:0]
		for _, p := range points {
			lambdas = append(lambdas, p.Lambda)
		}
	}
	return lambdas, nil
}

// dropRepeats drops the inner points of runs of equal ones.
func dropRepeats(points []Point) []Point {
	same := func(a, b Point) bool { return a.Cost == b.Cost && a.Quality == b.Quality }
	var out []Point
	for i, p := range points {
		if i > 0 && i < len(points)-1 && same(points[i-1], p) && same(p, points[i+1]) {
			continue
		}
		out = append(out, p)
	}
	return out
}

func pointsAt(ctx context.Context, o *outcome.Table, source replay.Source, rule strategyAt, lambdas []float64, seed uint64) ([]Point, error) {
	p, err := rule.player("", "", source, lambdas)
	if err != nil {
		return nil, err
	}
	samples, err := Replay(ctx, o, []*Player{p}, seed, nil)
	if err != nil {
		return nil, err
	}
	points := make([]Point, len(lambdas))
	s := samples[0]
	for l, lambda := range lambdas {
		points[l] = Point{Lambda: lambda, Cost: mean(s.Cost[l], nil), Quality: mean(s.Quality[l], nil)}
	}
	return points, nil
}

// widest returns the indexes of up to n gaps between neighbouring points that are
// wide enough to be worth another point, widest first.
func widest(points []Point, f *Frame, n int) []int {
	low, high := f.costRange()
	gaps := make([]float64, max(len(points)-1, 0))
	var places []int
	for i := range gaps {
		a, b := points[i], points[i+1]
		if min(a.Cost, b.Cost) > high {
			continue
		}
		gap := math.Abs(a.Cost-b.Cost) / (high - low)
		if min(a.Cost, b.Cost, low) > 0 {
			gap = max(gap, 0.5*math.Abs(math.Log(a.Cost/b.Cost))/math.Log(high/low))
		}
		gap = max(gap, math.Abs(a.Quality-b.Quality))
		// A small train half distinguishes few points; the test half can distinguish more.
		if gap > 0 && a.Lambda > 0 {
			gap += 0.02 * math.Log(b.Lambda/a.Lambda)
		}
		gaps[i] = gap
		if gap > 1e-4 {
			places = append(places, i)
		}
	}
	slices.SortStableFunc(places, func(i, j int) int { return cmp.Compare(gaps[j], gaps[i]) })
	return places[:min(n, len(places))]
}
