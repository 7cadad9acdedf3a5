package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
)

// Plan is what two policies do on the same steps.
type Plan struct {
	// Old and New name the policies, Source what they decided on.
	Old, New, Source string
	Pairs            []Pair
}

// Pair is one step under each policy.
type Pair struct{ Old, New *sdk.Trace }

type comparePage struct {
	frame
	Sentence string
	Note     string
	// Empty says that nothing is compared, so that the page tells how to.
	Empty bool
	A, B  string
	Rows  []comparedRow
	// Same counts the rows that do not change, Left those that a page leaves out.
	Same, Left int
	Runs       []string
	Evals      *evalsCompared
	Order      []string
}

// comparedRow is a step that changes.
type comparedRow struct {
	Query          string
	A, B           side
	LessUSD        float64
	LinkA, LinkB   string
	Better, Poorer bool
}

type side struct {
	Asked   []string
	Chosen  string
	Outcome string
	CostUSD float64
	Quality float64
}

const mostCompared = 500

func (v *viewer) compare(r *http.Request) (any, error) {
	q := r.URL.Query()
	return v.makeCompare(r.Context(), q.Get("a"), q.Get("b"))
}

func (v *viewer) makeCompare(ctx context.Context, a, b string) (*comparePage, error) {
	p := &comparePage{frame: v.frame("compare", "Compare", false), A: a, B: b}
	switch {
	case v.o.Plan != nil && a == "":
		p.plan(v.o.Plan)
		return p, nil
	case len(v.o.Reports) > 1:
		p.evals(v.o.Reports[0], v.o.Reports[1])
		return p, nil
	case v.o.Traces == nil:
		p.Sentence, p.Empty = "Nothing to compare.", true
		return p, nil
	case v.o.Other != nil:
		return p, p.files(ctx)
	}
	return p, p.runs(ctx)
}

// runs compares two runs that had the same queries.
func (p *comparePage) runs(ctx context.Context) error {
	reader := p.v.o.Traces
	runs, err := reader.Runs(ctx, store.Filter{Limit: 100})
	if err != nil {
		return err
	}
	for i := range runs {
		p.Runs = append(p.Runs, runs[i].Run)
	}
	if p.A == "" || p.B == "" {
		w, err := p.v.findWays(ctx, runs[:min(len(runs), 20)])
		if err != nil {
			return err
		}
		if w == nil || w.Best.Name == w.Dearest.Name {
			p.Sentence, p.Empty = "Choose two runs that had the same queries.", true
			if len(runs) < 2 {
				p.Sentence = "There is nothing to compare yet."
			}
			return nil
		}
		p.A, p.B = w.Dearest.Name, w.Best.Name
	}
	pairs, err := pairedSteps(ctx, [2]*sampler{p.v.sampler, p.v.sampler}, [2]store.Filter{{Run: p.A}, {Run: p.B}})
	if err != nil {
		return err
	}
	if len(pairs) == 0 {
		p.Sentence, p.Empty = "These runs have no query in common.", true
		return nil
	}
	p.pairs(pairs, true)
	return nil
}

// files compares the steps of two files that had the same queries.
func (p *comparePage) files(ctx context.Context) error {
	p.A, p.B = p.v.o.Source, p.v.o.OtherSource
	pairs, err := pairedSteps(ctx, [2]*sampler{p.v.sampler, {from: p.v.o.Other}}, [2]store.Filter{})
	if err != nil {
		return err
	}
	if len(pairs) == 0 {
		p.Sentence, p.Empty = "The two files have no query in common: steps are paired by their query_id.", true
		return nil
	}
	p.pairs(pairs, false)
	return nil
}

// pairedSteps pairs the newest steps of two sources by their queries.
func pairedSteps(ctx context.Context, from [2]*sampler, filters [2]store.Filter) ([]Pair, error) {
	var sides [2]map[string]*sdk.Trace
	for i := range from {
		traces, err := from[i].newest(ctx, filters[i], 2*mostQueries)
		if err != nil {
			return nil, err
		}
		sides[i] = map[string]*sdk.Trace{}
		for _, t := range traces {
			sides[i][cmp.Or(t.QueryID, t.ID)] = t
		}
	}
	var pairs []Pair
	for q, t := range sides[0] {
		if u := sides[1][q]; u != nil {
			pairs = append(pairs, Pair{t, u})
		}
	}
	slices.SortFunc(pairs, func(x, y Pair) int { return cmp.Compare(x.Old.QueryID, y.Old.QueryID) })
	return pairs, nil
}

func (p *comparePage) plan(plan *Plan) {
	p.A, p.B, p.Note = plan.Old, plan.New, plan.Source
	p.pairs(plan.Pairs, false)
}

func sideOf(t *sdk.Trace) side {
	l := lineOf(t)
	s := side{Asked: l.Asked, Chosen: l.Chosen, Outcome: l.Outcome, CostUSD: l.CostUSD, Quality: math.NaN()}
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Model == t.Chosen && c.Error == "" {
			s.Quality = c.Quality.Mean
			if q, ok := c.Verdict.Quality(); ok {
				s.Quality = q
			}
		}
	}
	if t.Chosen == "" {
		s.Quality = 0
	}
	return s
}

// pairs fills in the rows that change, and the sentence.
func (p *comparePage) pairs(pairs []Pair, linked bool) {
	var models []*sdk.Trace
	cost, costSquares, better, betterSquares := 0.0, 0.0, 0.0, 0.0
	changed := 0
	for i := range pairs {
		a, b := sideOf(pairs[i].Old), sideOf(pairs[i].New)
		models = append(models, pairs[i].Old, pairs[i].New)
		d, q := b.CostUSD-a.CostUSD, b.Quality-a.Quality
		if math.IsNaN(q) {
			q = 0
		}
		cost, costSquares = cost+d, costSquares+d*d
		better, betterSquares = better+q, betterSquares+q*q
		if slices.Equal(a.Asked, b.Asked) && a.Chosen == b.Chosen && a.Outcome == b.Outcome {
			p.Same++
			continue
		}
		changed++
		row := comparedRow{Query: cmp.Or(pairs[i].Old.QueryID, short(pairs[i].Old.ID)), A: a, B: b, LessUSD: -d, Better: q > 0.005, Poorer: q < -0.005}
		if linked {
			row.LinkA, row.LinkB = pairs[i].Old.ID, pairs[i].New.ID
		}
		p.Rows = append(p.Rows, row)
	}
	n := float64(len(pairs))
	half := func(sum, squares float64) float64 {
		if n < 2 {
			return 0
		}
		return 2 * math.Sqrt(max(0, squares-sum*sum/n)/(n-1)/n)
	}
	p.Order = candidates(models)
	p.Sentence = fmt.Sprintf("%s of %s change from %s to %s; %s; quality %+.1f ± %.1f points.",
		whole(changed), count(int64(len(pairs)), "step"), plain(p.A), plain(p.B), signedDollars(cost), 100*better/n, 100*half(better, betterSquares))
	slices.SortStableFunc(p.Rows, func(a, b comparedRow) int { return cmp.Compare(math.Abs(b.LessUSD), math.Abs(a.LessUSD)) })
	if p.Left = len(p.Rows) - mostCompared; p.Left > 0 {
		p.Rows = p.Rows[:mostCompared]
	} else {
		p.Left = 0
	}
	_ = costSquares
}

// evalsCompared is two evaluations side by side.
type evalsCompared struct {
	Rows []evalsRow
	// Only names the strategies that one of them lacks.
	Only []string
}

type evalsRow struct {
	Name         string
	A, B         *float64 // AUC
	Difference   float64
	Half         float64 // two sigma of the difference, taking the two as independent
	CostA, CostB *float64
}

func (p *comparePage) evals(a, b Report) {
	p.A, p.B = a.Name, b.Name
	e := &evalsCompared{}
	changed, top := 0, ""
	largest := 0.0
	for i := range a.Document.Strategies {
		x := &a.Document.Strategies[i]
		k := slices.IndexFunc(b.Document.Strategies, func(s strategyRow) bool { return s.Name == x.Name })
		if k < 0 {
			e.Only = append(e.Only, x.Name+" ("+a.Name+")")
			continue
		}
		y := &b.Document.Strategies[k]
		row := evalsRow{Name: x.Name, A: x.AUC, B: y.AUC, CostA: x.CostAtBest, CostB: y.CostAtBest}
		if x.AUC != nil && y.AUC != nil {
			row.Difference = *y.AUC - *x.AUC
			if x.AUCLow != nil && y.AUCLow != nil {
				row.Half = math.Hypot(*x.AUC-*x.AUCLow, *y.AUC-*y.AUCLow)
			}
			if math.Abs(row.Difference) > row.Half {
				changed++
			}
			if math.Abs(row.Difference) > math.Abs(largest) {
				largest, top = row.Difference, x.Name
			}
		}
		e.Rows = append(e.Rows, row)
	}
	for i := range b.Document.Strategies {
		name := b.Document.Strategies[i].Name
		if !slices.ContainsFunc(a.Document.Strategies, func(s strategyRow) bool { return s.Name == name }) {
			e.Only = append(e.Only, name+" ("+b.Name+")")
		}
	}
	slices.SortStableFunc(e.Rows, func(x, y evalsRow) int { return cmp.Compare(math.Abs(y.Difference), math.Abs(x.Difference)) })
	p.Evals = e
	p.Sentence = fmt.Sprintf("%d of %d strategies differ by more than two sigma from %s to %s.", changed, len(e.Rows), plain(a.Name), plain(b.Name))
	if top != "" {
		p.Sentence += fmt.Sprintf(" The largest difference is that of %s: %+.2f points of AUC.", top, 100*largest)
	}
	if a.Document.Queries != b.Document.Queries || strings.Join(modelNames(a), ",") != strings.Join(modelNames(b), ",") {
		p.Note = "The two were measured on other queries or other models: differences are of the data, too."
	}
}
