package estimate

import (
	"cmp"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// fitJudges learns the error rates of a table's judges from the rows that have both a
// verdict and the truth, over all models together: rates by model gain nothing, since what
// matters is the probability that a model is right. Known rates are kept.
func fitJudges(t *outcome.Table, known map[string]cascade.Rates) map[string]cascade.Rates {
	if len(t.Verdicts) == 0 {
		return nil
	}
	judges := map[string]cascade.Rates{}
	for name, verdicts := range t.Verdicts {
		if rates, ok := known[name]; ok {
			judges[name] = rates
			continue
		}
		var all verdictCounts
		for q, row := range t.Quality {
			own := countVerdicts(row, verdicts[q])
			all.add(&own, 1)
		}
		judges[name] = all.rates()
	}
	return judges
}

// panel is the judges of a table whose error rates an estimator knows, in the order in
// which they are asked.
type panel struct {
	judges []juror
	usual  []float64   // by model: mean cost of a verdict; nil if every answer is judged
	prices [][]float64 // of the table's verdicts
	costs  [][]float64 // by answer: total of the verdicts of all judges asked; nil if none has a price
}

func (p *panel) usd(query, model int) float64 {
	if usd := outcome.At(p.prices, query, model); usd >= 0 {
		return usd
	}
	return p.usual[model]
}

// juror is one judge: its verdicts, their error rates, and which models it judges.
type juror struct {
	verdicts [][]float64
	rates    cascade.Rates
	judges   []bool
}

func panelOf(t *outcome.Table, e *Estimator) *panel {
	p := &panel{}
	names := slices.DeleteFunc(t.Judges(), func(name string) bool { _, known := e.Judges[name]; return !known })
	place := func(name string) int {
		if at := slices.Index(e.JudgeOrder, name); at >= 0 {
			return at
		}
		return len(e.JudgeOrder)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	for _, name := range names {
		j := juror{t.Verdicts[name], e.Judges[name], make([]bool, len(t.Models))}
		for _, row := range j.verdicts {
			for m, verdict := range row {
				j.judges[m] = j.judges[m] || !math.IsNaN(verdict)
			}
		}
		p.judges = append(p.judges, j)
		if usd := e.VerdictsUSD[name]; usd != nil {
			p.usual, p.prices = usd, t.VerdictCosts(name)
		}
	}
	if p.judges == nil {
		return nil
	}
	p.costs = p.costsOf(t, names)
	return p
}

// costsOf returns the total cost of the verdicts on each answer. judges are in the order in which they are
// asked, and none is asked after another has rejected the answer.
func (p *panel) costsOf(t *outcome.Table, judges []string) [][]float64 {
	costs := t.VerdictCosts(judges...)
	if !isPriced(costs) {
		return nil
	}
	for k, judge := range judges {
		if t.Signals[judge+sdk.SignalCostUSD] == nil {
			continue
		}
		own := t.VerdictCosts(judge)
		for q, row := range costs {
			for m := range row {
				if isRejected(p.judges[:k], q, m) {
					row[m] = max(0, row[m]-own[q][m])
				}
			}
		}
	}
	return costs
}

func isPriced(prices [][]float64) bool {
	return slices.ContainsFunc(prices, func(row []float64) bool {
		return slices.ContainsFunc(row, func(usd float64) bool { return usd > 0 })
	})
}

// likelihoods returns the probabilities of the judges' verdicts on an answer if it is right
// and if it is wrong, or zeros if there are none. Judges after one that rejects the answer
// are not asked.
func (p *panel) likelihoods(query, model int) (ifRight, ifWrong float64) {
	for _, j := range p.judges {
		verdict := j.verdicts[query][model]
		if math.IsNaN(verdict) {
			continue
		}
		if ifRight == 0 && ifWrong == 0 {
			ifRight, ifWrong = 1, 1
		}
		right, wrong := j.rates.Likelihoods(verdict >= 0.5)
		ifRight, ifWrong = ifRight*right, ifWrong*wrong
		if verdict < 0.5 {
			break
		}
	}
	return ifRight, ifWrong
}

func isRejected(judges []juror, query, model int) bool {
	return slices.ContainsFunc(judges, func(j juror) bool { return j.verdicts[query][model] < 0.5 })
}

// rates returns the joint error rates of the judges that will judge a model's answer, given
// the models that have run, and whether there are any: a judge that was inconclusive on an
// answer is not asked again on the query.
func (p *panel) rates(query, model int, ran []int) (together cascade.Rates, judged bool) {
	for k, j := range p.judges {
		silent := slices.ContainsFunc(ran, func(m int) bool {
			return j.judges[m] && math.IsNaN(j.verdicts[query][m]) && !isRejected(p.judges[:k], query, m)
		})
		switch {
		case !j.judges[model] || silent:
		case judged:
			together = together.And(j.rates)
		default:
			together, judged = j.rates, true
		}
	}
	return together, judged
}
