package paper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

func board(ctx context.Context, e *Env, p *Page) error {
	var results []*result
	var shipped, folder, absent []string
	for _, c := range contests() {
		e.startingf("board: %s", c.title)
		d, err := e.open(ctx, c.file, outcome.Options{Verified: c.verified})
		if errors.Is(err, os.ErrNotExist) {
			absent = append(absent, c.title)
			continue
		}
		if err != nil {
			return err
		}
		if c.change == nil {
			c.change = withoutSignals
		}
		r, err := e.compete(ctx, &c, d)
		if err != nil {
			return err
		}
		results = append(results, r)
		to := &folder
		if d.Shipped {
			to = &shipped
		}
		if name := fmt.Sprintf("%s (sha256 %.12s)", d.Name, d.Hash); !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
	e.writeBoard(p, results, shipped, folder, absent)
	return nil
}

// boardPoints is the number of lambdas of a curve.
const boardPoints = 12

// boardPairs is the number of random pairs of halves of a table, 10 by default, each measured both ways;
// boardResamples is the number of resamples, each with new fits, 12 by default.
func (e *Env) boardPairs() int { return 2 * e.splits() }

func (e *Env) boardResamples() int { return max(2, 12*e.splits()/5) }

// entrant is the result of one method on one table.
type entrant struct {
	auc, gap                 []float64 // on each half; gap is that of index minus that of the method
	hindsight, chosen, short []float64 // costs relative to the best model's, and the shortfall of quality
	refitted                 []float64 // gap on each resample
	p                        float64   // with Holm's correction
}

func (n *entrant) gapAndError() (gap, deviation float64) {
	return stat.Mean(n.gap, nil), stat.StdDev(n.refitted, nil)
}

type result struct {
	*contest
	queries int
	models  int
	by      map[string]*entrant
}

// compare fits all methods to the train rows of a table and measures them on the test rows.
func (c *contest) compare(ctx context.Context, t *outcome.Table, train, test []int, seed uint64, choose bool) (*eval.Comparison, error) {
	h, err := eval.NewHalves(t.Rows(train), t.Rows(test), false)
	if err != nil {
		return nil, err
	}
	s := c.study
	s.Halves, s.Seed, s.Points, s.Choose = h, seed, boardPoints, choose
	for _, m := range methods {
		s.Strategies = append(s.Strategies, m.row)
	}
	return s.Run(ctx)
}

// compete measures a contest on pairs of halves, each both ways, and on resamples.
func (e *Env) compete(ctx context.Context, c *contest, d *Data) (*result, error) {
	pairs := e.boardPairs()
	r := &result{contest: c, by: map[string]*entrant{}}
	comparisons, err := overSplits(ctx, pairs+e.boardResamples(), func(ctx context.Context, i int) (both [2]*eval.Comparison, err error) {
		own := e.Seed + uint64(i)
		t, err := c.change(d.Table, own)
		if err != nil {
			return both, err
		}
		a, b := t.SplitRows(0.5, own)
		if i >= pairs {
			a, b = drawHalves(a, b, own)
		}
		if both[0], err = c.compare(ctx, t, a, b, own, i < pairs); err == nil {
			both[1], err = c.compare(ctx, t, b, a, own, i < pairs)
		}
		return both, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.title, err)
	}
	r.models = len(comparisons[0][0].Models)
	r.queries = comparisons[0][0].Queries + comparisons[0][1].Queries
	for _, m := range methods {
		n := &entrant{}
		r.by[m.row] = n
		for i, pair := range comparisons {
			both := 0.0
			for _, c := range pair {
				row := c.Row(m.row)
				gap := 100 * (c.Row(cascade.NameIndex).AUC - row.AUC)
				both += gap / 2
				if i >= pairs {
					continue
				}
				picked := c.Frame.Models[c.Picked]
				n.auc, n.gap = append(n.auc, 100*row.AUC), append(n.gap, gap)
				n.hindsight = append(n.hindsight, shareAtBest(c, row))
				n.chosen = append(n.chosen, row.Chosen.Cost/picked.Cost)
				n.short = append(n.short, 100*(picked.Quality-row.Chosen.Quality))
			}
			if i >= pairs {
				n.refitted = append(n.refitted, both)
			}
		}
	}
	return r, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// drawHalves resamples the queries of two halves together; copies of a query stay in the same half.
func drawHalves(a, b []int, seed uint64) (first, second []int) {
	rng := rand.New(rand.NewPCG(seed, 0xb007))
	n := len(a)
	all := slices.Concat(a, b)
	for range all {
		if k := rng.IntN(len(all)); k < n {
			first = append(first, all[k])
		} else {
			second = append(second, all[k])
		}
	}
	slices.Sort(first)
	slices.Sort(second)
	return first, second
}

// correctPValues sets the p-values of all cells, with Holm's step-down correction.
func correctPValues(results []*result) {
	var cells []*entrant
	for _, r := range results {
		for _, m := range methods {
			if n := r.by[m.row]; m.row != cascade.NameIndex {
				gap, deviation := n.gapAndError()
				n.p = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(n.refitted) - 1)}.Survival(math.Abs(gap)/max(deviation, 1e-12))
				cells = append(cells, n)
			}
		}
	}
	slices.SortStableFunc(cells, func(a, b *entrant) int { return cmp.Compare(a.p, b.p) })
	least := 0.0
	for i, n := range cells {
		least = max(least, min(1, n.p*float64(len(cells)-i)))
		n.p = least
	}
}
