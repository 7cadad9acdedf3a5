package eval

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// Report is what the HTML page shows: one file that asks for nothing else.
type Report struct {
	Title, Subtitle string
	Command         string
	// Facts are named things to know about the run: data, hashes, estimators.
	Facts    []Fact
	Sections []Section
}

// Fact is one line of a report's head.
type Fact struct{ Name, Value string }

// Section is a heading with tables and figures.
type Section struct {
	Title string
	Text  string
	// Table may be nil.
	Table   *Table
	Figures []*Figure
}

//go:embed report.html
var reportPage string

// Write writes the page.
func (r *Report) Write(w io.Writer) error {
	page, err := template.New("report").Funcs(template.FuncMap{"svg": inlineSVG}).Parse(reportPage)
	if err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	return page.Execute(w, r)
}

// inlineSVG returns the figure's svg element without the XML prologue.
func inlineSVG(f *Figure) (template.HTML, error) {
	data, err := f.SVG()
	if err != nil {
		return "", err
	}
	start := bytes.Index(data, []byte("<svg"))
	if start < 0 {
		return "", fmt.Errorf("figure %s has no svg element", f.Name)
	}
	// The drawing comes from our own canvas, which escapes the texts in it.
	return template.HTML(data[start:]), nil
}

// CurvesFigure draws the cost-quality curves of the named rows, most important last
// (none named: those that matter most), with bands round the last two, and the single models as points. Costs are on a log axis
// when they span more than a factor of 30.
func (c *Comparison) CurvesFigure(name, title string, rows ...string) (*Figure, error) {
	if len(rows) == 0 {
		rows = headline()
	}
	low, high := c.Frame.costRange()
	unit := c.CostUnit
	if unit == "" {
		unit = "US dollars"
	}
	axes := Axes{
		Title: title, X: "mean cost per query, " + unit, Y: "mean quality, per cent",
		LogX: low > 0 && high/low > 30,
	}
	if axes.LogX {
		axes.X += " (log scale)"
	}
	var series []Series
	for i, rowName := range rows {
		r := c.Row(rowName)
		if r == nil {
			continue
		}
		s := Series{Name: r.Name}
		if i >= len(rows)-2 && c.Resamples > 0 {
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
func headline() []string {
	return []string{
		LinearInterpolation, cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, Oracle, cascade.NameCascadeRoute, cascade.NameIndex,
	}
}

// Figures draws the comparison.
func (c *Comparison) Figures(name, title string) ([]*Figure, error) {
	f, err := c.CurvesFigure(name, title)
	if err != nil {
		return nil, err
	}
	return []*Figure{f}, nil
}

// Report returns a page with the comparison's table and figures.
func (c *Comparison) Report(figures []*Figure) *Report {
	best := c.Frame.Models[c.Frame.Best]
	models := &Table{Header: []string{"model", "USD per query", "quality %"}}
	for i, p := range c.Frame.Models {
		models.Cells = append(models.Cells, []string{c.Models[i], Dollars(p.Cost), percent(p.Quality)})
	}
	return &Report{
		Title:    "Strategies on recorded outcomes",
		Subtitle: fmt.Sprintf("%d models, %d test queries, %d paired resamples, seed %d", len(c.Models), c.Queries, c.Resamples, c.Seed),
		Sections: []Section{
			{
				Title: "Cost and quality", Figures: figures,
				Text: "Each curve is one strategy at a sweep of lambdas chosen on the train half. Bands are two sigma wide on either side.",
			},
			{
				Title: "Strategies", Table: c.Table(),
				Text: fmt.Sprintf("AUC is the mean quality between the mean costs of the cheapest and of the dearest model. "+
					"A star marks differences to %s beyond two sigma. The best single model is %s: quality %s %%, %s USD per query.",
					c.Reference, c.Models[c.Frame.Best], percent(best.Quality), Dollars(best.Cost)),
			},
			{Title: "Single models", Table: models},
		},
	}
}
