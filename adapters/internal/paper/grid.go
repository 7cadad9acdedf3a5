package paper

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// column is a study of a table, repeated over splits, with the given models or, without any, with all. The runner
// sets the study's halves, resamples and seed.
type column struct {
	head   string
	table  *outcome.Table
	models []string
	study  eval.Study
}

// studySplits calls measure with the column's study for each of splits random splits.
func (e *Env) studySplits(col *column, share float64, splits int, measure func(s *eval.Study) error) error {
	t := col.table
	if col.models != nil {
		var err error
		if t, err = t.Select(col.models...); err != nil {
			return fmt.Errorf("%s: %w", col.head, err)
		}
	}
	for i := range splits {
		s := col.study
		s.Seed, s.Bootstrap = e.Seed+uint64(i), e.Bootstrap
		train, test := t.Split(share, s.Seed)
		h, err := eval.NewHalves(train, test, false)
		if err == nil {
			s.Halves = h
			err = measure(&s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", col.head, err)
		}
	}
	return nil
}

// grid holds the results of columns.
type grid struct {
	heads []string
	cells []*cell
}

func (g *grid) add(head string, c *cell) {
	g.heads, g.cells = append(g.heads, head), append(g.cells, c)
}

func (e *Env) columns(ctx context.Context, page string, share float64, splits int, list []column) (*grid, error) {
	g := &grid{}
	for _, col := range list {
		e.startingf("%s: %s", page, col.head)
		c := &cell{}
		err := e.studySplits(&col, share, splits, func(s *eval.Study) error {
			result, err := s.Run(ctx)
			c.comparisons = append(c.comparisons, result)
			return err
		})
		if err != nil {
			return nil, err
		}
		g.add(col.head, c)
	}
	return g, nil
}

// groups measures a column on all test queries and on those of each group.
func (e *Env) groups(ctx context.Context, page string, share float64, splits int, col column) (*grid, error) {
	e.startingf("%s: %s", page, col.head)
	whole, byGroup := &cell{}, map[string]*cell{}
	err := e.studySplits(&col, share, splits, func(s *eval.Study) error {
		s.ByGroup = true
		all, err := s.Run(ctx)
		if err != nil {
			return err
		}
		whole.comparisons = append(whole.comparisons, all)
		for name, c := range all.Groups {
			if byGroup[name] == nil {
				byGroup[name] = &cell{}
			}
			byGroup[name].comparisons = append(byGroup[name].comparisons, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	g := &grid{[]string{"all"}, []*cell{whole}}
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		g.add(name, byGroup[name])
	}
	return g, nil
}

// table returns a table with a column for each cell and a row for each strategy.
func (g *grid) table(corner string, text func(c *cell, row string) string) *eval.Table {
	t := &eval.Table{Header: append([]string{corner}, g.heads...)}
	for _, name := range eval.StrategyNames() {
		if !slices.ContainsFunc(g.cells, func(c *cell) bool { return c.has(name) }) {
			continue
		}
		line := []string{name}
		for _, c := range g.cells {
			line = append(line, text(c, name))
		}
		t.Cells = append(t.Cells, line)
	}
	return t
}

// aucs shows the AUC in per cent, the best of each column in bold; gaps shows the differences to the reference.
func (g *grid) aucs() *eval.Table              { return g.table("AUC %", (*cell).text) }
func (g *grid) gaps(corner string) *eval.Table { return g.table(corner, (*cell).gap) }

// cell is a study repeated over several splits of one table.
type cell struct {
	comparisons []*eval.Comparison
}

func (c *cell) has(name string) bool { return c.comparisons[0].Row(name) != nil }

// mean returns the mean of a value over the splits on which it is defined, and their number.
func (c *cell) mean(name string, value func(*eval.Comparison, *eval.Row) float64) (mean float64, n int) {
	for _, result := range c.comparisons {
		r := result.Row(name)
		if r == nil {
			continue
		}
		if v := value(result, r); !math.IsNaN(v) {
			mean += v
			n++
		}
	}
	return mean / float64(n), n
}

func (c *cell) auc(name string) float64 {
	v, _ := c.mean(name, func(_ *eval.Comparison, r *eval.Row) float64 { return r.AUC })
	return v
}

// text returns the mean AUC in per cent, the best of the cell in bold.
func (c *cell) text(name string) string {
	v := c.auc(name)
	if math.IsNaN(v) {
		return "-"
	}
	best := math.Inf(-1)
	for _, r := range c.comparisons[0].Rows {
		if other := c.auc(r.Name); r.Name != "oracle" && other > best {
			best = other
		}
	}
	s := fmt.Sprintf("%.2f", 100*v)
	if v >= best-5e-5 && name != "oracle" {
		s = "**" + s + "**"
	}
	return s
}

// gap returns the mean paired difference to the reference with the mean half-width
// of its interval. Splits share their queries, so the width is not divided by
// their number.
func (c *cell) gap(name string) string {
	d, n := c.mean(name, func(_ *eval.Comparison, r *eval.Row) float64 { return r.Difference.Value })
	if n == 0 || name == c.comparisons[0].Reference {
		return "-"
	}
	half, m := c.mean(name, func(_ *eval.Comparison, r *eval.Row) float64 { return (r.Difference.High - r.Difference.Low) / 2 })
	if m == 0 {
		return fmt.Sprintf("%+.2f", 100*d)
	}
	star := ""
	if math.Abs(d) > half {
		star = " *"
	}
	return fmt.Sprintf("%+.2f ± %.2f%s", 100*d, 100*half, star)
}

// overSplits calls f for each of n splits in parallel.
func overSplits[T any](ctx context.Context, n int, f func(ctx context.Context, i int) (T, error)) ([]T, error) {
	out := make([]T, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range out {
		group.Go(func() (err error) {
			out[i], err = f(ctx, i)
			return err
		})
	}
	return out, group.Wait()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
