package fit

import (
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Ladder compares a strategy that treats verdicts as evidence with ladders, which treat them as final:
// models in order of cost, each called if the judges reject the answer before. Single models count as
// ladders too. On each fold the strategy is compared with the mixture of two ladders that was best on
// the other folds at the strategy's cost.
type Ladder struct {
	CostUSD float64 `json:"cost_usd"`
	Quality float64 `json:"quality"`
	// Gain is by how much the strategy's quality is higher, with its standard error over
	// the queries.
	Gain         float64 `json:"gain"`
	GainStdError float64 `json:"gain_std_error"`
	// Priced says that verdicts have a price and are requested for every answer. A ladder does
	// not pay for the last one.
	Priced bool `json:"priced,omitempty"`
}

// Behind reports whether the strategy is worse by more than two standard errors.
func (l *Ladder) Behind() bool { return l.Gain+2*l.GainStdError < 0 }

const ladderDepth = 3

// compareLadders compares the fitted strategy with ladders. It returns nil if there are no fallible judges.
// Costs in judged include those of the verdicts.
func (f *fitter) compareLadders(t, judged *outcome.Table, strategy cascade.Strategy) *Ladder {
	if len(t.Verdicts) == 0 {
		return nil
	}
	l := compareWithLadders(t, judged, f.candidate, f.profile.Expected.CostUSD, t.Folds(f.options.Folds, f.options.Seed), f.options.Folds)
	l.Priced = l.Priced && (f.profile.Estimator.VerdictsUSD == nil || !cascade.Buys(strategy))
	return l
}

// compareWithLadders compares a strategy at a mean cost with ladders. In every fold the strategy
// spends as much as the ladder: the folds' estimators differ a little, so that at one lambda some
// folds would call expensive models more often than others do.
func compareWithLadders(t, judged *outcome.Table, strategy *candidate, usd float64, fold []int, folds int) *Ladder {
	rungs := orders(cascade.Params{}, t)[0]
	var ladders []replayRow
	var grow func(models []int, from int)
	grow = func(models []int, from int) {
		for k := from; k < len(rungs); k++ {
			own := append(slices.Clone(models), rungs[k])
			ladders = append(ladders, climbLadder(t, judged, own))
			if len(own) < ladderDepth {
				grow(own, k+1)
			}
		}
	}
	grow(nil, 0)
	own, qualities := make([]float64, len(fold)), make([]float64, len(fold))
	l := &Ladder{Priced: average(judged.MeanCosts()) > average(t.MeanCosts())}
	for f := range folds {
		in, rest := split(fold, f)
		var points []Point
		for i := range ladders {
			points = append(points, ladders[i].pointOn(float64(i), rest))
		}
		points = hull(points)
		m := meet(points, usd)
		cost := m.fill(&ladders[int(points[m.first].Value)], &ladders[int(points[m.second].Value)], in, qualities)
		l.CostUSD += cost * float64(len(in)) / float64(len(fold))
		if !m.reached {
			cost = usd
		}
		points = strategy.pointsOn(in)
		for i, p := range strategy.pointsOn(rest) {
			points[i].Quality = p.Quality // chosen by the other folds, as the ladder is
		}
		m = meet(points, cost)
		m.fill(&strategy.results[m.first], &strategy.results[m.second], in, own)
	}
	l.Quality = average(qualities)
	l.Gain, l.GainStdError = gain(own, qualities)
	return l
}

// fill sets the qualities of the mixture of a and b on some rows and returns its mean cost there.
func (m mix) fill(a, b *replayRow, rows []int, qualities []float64) (usd float64) {
	for _, q := range rows {
		qualities[q] = a.quality[q] + m.share*(b.quality[q]-a.quality[q])
		usd += (a.cost[q] + m.share*(b.cost[q]-a.cost[q])) / float64(len(rows))
	}
	return usd
}

// climbLadder replays a ladder: models run in order until no judge rejects the answer; the last one's
// needs no verdict.
func climbLadder(t, judged *outcome.Table, models []int) replayRow {
	r := newReplayRow(len(t.Queries))
	for q := range t.Queries {
		for k, m := range models {
			isLast := k == len(models)-1
			if isLast {
				r.cost[q] += t.CostUSD[q][m]
			} else {
				r.cost[q] += judged.CostUSD[q][m]
			}
			isRejected := false
			for _, verdicts := range t.Verdicts {
				isRejected = isRejected || verdicts[q][m] < 0.5
			}
			if isLast || !isRejected {
				r.quality[q] = t.Quality[q][m]
				break
			}
		}
	}
	return r
}

// hull returns the points that no mixture of two others at the same cost reaches, sorted by cost.
func hull(points []Point) []Point {
	var hull []Point
	for _, p := range frontier(points) {
		for len(hull) > 1 {
			a, b := hull[len(hull)-2], hull[len(hull)-1]
			if (b.Quality-a.Quality)*(p.CostUSD-b.CostUSD) > (p.Quality-b.Quality)*(b.CostUSD-a.CostUSD) {
				break
			}
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, p)
	}
	return hull
}
