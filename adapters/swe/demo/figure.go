package demo

import (
	"math"

	"github.com/stepfall/stepfall/sdk/eval"
)

// Figure draws what each strategy solved over what it cost, with the line between
// the strategies that always ask one model.
func (r *Report) Figure() (*eval.Figure, error) {
	var series []eval.Series
	var labels []eval.Label
	line := eval.Series{Name: "one model, mixed"}
	for _, row := range r.Rows {
		share := 100 * float64(row.Solved) / float64(max(row.Tasks, 1))
		cents := 100 * row.CostUSD / float64(max(row.Tasks, 1))
		if row.Single {
			line.X, line.Y = append(line.X, cents), append(line.Y, share)
			labels = append(labels, eval.Label{Name: row.Strategy, X: cents, Y: share})
			continue
		}
		series = append(series, eval.Series{Name: row.Strategy, X: []float64{cents}, Y: []float64{share}})
		// Strategies that came to the same share one name.
		if n := len(labels) - 1; n >= 0 && labels[n].Y == share && math.Abs(labels[n].X-cents) < 1e-9 {
			labels[n].Name += " = " + row.Strategy
			continue
		}
		labels = append(labels, eval.Label{Name: row.Strategy, X: cents, Y: share})
	}
	series = append([]eval.Series{line}, series...)
	return eval.Lines("cost-quality", eval.Axes{
		Title: "Repair tasks: what is solved, and what it costs", X: "cost per task (US cents)", Y: "tasks solved (%)",
	}, series, labels)
}
