package paper

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// cell is a study repeated over several splits of one table.
type cell struct {
	comparisons []*eval.Comparison
}

// run makes a cell: one study per split, set up by the function.
func (e *Env) run(ctx context.Context, t *outcome.Table, share float64, splits int, setup func(s *eval.Study)) (*cell, error) {
	c := &cell{}
	for i := range splits {
		h, err := halves(t, share, e.Seed+uint64(i))
		if err != nil {
			return nil, err
		}
		s := &eval.Study{Halves: h, Bootstrap: e.Bootstrap, Seed: e.Seed + uint64(i)}
		setup(s)
		result, err := s.Run(ctx)
		if err != nil {
			return nil, err
		}
		c.comparisons = append(c.comparisons, result)
	}
	return c, nil
}

func (c *cell) names() []string {
	var names []string
	for _, r := range c.comparisons[0].Rows {
		names = append(names, r.Name)
	}
	return names
}

// over returns the mean of a value over the splits on which it is defined, and on
// how many it is.
func (c *cell) over(name string, value func(*eval.Row) float64) (mean float64, n int) {
	for _, result := range c.comparisons {
		r := result.Row(name)
		if r == nil {
			continue
		}
		if v := value(r); !math.IsNaN(v) {
			mean += v
			n++
		}
	}
	return mean / float64(n), n
}

func (c *cell) auc(name string) float64 {
	v, _ := c.over(name, func(r *eval.Row) float64 { return r.AUC })
	return v
}

// text writes the mean AUC in per cent; best tells whether to make it bold.
func (c *cell) text(name string) string {
	v := c.auc(name)
	if math.IsNaN(v) {
		return "-"
	}
	s := fmt.Sprintf("%.2f", 100*v)
	if v >= c.best()-5e-5 && name != "oracle" {
		s = "**" + s + "**"
	}
	return s
}

func (c *cell) best() float64 {
	best := math.Inf(-1)
	for _, name := range c.names() {
		if v := c.auc(name); name != "oracle" && v > best {
			best = v
		}
	}
	return best
}

// gap writes the mean paired difference to the reference with the mean half-width
// of its interval. Splits share their queries, so the width is not divided by
// their number.
func (c *cell) gap(name string) string {
	d, n := c.over(name, func(r *eval.Row) float64 { return r.Difference.Value })
	if n == 0 || name == c.comparisons[0].Reference {
		return "-"
	}
	half, m := c.over(name, func(r *eval.Row) float64 { return (r.Difference.High - r.Difference.Low) / 2 })
	if m == 0 {
		return fmt.Sprintf("%+.2f", 100*d)
	}
	star := ""
	if math.Abs(d) > half {
		star = " *"
	}
	return fmt.Sprintf("%+.2f ± %.2f%s", 100*d, 100*half, star)
}

// overSplits computes something on each of n splits, several at a time.
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

func (e *Env) eachData(p *Page, list []*Data, measure func(d *Data) (*eval.Table, error)) error {
	for _, d := range list {
		e.startingf("%s: %s", p.Name, d.Name)
		t, err := measure(d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		p.section(d.Name)
		p.printf("Data: %s.\n\n", d)
		p.table(t)
	}
	return nil
}

// column is a study of a table, repeated over splits.
type column struct {
	head  string
	table *outcome.Table
	setup func(s *eval.Study)
}

// grid is what came of columns.
type grid struct {
	heads []string
	cells []*cell
}

func (e *Env) columns(ctx context.Context, page string, share float64, splits int, list []column) (*grid, error) {
	g := &grid{}
	for _, col := range list {
		e.startingf("%s: %s", page, col.head)
		c, err := e.run(ctx, col.table, share, splits, col.setup)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", col.head, err)
		}
		g.heads, g.cells = append(g.heads, col.head), append(g.cells, c)
	}
	return g, nil
}

// table puts cells side by side by what text says of each row.
func (g *grid) table(corner string, text func(c *cell, row string) string) *eval.Table {
	t := &eval.Table{Header: append([]string{corner}, g.heads...)}
	for _, name := range allNames(g.cells) {
		line := []string{name}
		for _, c := range g.cells {
			line = append(line, text(c, name))
		}
		t.Cells = append(t.Cells, line)
	}
	return t
}

// aucs has the AUC in per cent, the best of each column bold; gaps the differences to the
// reference.
func (g *grid) aucs() *eval.Table              { return g.table("AUC %", (*cell).text) }
func (g *grid) gaps(corner string) *eval.Table { return g.table(corner, (*cell).gap) }

// allNames returns the rows of any of the cells, in the order of the catalogue.
func allNames(cells []*cell) []string {
	there := map[string]bool{}
	for _, c := range cells {
		for _, name := range c.names() {
			there[name] = true
		}
	}
	var names []string
	for _, name := range eval.StrategyNames() {
		if there[name] {
			names = append(names, name)
		}
	}
	return names
}

// decision returns the mean time of a decision in microseconds.
func (c *cell) decision(name string) float64 {
	v, _ := c.over(name, func(r *eval.Row) float64 {
		if r.Decisions == 0 {
			return math.NaN()
		}
		return float64(r.DecisionTime.Nanoseconds()) / 1e3
	})
	return v
}

// spreadOf is the mean and twice the standard deviation over the splits.
func spreadOf(values []float64) (mean, two float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		two += (v - mean) * (v - mean)
	}
	return mean, 2 * math.Sqrt(two/float64(max(len(values)-1, 1)))
}

func (c *cell) per(name string, value func(*eval.Comparison, *eval.Row) float64) []float64 {
	var out []float64
	for _, result := range c.comparisons {
		out = append(out, value(result, result.Row(name)))
	}
	return out
}

// shareAtBest is the cost at the best single model's quality as a share of that
// model's, infinite where the quality is not reached.
func shareAtBest(c *eval.Comparison, r *eval.Row) float64 {
	if math.IsNaN(r.CostAtBest) {
		return math.Inf(1)
	}
	return r.CostAtBest / c.Frame.Models[c.Frame.Best].Cost
}

func sharePercent(share float64) string {
	if math.IsInf(share, 1) {
		return "not reached"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
