package view

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
)

type strategyRow = eval.DocumentStrategy

type reportPage struct {
	frame
	Name     string
	Document *eval.Document
	Headline string
	Curves   *chart
	Facts    [][2]string
	Budget   float64
	Low      float64
	High     float64
	Spent    []atBudget
	Inline   *inline
}

// atBudget is what a strategy does when it may spend so much per query.
type atBudget struct {
	Name    string
	Quality float64
	// Run says which operating points are mixed.
	Run   string
	Steps float64
}

// inline is scripts and styles within the page, with the policy that lets them in.
type inline struct {
	Style  template.CSS
	Script template.JS
	Policy string
}

func (v *viewer) report(r *http.Request) (any, error) {
	if len(v.o.Reports) == 0 {
		return nil, fmt.Errorf("%w: no evaluation was given; stepfall eval --out FILE.json writes one, stepfall view FILE shows it", errAsked)
	}
	budget := math.NaN()
	if text := r.URL.Query().Get("budget"); text != "" {
		b, err := strconv.ParseFloat(text, 64)
		if err != nil || !(b >= 0) || math.IsInf(b, 0) {
			return nil, fmt.Errorf("%w: budget=%q", errAsked, text)
		}
		budget = b
	}
	return v.makeReport(&v.o.Reports[0], budget), nil
}

func (v *viewer) makeReport(report *Report, budget float64) *reportPage {
	d := report.Document
	p := &reportPage{frame: v.frame("report", "Report", false), Name: report.Name, Document: d}
	p.Low, p.High = math.Inf(1), 0
	var best *eval.DocumentModel
	for i := range d.Models {
		m := &d.Models[i]
		p.Low, p.High = min(p.Low, m.Cost), max(p.High, m.Cost)
		if m.Name == d.BestSingle {
			best = m
		}
	}
	if math.IsInf(p.Low, 0) {
		p.Low = 0
	}
	p.Budget = budget
	if math.IsNaN(budget) {
		p.Budget = (p.Low + p.High) / 2
		if p.Low > 0 && p.High/p.Low > 10 {
			p.Budget = math.Sqrt(p.Low * p.High)
		}
		p.Budget = rounded(p.Budget)
	}
	for i := range d.Strategies {
		if s := &d.Strategies[i]; len(s.Points) > 0 {
			p.Spent = append(p.Spent, spend(s, p.Budget))
		}
	}
	p.Curves = curvesChart(d, p.Low, p.High)
	p.Headline = reportHeadline(d, best)
	for _, m := range []map[string]string{d.Data, d.Setup} {
		p.Facts = append(p.Facts, pairs(m, func(s string) string { return s })...)
	}
	return p
}

// rounded keeps three digits: the budget is there to be changed.
func rounded(usd float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(usd, 'g', 3, 64), 64)
	if err != nil {
		return usd
	}
	return short
}

// spend mixes the two operating points round a budget, as the fit does.
func spend(s *strategyRow, budget float64) atBudget {
	c := s.Points
	a := atBudget{Name: s.Name, Quality: math.NaN(), Run: "costs more than that at its cheapest"}
	i, _ := slices.BinarySearchFunc(c, budget, func(p eval.Point, x float64) int {
		if p.Cost <= x {
			return -1
		}
		return 1
	})
	switch {
	case i == 0:
		return a
	case i == len(c) || c[i].Cost == c[i-1].Cost:
		p := c[i-1]
		a.Quality, a.Steps, a.Run = p.Quality, p.Steps, "lambda "+lambda(p.Lambda)
	default:
		share := (budget - c[i-1].Cost) / (c[i].Cost - c[i-1].Cost)
		a.Quality = c[i-1].Quality + share*(c[i].Quality-c[i-1].Quality)
		a.Steps = c[i-1].Steps + share*(c[i].Steps-c[i-1].Steps)
		a.Run = fmt.Sprintf("lambda %s for %s of queries, %s for the others", lambda(c[i].Lambda), percent(share), lambda(c[i-1].Lambda))
	}
	return a
}

// reportHeadline says what the evaluation found, of the strategy that does best.
func reportHeadline(d *eval.Document, best *eval.DocumentModel) string {
	var top *strategyRow
	for i := range d.Strategies {
		s := &d.Strategies[i]
		if !slices.Contains(cascade.Names(), s.Name) || s.AUC == nil {
			continue
		}
		if top == nil || *s.AUC > *top.AUC {
			top = s
		}
	}
	if top == nil || best == nil {
		return "Strategies on recorded outcomes."
	}
	text := fmt.Sprintf("%s reads best: ", top.Name)
	switch {
	case top.CostAtBest != nil && *top.CostAtBest < best.Cost:
		text += fmt.Sprintf("as good as %s, the best single model, for %s less", plain(best.Name), percent(1-*top.CostAtBest/best.Cost))
		if top.CostAtBestHigh != nil && *top.CostAtBestHigh < best.Cost && top.CostAtBestLow != nil {
			text += fmt.Sprintf(" (two sigma: %s to %s)", percent(1-*top.CostAtBestHigh/best.Cost), percent(1-*top.CostAtBestLow/best.Cost))
		}
	case top.QualityAtBestCost != nil:
		text += fmt.Sprintf("quality %s for what %s, the best single model, costs at %s", percent(*top.QualityAtBestCost), plain(best.Name), percent(best.Quality))
	}
	return text + fmt.Sprintf(", on %s that nothing was learnt from.", count(int64(d.Queries), "query"))
}

// shownFirst are the curves that a reader wants first; the others can be switched on.
var shownFirst = []string{eval.LinearInterpolation, cascade.NameRoute, cascade.NameThreshold, cascade.NameCascadeRoute, cascade.NameIndex}

func curvesChart(d *eval.Document, low, high float64) *chart {
	c := &chart{
		ID: "curves", Title: "Cost and quality", X: "mean cost per query (US dollars)", Y: "mean quality", PercentY: true,
		LogX: low > 0 && high/low > 30,
		Note: "Each curve is one strategy at a sweep of lambdas chosen on the half that was learnt from. Drag over a stretch to look closer, click twice to come back.",
	}
	for i := range d.Strategies {
		s := &d.Strategies[i]
		one := series{Name: s.Name, Kind: "line", Hidden: !slices.Contains(shownFirst, s.Name)}
		for _, p := range s.Points {
			if p.Cost < low*0.98 || p.Cost > high*1.02 {
				continue
			}
			one.Points = append(one.Points, point{X: p.Cost, Y: p.Quality, Label: "lambda " + lambda(p.Lambda), XText: dollars(p.Cost), YText: percent2(p.Quality)})
		}
		if len(one.Points) > 0 {
			c.Series = append(c.Series, one)
		}
	}
	models := series{Name: "single models", Kind: "points"}
	for _, m := range d.Models {
		models.Points = append(models.Points, point{X: m.Cost, Y: m.Quality, Label: plain(m.Name), XText: dollars(m.Cost), YText: percent2(m.Quality)})
	}
	slices.SortFunc(models.Points, func(a, b point) int { return cmp.Compare(a.X, b.X) })
	c.Series = append(c.Series, models)
	return c
}

func modelNames(r Report) []string {
	var names []string
	for _, m := range r.Document.Models {
		names = append(names, m.Name)
	}
	return names
}

// WriteReport writes an evaluation as one page that needs no other file and no server.
func WriteReport(w io.Writer, r Report) error {
	v := newViewer(Options{Reports: []Report{r}})
	v.export = &exporter{}
	p := v.makeReport(&v.o.Reports[0], math.NaN())
	style, err := assets("uplot.css", "view.css")
	if err != nil {
		return err
	}
	script, err := assets("uplot.js", "view.js")
	if err != nil {
		return err
	}
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	p.Inline = &inline{
		Style: template.CSS(style), Script: template.JS(script),
		Policy: "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) +
			"; img-src data:; form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	}
	return v.pages["report"].ExecuteTemplate(w, "layout", p)
}

func assets(names ...string) (string, error) {
	var text strings.Builder
	for _, name := range names {
		data, err := files.ReadFile("assets/" + name)
		if err != nil {
			return "", err
		}
		text.Write(data)
		text.WriteByte('\n')
	}
	return text.String(), nil
}

// percent2 writes a share with two digits.
func percent2(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }
