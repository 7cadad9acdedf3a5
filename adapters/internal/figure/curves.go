package figure

import (
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
)

// Curves draws the cost-quality curves of the most important rows, with bands around the last two, and the single
// models as points. The cost axis is logarithmic if costs span more than a factor of 30.
func Curves(c *eval.Comparison, name, title string) (*Figure, error) {
	low, high := c.Costs[0], c.Costs[len(c.Costs)-1]
	axes := Axes{
		Title: title, X: "mean cost per query, US dollars", Y: "mean quality, per cent",
		LogX: low > 0 && high/low > 30,
	}
	if axes.LogX {
		axes.X += " (log scale)"
	}
	var series []Series
	for i, rowName := range headline {
		r := c.Row(rowName)
		if r == nil {
			continue
		}
		s := Series{Name: r.Name}
		if i >= len(headline)-2 && c.Resamples > 0 {
			for k, cost := range c.Costs {
				if cost < r.Curve[0].Cost {
					continue
				}
				s.X, s.Y = append(s.X, cost), append(s.Y, 100*r.Curve.QualityAt(cost, &c.Frame))
				s.Low, s.High = append(s.Low, max(0, 100*r.Low[k])), append(s.High, min(100, 100*r.High[k]))
			}
		} else {
			for _, p := range r.Curve {
				if p.Cost >= low*0.98 && p.Cost <= high*1.02 {
					s.X, s.Y = append(s.X, p.Cost), append(s.Y, 100*p.Quality)
				}
			}
		}
		series = append(series, s)
	}
	var labels []Label
	for i, p := range c.Frame.Models {
		labels = append(labels, Label{c.Models[i], p.Cost, 100 * p.Quality})
	}
	return Lines(name, axes, series, labels)
}

// headline are the rows that the figure of a comparison shows, most important last.
var headline = []string{
	"linear_interpolation", cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, "oracle", cascade.NameCascadeRoute, cascade.NameIndex,
}
