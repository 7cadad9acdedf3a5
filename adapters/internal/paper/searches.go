package paper

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// searchBudgets are shares of what the best single model of the train half costs.
var searchBudgets = []float64{0.25, 0.5}

// searchSet is a part of a table, whose whole is data.
type searchSet struct {
	title string
	data  *Data
	table *outcome.Table
}

// searchSets are few models judged by tests, and three on questions; one's own
// tables are taken whole.
func (e *Env) searchSets() ([]searchSet, error) {
	var list []searchSet
	for _, d := range e.Own {
		list = append(list, searchSet{d.Name, d, d.Table})
	}
	if list != nil {
		return list, nil
	}
	few := swebenchSets(e.Verified)[0]
	judged, err := e.Verified.Table.Select(few.models...)
	if err != nil {
		return nil, err
	}
	judged.Verified = true
	list = append(list, searchSet{few.name + " models, judged by tests", e.Verified, judged})
	three := e.lookSets()[0]
	t, err := e.Questions.Table.Select(three.models...)
	if err != nil {
		return nil, err
	}
	return append(list, searchSet{fmt.Sprintf("%d models on questions", len(three.models)), e.Questions, t}), nil
}

func searchesPieces(e *Env) int {
	list, err := e.searchSets()
	if err != nil {
		return 0 // the run says why
	}
	return len(list)
}

// searches measures what refining the lambdas is worth, and what it takes.
func searches(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("searches", "Different lambdas at different depths")
	p.printf("`stepfall fit --search` looks for lambdas beside the one that holds at every depth (`constant`): the paper's refinement of one depth after another (`per_step`), one lambda for each limit on the depth (`repetitive`), "+
		"and samples of a tree-structured Parzen estimator (`tpe`). What a search finds counts only where it is better on the train half. Each fit meets a budget on one half, a share of what the best single model costs there, and is replayed on the other, on %d random halves. "+
		"**Same half**: the quality beside constant's on the half it was found on. **New half**: the quality beside that of constant's whole curve at the cost that was met, in points; ± is two standard deviations over the halves. "+
		"**Found**: on how many halves the search found something. **Time**: of the whole fit beside constant's, the median.\n", e.splits())
	sets, err := e.searchSets()
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		p.section(set.title)
		p.printf("Data: %s.\n\n", set.data)
		e.startingf("searches: %s", set.title)
		t, err := e.searchTable(ctx, set.table)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.title, err)
		}
		p.table(t)
	}
	return p, nil
}

// searched is what one search came to on one half.
type searched struct {
	found     bool
	same, new float64 // quality beside constant's
	time      float64 // beside constant's
}

func (e *Env) searchTable(ctx context.Context, t *outcome.Table) (*eval.Table, error) {
	out := &eval.Table{Header: []string{"cascade_route", "budget", "found on", "same half", "new half", "time"}}
	for _, share := range searchBudgets {
		results := map[fit.Search][]searched{}
		for i := range e.splits() {
			if err := searchOn(ctx, t, share, e.Seed+uint64(i), results); err != nil {
				return nil, err
			}
		}
		for _, search := range fit.Searches()[1:] {
			list := results[search]
			var same, fresh, times []float64
			found := 0
			for _, r := range list {
				if r.found {
					found++
				}
				same, fresh, times = append(same, 100*r.same), append(fresh, 100*r.new), append(times, r.time)
			}
			line := []string{string(search), fmt.Sprintf("%.0f %%", 100*share), fmt.Sprintf("%d of %d", found, len(list))}
			for _, values := range [][]float64{same, fresh} {
				mean, two := spreadOf(values)
				line = append(line, fmt.Sprintf("%+.2f ± %.2f", mean, two))
			}
			out.Cells = append(out.Cells, append(line, fmt.Sprintf("%.1f times", median(times))))
		}
	}
	return out, nil
}

// searchOn fits with every search to one half, and replays what it finds on the other.
func searchOn(ctx context.Context, t *outcome.Table, share float64, seed uint64, results map[fit.Search][]searched) error {
	train, test := t.Split(0.5, seed)
	name, _ := bestSingle(train)
	o := fit.Options{Strategy: cascade.NameCascadeRoute, BudgetUSD: share * train.MeanCosts()[train.Index(name)], Seed: seed}
	frame := eval.NewFrame(test.MeanCosts(), test.MeanQualities())
	var constant *fit.Profile
	var curve eval.Curve
	var usual time.Duration
	for _, search := range fit.Searches() {
		o.Search = search
		began := time.Now()
		p, err := fit.Fit(ctx, train, o)
		if err != nil {
			return err
		}
		took := time.Since(began)
		limit := 0.0 // constant's curve is wanted whole
		if search == fit.SearchConstant {
			limit = math.Inf(1)
		}
		met, err := points(ctx, test, p, limit)
		if err != nil {
			return err
		}
		if search == fit.SearchConstant {
			constant, curve, usual = p, eval.NewCurve(met[1:]), took
			continue
		}
		found := p.Expected.Quality > constant.Expected.Quality
		r := searched{found: found, time: took.Seconds() / usual.Seconds()}
		if found {
			r.same = p.Expected.Quality - constant.Expected.Quality
			r.new = met[0].Quality - curve.QualityAt(met[0].Cost, &frame)
		}
		results[search] = append(results[search], r)
	}
	return nil
}
