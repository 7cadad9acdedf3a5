package demo

import (
	"math"

	"github.com/stepfall/stepfall/sdk/eval"
)

// Figure draws what each strategy solved over what it cost, with the line between
// the strategies that always ask one model.
func (r *Report) Figure() (*eval.Figure, error) {
	var labels []eval.Label
	line := eval.Series{Name: "one model, mixed"}
	var cascades []eval.Series
	for _, row := range r.Rows {
		share := 100 * float64(row.Solved) / float64(max(row.Tasks, 1))
		cents := 100 * row.CostUSD / float64(max(row.Tasks, 1))
		if row.Single {
			line.X, line.Y = append(line.X, cents), append(line.Y, share)
			labels = append(labels, eval.Label{Name: row.Strategy, X: cents, Y: share})
			continue
		}
		// Of strategies that came to the same, the last one would hide the others.
		if n := len(cascades) - 1; n >= 0 && cascades[n].Y[0] == share && math.Abs(cascades[n].X[0]-cents) < 1e-9 {
			cascades[n].Name += ",\n" + row.Strategy
			continue
		}
		cascades = append(cascades, eval.Series{Name: row.Strategy, X: []float64{cents}, Y: []float64{share}})
	}
	return eval.Lines("cost-quality", eval.Axes{
		Title: "Repair tasks: what is solved, and what it costs", X: "cost per task (US cents)", Y: "tasks solved (%)", Percent: true,
	}, append([]eval.Series{line}, cascades...), labels)
}
