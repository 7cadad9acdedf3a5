package eval

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// Halves are two tables of the same models: one to fit to, one to measure on.
type Halves struct {
	Train, Test *outcome.Table
	// Dropped counts the queries left out because an outcome is missing.
	DroppedTrain, DroppedTest int
}

// OverlapError means that queries are in both halves.
type OverlapError struct{ Queries []string }

// Error returns a message that names the first few queries.
func (e *OverlapError) Error() string {
	return fmt.Sprintf("%d queries are in the train half and in the test half (%s): figures on queries that were learnt from mean nothing",
		len(e.Queries), joinFirst(e.Queries))
}

// NewHalves pairs two tables for a comparison: the same models in the same order,
// only queries with every outcome, and no query in both unless overlap is allowed.
func NewHalves(train, test *outcome.Table, allowOverlap bool) (*Halves, error) {
	if missing := minus(train.Models, test.Models); len(missing) > 0 {
		return nil, fmt.Errorf("models of the train half that the test half lacks: %s", joinFirst(missing))
	}
	if missing := minus(test.Models, train.Models); len(missing) > 0 {
		return nil, fmt.Errorf("models of the test half that the train half lacks: %s", joinFirst(missing))
	}
	test, err := test.Select(train.Models...)
	if err != nil {
		return nil, err
	}
	h := &Halves{Train: train.Complete(), Test: test.Complete()}
	h.DroppedTrain = len(train.Queries) - len(h.Train.Queries)
	h.DroppedTest = len(test.Queries) - len(h.Test.Queries)
	if !allowOverlap {
		if both := minus(h.Test.Queries, minus(h.Test.Queries, h.Train.Queries)); len(both) > 0 {
			return nil, &OverlapError{both}
		}
	}
	if err := validate(h.Train); err != nil {
		return nil, fmt.Errorf("train half: %w", err)
	}
	if err := validate(h.Test); err != nil {
		return nil, fmt.Errorf("test half: %w", err)
	}
	return h, nil
}

func minus(a, b []string) []string {
	known := make(map[string]bool, len(b))
	for _, name := range b {
		known[name] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return known[name] })
}

// joinFirst joins the first names and counts the rest.
func joinFirst(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// errConstantCost means that all models cost the same on average, so there is no
// trade-off between cost and quality.
var errConstantCost = errors.New("all models have the same mean cost: a cost-quality curve needs models of different cost")

// validate returns an error if outcomes are not suitable for a comparison, which needs those of every
// model on every query.
func validate(o *outcome.Table) error {
	if len(o.Models) < 2 {
		return fmt.Errorf("a comparison needs at least two models, and has %d", len(o.Models))
	}
	if len(o.Queries) < 2 {
		return fmt.Errorf("a comparison needs at least two queries on which every model has a quality and a cost, and has %d", len(o.Queries))
	}
	if err := o.Validate(); err != nil {
		return err
	}
	for q, name := range o.Queries {
		for m, model := range o.Models {
			if math.IsNaN(outcome.At(o.Quality, q, m) + outcome.At(o.CostUSD, q, m)) {
				return fmt.Errorf("query %s, model %s: no quality or no cost", name, model)
			}
		}
	}
	f := singles(o).newFrame(nil)
	if low, high := f.costRange(); !(high > low) {
		return errConstantCost
	}
	return nil
}
