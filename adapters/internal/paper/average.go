package paper

import (
	"context"
	"fmt"
	"math"

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

// names returns the rows of the cell.
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
	if v >= c.best()-5e-5 && name != eval.Oracle {
		s = "**" + s + "**"
	}
	return s
}

func (c *cell) best() float64 {
	best := math.Inf(-1)
	for _, name := range c.names() {
		if v := c.auc(name); name != eval.Oracle && v > best {
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

// aucTable puts cells side by side: AUC in per cent, the best of each column bold.
func aucTable(corner string, heads []string, cells []*cell) *eval.Table {
	t := &eval.Table{Header: append([]string{corner}, heads...)}
	for _, name := range allNames(cells) {
		line := []string{name}
		for _, c := range cells {
			line = append(line, c.text(name))
		}
		t.Cells = append(t.Cells, line)
	}
	return t
}

// gapTable puts the differences to the reference side by side.
func gapTable(corner string, heads []string, cells []*cell) *eval.Table {
	t := &eval.Table{Header: append([]string{corner}, heads...)}
	for _, name := range allNames(cells) {
		line := []string{name}
		for _, c := range cells {
			line = append(line, c.gap(name))
		}
		t.Cells = append(t.Cells, line)
	}
	return t
}

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
