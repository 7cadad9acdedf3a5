package view

import (
	"context"
	"net/url"
	"strings"
	"time"
)

type trustPage struct {
	frame
	Headline string
	Steps    int
	All      *reliability
	Models   []*reliability
	Order    []string
	Drift    *chart
	Asked    pageQuery
}

func (v *viewer) trust(ctx context.Context, q url.Values) (*trustPage, error) {
	a, err := readQuery(q)
	if err != nil {
		return nil, err
	}
	p := &trustPage{frame: v.frame("trust", "Trust", true), Asked: a}
	traces, err := v.sampler.newest(ctx, a.Filter, 2*v.o.Sample)
	if err != nil {
		return nil, err
	}
	p.Steps = len(traces)
	all := predictionsOf(traces)
	p.Order = candidates(traces)
	p.All = reliabilityOf(all, "")
	for _, name := range p.Order {
		if r := reliabilityOf(all, name); r.All.N > 0 {
			p.Models = append(p.Models, r)
		}
	}
	p.Headline = p.headline()
	p.Drift = driftChart(p.Models)
	return p, nil
}

func (p *trustPage) headline() string {
	n := p.All.All.N
	switch {
	case n == 0:
		return "No answer has a verdict, so the estimates cannot be checked."
	case n < 20:
		return "Too few verdicts to say: " + count(int64(n), "verdict") + "."
	}
	var offModels, driftedModels []string
	for _, r := range p.Models {
		switch {
		case r.IsOff():
			driftedModels = append(driftedModels, plainText(r.Model))
		case r.All.Off():
			offModels = append(offModels, plainText(r.Model))
		}
	}
	off, drifted := strings.Join(offModels, ", "), strings.Join(driftedModels, ", ")
	text := "The estimates can be trusted: they agree with " + count(int64(n), "verdict") + ", within chance."
	if off != "" {
		text = "Estimates are off for " + off + ": verdicts differ from them by more than chance."
	}
	if drifted != "" {
		text = "Estimates have drifted for " + drifted + ": the newest verdicts differ from them."
		if off != "" {
			text += " They are off over the whole time for " + off + "."
		}
	}
	return text
}

// driftChart draws observed minus predicted quality over time; nil without points.
func driftChart(models []*reliability) *chart {
	c := &chart{
		ID: "drift", Title: "Observed minus predicted, over time", X: "time", Y: "share that passed, minus the prediction", Time: true, PercentY: true,
		Note: "At zero, verdicts agree with the estimates. Each point is an equal number of verdicts; bands are two standard errors.",
	}
	for _, r := range models {
		s := series{Name: plainText(r.Model), Kind: "line"}
		for i := range r.Windows {
			w := &r.Windows[i]
			middle := w.From.Add(w.To.Sub(w.From) / 2)
			s.Points = append(s.Points, point{
				X: float64(middle.UnixMilli()) / 1000, Y: w.Seen - w.Predicted, Low: w.Low - w.Predicted, High: w.High - w.Predicted,
				XText: middle.UTC().Format(time.DateTime), YText: percent(w.Seen - w.Predicted), Label: count(int64(w.N), "verdict"),
			})
		}
		if len(s.Points) > 1 {
			c.Series = append(c.Series, s)
		}
	}
	if len(c.Series) == 0 {
		return nil
	}
	return c
}
