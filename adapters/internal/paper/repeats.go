package paper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

var repeatRows = []string{cascade.NameThreshold, eval.CascadeRouteDependent, cascade.NameIndex}

func repeatsPieces(e *Env) int { return 2 * len(repeatWays(e.repeatData())) }

// repeatData is the table with models that were asked several times.
func (e *Env) repeatData() *outcome.Table {
	if len(e.Own) == 0 {
		return &outcome.Table{}
	}
	return e.Own[0].Table
}

// repeatWay is a way to use the further answers of a model.
type repeatWay struct {
	name   string
	models []string
	// rename changes what the models are called; nil leaves it.
	rename func(string) string
}

// repeatWays are each model once, and with its further answers: as if they were those
// of other models, and as what they are.
func repeatWays(t *outcome.Table) []repeatWay {
	var once []string
	for i, first := range sdk.Samples(t.Models) {
		if first == i {
			once = append(once, t.Models[i])
		}
	}
	stranger := func(name string) string { return strings.ReplaceAll(name, "#", " ") }
	return []repeatWay{
		{"each model once", once, nil},
		{"asked again, taken for other models", t.Models, stranger},
		{"asked again", t.Models, nil},
	}
}

// errNoRepeats says that nothing was asked twice.
var errNoRepeats = errors.New("no model was asked twice: want outcomes of models called NAME#2")

// repeats measures what it is worth to ask a model again.
func repeats(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("repeats", "Asking a model again")
	table := e.repeatData().Complete()
	ways := repeatWays(table)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(ways[0].models) == len(table.Models) {
		return nil, errNoRepeats
	}
	p.printf("A model may be asked several times for one query. Where a model has failed, its further answer is right less often than the first of the model nearest in quality: what a model fails at it often fails at again. "+
		"Strategies choose among the answers of all models, once with each model asked once, once with the further answers taken for those of other models that err by themselves, and once as what they are: "+
		"answers of one model, correlated on each query as the train half shows. Everything is learnt on one half of the queries and measured on the other: means over %d random halves, ± is two standard deviations over them.\n\n", e.splits())
	p.printf("Data: %s. Of the models %d are further answers; %d queries have every outcome.\n", e.Own[0], len(table.Models)-len(ways[0].models), len(table.Queries))
	p.section("How often a model that has failed is right the next time")
	p.table(secondTries(table))
	for _, judged := range []bool{true, false} {
		if judged {
			p.section("With a check that judges every answer")
		} else {
			p.section("With no check: answers that agree support one another")
		}
		out := &eval.Table{Header: []string{"strategy"}}
		lines := make([][]string, len(repeatRows))
		var base []*cell
		for _, way := range ways {
			e.startingf("repeats: %s", way.name)
			t, err := table.Select(way.models...)
			if err != nil {
				return nil, err
			}
			if way.rename != nil {
				for i, name := range t.Models {
					t.Models[i] = way.rename(name)
				}
			}
			c, err := e.run(ctx, t, e.share(0.5), e.splits(), func(s *eval.Study) {
				s.Signals, s.Strategies, s.Bootstrap, s.Estimator = eval.SignalsFeatures, slices.Clone(repeatRows), 0, "latent"
				if judged {
					s.Signals = eval.SignalsVerdict
				}
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way.name, err)
			}
			base = append(base, c)
			out.Header = append(out.Header, "AUC %, "+way.name)
			for i, name := range repeatRows {
				text := fmt.Sprintf("%.2f", 100*c.auc(name))
				if len(base) > 1 {
					gap, two := spreadOf(c.beside(base[0], name))
					text += fmt.Sprintf(" (%+.2f ± %.2f)", 100*gap, 100*two)
				}
				lines[i] = append(lines[i], text)
			}
		}
		for i, name := range repeatRows {
			out.Cells = append(out.Cells, append([]string{name}, lines[i]...))
		}
		p.table(out)
	}
	return p, nil
}

// beside are the differences of a row's AUC to the same row of another cell, split by
// split.
func (c *cell) beside(other *cell, name string) []float64 {
	own, others := c.per(name, areaOf), other.per(name, areaOf)
	for i := range own {
		own[i] -= others[i]
	}
	return own
}

// secondTries compares, on the queries on which a model has failed, its second answer
// with the first of the other model that is nearest to it in quality.
func secondTries(t *outcome.Table) *eval.Table {
	out := &eval.Table{Header: []string{"model", "right, %", "right on the second try where the first failed, %", "other model nearest in quality", "right there, %"}}
	first, quality := sdk.Samples(t.Models), t.MeanQualities()
	for i, name := range t.Models {
		again := -1
		near := -1
		for j := range t.Models {
			if first[j] == i && j != i && again < 0 {
				again = j
			}
			if first[j] == j && j != i && (near < 0 || distance(quality, i, j) < distance(quality, i, near)) {
				near = j
			}
		}
		if again < 0 || near < 0 {
			continue
		}
		failed, own, others := 0.0, 0.0, 0.0
		for _, row := range t.Quality {
			if row[i] < 0.5 {
				failed++
				own += row[again]
				others += row[near]
			}
		}
		out.Cells = append(out.Cells, []string{name, tenths(quality[i]), tenths(own / failed), t.Models[near], tenths(others / failed)})
	}
	return out
}

func distance(quality []float64, i, j int) float64 {
	return max(quality[i]-quality[j], quality[j]-quality[i])
}

func tenths(share float64) string { return fmt.Sprintf("%.1f", 100*share) }
