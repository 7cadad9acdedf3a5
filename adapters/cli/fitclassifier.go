package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/estimate/classifier"
	"github.com/stepfall/stepfall/sdk/outcome"
)

func trainClassifier(s Streams, table *outcome.Table, path string) error {
	c, err := classifier.Train(table, classifier.Options{})
	if err != nil {
		return err
	}
	if err := writeJSON(path, c); err != nil {
		return fmt.Errorf("writing classifier: %w", err)
	}
	return s.render(c, func(p *printer) { reportClassifier(p, c, path) })
}

func reportClassifier(p *printer, c *classifier.Classifier, path string) {
	p.f("%s: measured on held-out queries\n", path)
	table := p.table(column{name: "model"}, column{"answers", true}, column{"Brier", true}, column{"Brier of the mean", true}, column{"AUC", true}, column{name: "strongest signals"})
	models := slices.Sorted(maps.Keys(c.Models))
	for _, name := range models {
		r := c.Models[name]
		table.row(name, r.Rows, fmt.Sprintf("%.4f", r.Brier), fmt.Sprintf("%.4f", r.BaseBrier), fmt.Sprintf("%.3f", r.AUC), strongestSignals(r))
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

// strongestSignals names the three signals with the largest weight per standard deviation.
func strongestSignals(r *classifier.Regression) string {
	signals := slices.Clone(r.Signals)
	slices.SortStableFunc(signals, func(a, b classifier.Signal) int {
		return cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight))
	})
	var names []string
	for _, signal := range signals[:min(3, len(signals))] {
		names = append(names, fmt.Sprintf("%s %+.2f", signal.Name, signal.Weight))
	}
	return strings.Join(names, ", ")
}
