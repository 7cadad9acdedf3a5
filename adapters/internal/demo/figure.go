package demo

import "github.com/stepfall/stepfall/sdk/eval"

// Figure draws what each strategy solved over what it cost, a curve over its budgets,
// with the line between the strategies that always ask one model.
func (r *Report) Figure() (*eval.Figure, error) {
	var labels []eval.Label
	line := eval.Series{Name: "one model, mixed"}
	var curves []eval.Series
	for _, row := range r.Rows {
		points := make([]eval.Point, len(row.Points))
		for i, p := range row.Points {
			points[i] = eval.Point{Cost: 100 * p.CostUSD / float64(max(r.Tasks, 1)), Quality: 100 * float64(p.Solved) / float64(max(r.Tasks, 1))}
		}
		if row.Single {
			line.X, line.Y = append(line.X, points[0].Cost), append(line.Y, points[0].Quality)
			labels = append(labels, eval.Label{Name: row.Strategy, X: points[0].Cost, Y: points[0].Quality})
			continue
		}
		curve := eval.Series{Name: row.Strategy}
		for _, p := range eval.NewCurve(points) {
			curve.X, curve.Y = append(curve.X, p.Cost), append(curve.Y, p.Quality)
		}
		curves = append(curves, curve)
	}
	return eval.Lines("cost-quality", eval.Axes{
		Title: "Repair tasks: what is solved, and what it costs", X: "cost per task (US cents)", Y: "tasks solved (%)", Percent: true,
	}, append([]eval.Series{line}, curves...), labels)
}
