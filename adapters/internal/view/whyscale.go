package view

import (
	"math"
	"slices"
)

// span is an interval of lambdas with the same decision.
type span struct {
	From, To float64
	Run      string
	// X and Width are the place on the scale, from 0 to 1.
	X, Width float64
}

// scale holds the lambdas, or thresholds, of the slider's positions.
type scale struct {
	// Points is ascending; Points[Here] is the recorded value.
	Points []float64
	Here   int
	Log    bool
}

// scale returns values around the recorded one, wide enough that no decision changes beyond: from a lambda at which
// cost hardly matters to one at which no answer is worth its cost.
func (q *question) scale(points int) scale {
	s := scale{Points: make([]float64, points), Log: !q.threshold}
	for i := range points {
		s.Points[i] = float64(i) / float64(points-1)
	}
	if q.threshold {
		return s.replaceNearest(q.knob())
	}
	low, high := math.Inf(1), 0.0
	for _, c := range q.state.Costs {
		if c > 0 {
			low, high = min(low, c), max(high, c)
		}
	}
	if high == 0 {
		low, high = 1e-3, 1e-3
	}
	from, to := 1e-3/high, 3/low
	if l := q.knob(); l > 0 {
		from, to = min(from, l/2), max(to, l*2)
	}
	for i, share := range s.Points {
		s.Points[i] = from * math.Pow(to/from, share)
	}
	return s.replaceNearest(q.knob())
}

// replaceNearest replaces the nearest point by the recorded value.
func (s scale) replaceNearest(v float64) scale {
	near := 0
	for i, p := range s.Points {
		if math.Abs(s.place(p)-s.place(v)) < math.Abs(s.place(s.Points[near])-s.place(v)) {
			near = i
		}
	}
	s.Points[near] = v
	slices.Sort(s.Points)
	s.Here = slices.Index(s.Points, v)
	return s
}

// place returns the position of a value on the scale, from 0 to 1.
func (s *scale) place(v float64) float64 {
	n := len(s.Points)
	if !s.Log {
		return (v - s.Points[0]) / max(s.Points[n-1]-s.Points[0], 1e-12)
	}
	if v <= 0 {
		return 0
	}
	from, to := math.Log(max(s.Points[0], 1e-300)), math.Log(s.Points[n-1])
	if s.Points[0] == 0 { // lambda 0 is placed one position before the others
		from = math.Log(s.Points[1]) - (to-math.Log(s.Points[1]))/float64(n-2)
	}
	return min(max((math.Log(v)-from)/(to-from), 0), 1)
}

// spans returns the intervals of equal decisions, with bounds accurate to a relative error of 1e-4.
func (q *question) spans(s *scale) ([]span, error) {
	var list []span
	for i, p := range s.Points {
		run, err := q.decide(p)
		if err != nil {
			return nil, err
		}
		switch {
		case i == 0:
			list = append(list, span{From: p, To: p, Run: run})
		case run == list[len(list)-1].Run:
			list[len(list)-1].To = p
		default:
			flip := q.flip(s.Points[i-1], p, list[len(list)-1].Run)
			list[len(list)-1].To = flip
			list = append(list, span{From: flip, To: p, Run: run})
		}
	}
	for i := range list {
		list[i].X = s.place(list[i].From)
		list[i].Width = s.place(list[i].To) - list[i].X
	}
	return list, nil
}

// flip finds by bisection where the decision changes from run, between is and isNot.
func (q *question) flip(is, isNot float64, run string) float64 {
	if is == 0 && !q.threshold {
		return isNot // lambda 0 is a special case: everything is free
	}
	for range 60 {
		if math.Abs(isNot-is) <= 1e-4*math.Abs(isNot) {
			break
		}
		mid := (is + isNot) / 2
		if is > 0 && isNot > 0 && !q.threshold {
			mid = math.Sqrt(is * isNot)
		}
		if at, err := q.decide(mid); err == nil && at == run {
			is = mid
		} else {
			isNot = mid
		}
	}
	return isNot
}
