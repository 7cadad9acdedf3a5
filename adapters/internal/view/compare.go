package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// pair is the step for one query in each of two runs.
type pair struct{ Old, New *sdk.Trace }

type comparePage struct {
	frame
	Sentence string
	// Empty reports that nothing is compared; the page then explains how to.
	Empty bool
	A, B  string
	Rows  []comparedRow
	// Same counts the steps that do not change, Left the rows beyond mostCompared.
	Same, Left int
	Runs       []string
	Order      []string
}

// comparedRow is a step that differs between the runs.
type comparedRow struct {
	Query          string
	A, B           side
	LessUSD        float64
	Better, Poorer bool
}

type side struct {
	store.Step
	Quality float64
}

const mostCompared = 500

func (v *viewer) compare(ctx context.Context, q url.Values) (*comparePage, error) {
	p := &comparePage{frame: v.frame("compare", "Compare", false), A: q.Get("a"), B: q.Get("b")}
	return p, p.runs(ctx)
}

// runs compares two runs with the same queries.
func (p *comparePage) runs(ctx context.Context) error {
	reader := p.v.o.Traces
	runs, err := reader.Runs(ctx, store.Filter{Limit: 100})
	if err != nil {
		return err
	}
	for i := range runs {
		p.Runs = append(p.Runs, runs[i].Run)
	}
	if err := p.chooseRuns(ctx, runs); err != nil || p.Empty {
		return err
	}
	pairs, err := p.v.pairSteps(ctx, p.A, p.B)
	if err != nil {
		return err
	}
	if len(pairs) == 0 {
		p.Sentence, p.Empty = "These runs have no query in common.", true
		return nil
	}
	p.pairs(pairs)
	return nil
}

// chooseRuns chooses the most expensive and the best run unless the query names both, or sets Empty.
func (p *comparePage) chooseRuns(ctx context.Context, runs []store.Sum) error {
	if p.A != "" && p.B != "" {
		return nil
	}
	w, err := p.v.compareRuns(ctx, runs[:min(len(runs), 20)])
	if err != nil {
		return err
	}
	if w == nil || w.Best.Name == w.Dearest.Name {
		p.Sentence, p.Empty = "Choose two runs of the same queries.", true
		if len(runs) < 2 {
			p.Sentence = "There is nothing to compare yet."
		}
		return nil
	}
	p.A, p.B = w.Dearest.Name, w.Best.Name
	return nil
}

// pairSteps pairs the newest steps of two runs by query.
func (v *viewer) pairSteps(ctx context.Context, a, b string) ([]pair, error) {
	var sides [2]map[string]*sdk.Trace
	for i, run := range []string{a, b} {
		traces, err := v.sampler.newest(ctx, store.Filter{Run: run}, 2*mostQueries)
		if err != nil {
			return nil, err
		}
		sides[i] = map[string]*sdk.Trace{}
		for _, t := range traces {
			sides[i][cmp.Or(t.QueryID, t.ID)] = t
		}
	}
	var pairs []pair
	for q, t := range sides[0] {
		if u := sides[1][q]; u != nil {
			pairs = append(pairs, pair{t, u})
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int { return cmp.Compare(x.Old.QueryID, y.Old.QueryID) })
	return pairs, nil
}

func sideOf(t *sdk.Trace) side {
	s := side{Step: sqlstore.StepOf(t), Quality: math.NaN()}
	if c := savings.ChosenCall(t); c != nil {
		s.Quality = c.Quality.Mean
		if q, ok := c.Verdict.Quality(); ok {
			s.Quality = q
		}
	}
	if t.Chosen == "" {
		s.Quality = 0
	}
	return s
}

func (p *comparePage) pairs(pairs []pair) {
	var models []*sdk.Trace
	cost, better, betterSquares := 0.0, 0.0, 0.0
	changed := 0
	for i := range pairs {
		a, b := sideOf(pairs[i].Old), sideOf(pairs[i].New)
		models = append(models, pairs[i].Old, pairs[i].New)
		d, q := b.CostUSD-a.CostUSD, b.Quality-a.Quality
		if math.IsNaN(q) {
			q = 0
		}
		cost += d
		better, betterSquares = better+q, betterSquares+q*q
		if slices.Equal(a.Asked, b.Asked) && a.Chosen == b.Chosen && a.Outcome == b.Outcome {
			p.Same++
			continue
		}
		changed++
		p.Rows = append(p.Rows, comparedRow{
			Query: cmp.Or(pairs[i].Old.QueryID, short(pairs[i].Old.ID)), A: a, B: b, LessUSD: -d, Better: q > 0.005, Poorer: q < -0.005,
		})
	}
	n := float64(len(pairs))
	half := 0.0
	if n > 1 {
		half = 2 * math.Sqrt(max(0, betterSquares-better*better/n)/(n-1)/n)
	}
	p.Order = candidates(models)
	p.Sentence = fmt.Sprintf("%s of %s change from %s to %s; %s; quality %+.1f ± %.1f points.",
		formatWhole(changed), count(int64(len(pairs)), "step"), plainText(p.A), plainText(p.B), signedDollars(cost), 100*better/n, 100*half)
	slices.SortStableFunc(p.Rows, func(a, b comparedRow) int { return cmp.Compare(math.Abs(b.LessUSD), math.Abs(a.LessUSD)) })
	p.Left = max(len(p.Rows)-mostCompared, 0)
	p.Rows = p.Rows[:len(p.Rows)-p.Left]
}
