package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// runComparison compares runs that had the same queries, query by query.
type runComparison struct {
	Queries  int
	List     []comparedRun
	Best     *comparedRun
	Dearest  *comparedRun
	Sentence string
	Chart    *chart
}

// comparedRun is one of the runs, over the queries that all have.
type comparedRun struct {
	Name, Tenant   string
	Calls          int
	CostUSD        float64
	Judged, Passed int
	// LessUSD is its saving relative to the most expensive run, LessError two standard errors of that over the paired
	// queries.
	LessUSD, LessError float64
	// Share is its cost divided by that of the most expensive run.
	Share float64
	Steps map[string]*store.Step `json:"-"`
}

// comparisonCache caches the comparison until the runs change.
type comparisonCache struct {
	mu   sync.Mutex
	key  string
	ways *runComparison
}

const (
	mostWays    = 12
	mostQueries = 1000
)

// compareRuns compares those of the runs that had the same queries; nil if there are not two.
func (v *viewer) compareRuns(ctx context.Context, runs []store.Sum) (*runComparison, error) {
	some := slices.DeleteFunc(slices.Clone(runs), func(r store.Sum) bool { return r.Steps < 3 || r.Steps > mostQueries })
	some = some[:min(len(some), mostWays)]
	if len(some) < 2 {
		return nil, nil
	}
	var key strings.Builder
	for i := range some {
		fmt.Fprintf(&key, "%q %q %d ", some[i].Tenant, some[i].Run, some[i].Steps)
	}
	v.ways.mu.Lock()
	defer v.ways.mu.Unlock()
	if v.ways.key == key.String() {
		return v.ways.ways, nil
	}
	var list []comparedRun
	for i := range some {
		w := comparedRun{Name: some[i].Run, Tenant: some[i].Tenant}
		isList, err := w.readSteps(ctx, v.o.Traces)
		if err != nil {
			return nil, err
		}
		if isList {
			list = append(list, w)
		}
	}
	v.ways.key, v.ways.ways = key.String(), compareGroup(list)
	return v.ways.ways, nil
}

// readSteps reads the steps of the run, and reports whether each has a query of its own. The run of an agent, which
// can ask the same query several times, is not a list of tasks.
func (w *comparedRun) readSteps(ctx context.Context, traces store.TraceReader) (isList bool, err error) {
	steps, err := traces.Steps(ctx, store.Filter{Run: w.Name, Tenant: w.Tenant, Limit: mostQueries})
	if err != nil {
		return false, err
	}
	steps = slices.DeleteFunc(steps, func(s store.Step) bool { return s.Tenant != w.Tenant })
	w.Steps = map[string]*store.Step{}
	for k := range steps {
		if q := steps[k].Query; q != "" {
			w.Steps[q] = &steps[k]
		}
	}
	return len(w.Steps) == len(steps), nil
}

// compareGroup compares the largest group of runs with the same queries; nil if there are not two.
func compareGroup(list []comparedRun) *runComparison {
	var same []comparedRun
	for i := range list {
		group := slices.DeleteFunc(slices.Clone(list), func(w comparedRun) bool { return !sameQueries(&list[i], &w) })
		if len(group) > len(same) {
			same = group
		}
	}
	if len(same) < 2 {
		return nil
	}
	queries := commonQueries(same)
	if len(queries) < 3 {
		return nil
	}
	w := &runComparison{Queries: len(queries), List: same}
	for i := range w.List {
		w.List[i].addSteps(queries)
	}
	slices.SortStableFunc(w.List, func(a, b comparedRun) int { return cmp.Compare(a.CostUSD, b.CostUSD) })
	w.Dearest = &w.List[len(w.List)-1]
	w.Best = &w.List[0] // the cheapest of those that solve the most
	for i := range w.List {
		if one := &w.List[i]; one.Passed > w.Best.Passed {
			w.Best = one
		}
		w.List[i].setSavings(w.Dearest, queries)
	}
	w.Sentence = w.sentence()
	w.Chart = w.chart()
	return w
}

func commonQueries(runs []comparedRun) (queries []string) {
	for q := range runs[0].Steps {
		if !slices.ContainsFunc(runs, func(w comparedRun) bool { return w.Steps[q] == nil }) {
			queries = append(queries, q)
		}
	}
	slices.Sort(queries)
	return queries
}

func (w *comparedRun) addSteps(queries []string) {
	for _, q := range queries {
		s := w.Steps[q]
		w.CostUSD += s.CostUSD
		w.Calls += s.Calls
		switch s.Outcome {
		case sdk.Passed.String():
			w.Judged, w.Passed = w.Judged+1, w.Passed+1
		case sdk.Failed.String():
			w.Judged++
		}
	}
}

// sameQueries reports whether two runs have at least four fifths of their queries in common.
func sameQueries(a, b *comparedRun) bool {
	common := 0
	for q := range a.Steps {
		if b.Steps[q] != nil {
			common++
		}
	}
	return common >= 3 && 10*common >= 8*max(len(a.Steps), len(b.Steps))
}

func (w *comparedRun) setSavings(other *comparedRun, queries []string) {
	sum, squares := 0.0, 0.0
	for _, q := range queries {
		d := other.Steps[q].CostUSD - w.Steps[q].CostUSD
		sum, squares = sum+d, squares+d*d
	}
	n := float64(len(queries))
	w.LessUSD = sum
	w.LessError = 2 * math.Sqrt(max(0, squares-sum*sum/n)*n/(n-1))
	if other.CostUSD > 0 {
		w.Share = w.CostUSD / other.CostUSD
	}
}

func (w *runComparison) sentence() string {
	solved := func(x *comparedRun) string {
		if x.Judged == 0 {
			return fmt.Sprintf("%s answered for %s", plainText(x.Name), dollars(x.CostUSD))
		}
		return fmt.Sprintf("%s solved %d for %s", plainText(x.Name), x.Passed, dollars(x.CostUSD))
	}
	text := fmt.Sprintf("The same %d tasks, %d ways: %s", w.Queries, len(w.List), solved(w.Best))
	if w.Best.Name == w.Dearest.Name {
		return text + ", and it is the most expensive."
	}
	return text + fmt.Sprintf("; %s. That is %s less.", solved(w.Dearest), percent(1-w.Best.Share))
}

func (w *runComparison) chart() *chart {
	c := &chart{ID: "ways", Title: "What each way solved, and what it cost", X: "US dollars for all tasks", Y: "tasks solved", PercentY: true}
	s := series{Name: "ways", Kind: "points"}
	for i := range w.List {
		x := &w.List[i]
		if x.Judged == 0 {
			return nil
		}
		share := float64(x.Passed) / float64(w.Queries)
		// Runs with the same result share one point.
		if n := len(s.Points) - 1; n >= 0 && s.Points[n].Y == share && math.Abs(s.Points[n].X-x.CostUSD) <= 0.005*w.Dearest.CostUSD {
			s.Points[n].Label += ", " + plainText(x.Name)
			continue
		}
		s.Points = append(s.Points, point{X: x.CostUSD, Y: share, Label: plainText(x.Name), XText: dollars(x.CostUSD), YText: percent(share)})
	}
	c.Series = []series{s}
	return c
}
