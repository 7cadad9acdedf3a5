package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

func trainClassifier(s Streams, table *outcome.Table, path string) error {
	c, err := estimate.TrainClassifier(table)
	if err != nil {
		return err
	}
	if err := writeJSON(path, c); err != nil {
		return fmt.Errorf("writing classifier: %w", err)
	}
	return s.render(c, func(p *printer) { reportClassifier(p, c, path) })
}

func reportClassifier(p *printer, c *estimate.Classifier, path string) {
	p.f("%s: measured on held-out queries\n", path)
	table := p.table(column{name: "model"}, column{"answers", true}, column{"Brier", true}, column{"Brier of the mean", true}, column{"AUC", true}, column{name: "strongest signals"})
	models := slices.Sorted(maps.Keys(c.Models))
	for _, name := range models {
		r := c.Models[name]
		table.row(name, r.Rows, fmt.Sprintf("%.4f", r.Brier), fmt.Sprintf("%.4f", r.BaseBrier), fmt.Sprintf("%.3f", r.AUC), strings.Join(r.Strongest(3), ", "))
	}
	table.print()
	bins := p.table(column{name: "model"}, column{"predicted %", true}, column{"quality %", true}, column{"answers", true})
	for _, name := range models {
		for _, b := range c.Models[name].Reliability {
			bins.row(name, percent(b.Predicted), percent(b.Quality), b.Count)
		}
	}
	bins.print()
}
