package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
)

// Validate returns an error if a table made by a program is not one that [Open] could have read: see ValidateShape, or a
// value is out of its range. NaN is a missing value. A query may occur several times, as in bootstrap samples.
func (t *Table) Validate() error {
	if err := t.ValidateShape(); err != nil {
		return err
	}
	for name, column := range t.numbers() {
		for q, row := range column {
			for m, v := range row {
				if math.IsNaN(v) {
					continue
				}
				if err := check(name, v); err != nil {
					return fmt.Errorf("query %s, model %s: %s %w", t.Queries[q], t.Models[m], name, err)
				}
			}
		}
	}
	return nil
}

// ValidateShape returns an error if the columns do not have a value for each query and model, or a model occurs twice.
func (t *Table) ValidateShape() error {
	if len(t.Models) == 0 {
		return errors.New("outcomes of no model")
	}
	for i, name := range t.Models {
		if slices.Contains(t.Models[:i], name) {
			return fmt.Errorf("model %s occurs twice", name)
		}
	}
	for name, column := range map[string][]string{"groups": t.Groups, "prompts": t.Prompts, "tools": t.Tools, "runs": t.Runs} {
		if len(column) > 0 && len(column) != len(t.Queries) {
			return fmt.Errorf("%d %s for %d queries", len(column), name, len(t.Queries))
		}
	}
	if err := checkShape(t, "answers", t.Answers); err != nil {
		return err
	}
	for name, column := range t.numbers() {
		if err := checkShape(t, name, column); err != nil {
			return err
		}
	}
	return cmp.Or(checkShape(t, "cached_usd", t.CachedUSD), checkShape(t, "step_verdicts", t.StepVerdicts), checkShape(t, "run_verdicts", t.RunVerdicts))
}

// numbers yields the columns of numbers whose range is known, in order.
func (t *Table) numbers() iter.Seq2[string, [][]float64] {
	columns := map[string][][]float64{
		colQuality: t.Quality, colCost: t.CostUSD, colVerdictsUSD: t.VerdictsUSD, colInput: t.InputTokens, colOutput: t.OutputTokens,
		colEstimated: t.EstimatedInputTokens, colTroubles: t.ToolTroubles, colLatency: t.LatencySeconds, colPropensity: t.Propensity,
		colAnte: t.Ante, colPost: t.Post,
	}
	verdicts := map[string][][]float64{}
	for judge, column := range t.Verdicts {
		verdicts[colVerdict+judge] = column
	}
	return func(yield func(string, [][]float64) bool) {
		for _, set := range []map[string][][]float64{columns, t.Signals, verdicts} {
			for _, name := range slices.Sorted(maps.Keys(set)) {
				if !yield(name, set[name]) {
					return
				}
			}
		}
	}
}

func checkShape[T any](t *Table, name string, matrix [][]T) error {
	if matrix == nil {
		return nil
	}
	if len(matrix) != len(t.Queries) {
		return fmt.Errorf("%s: %d rows for %d queries", name, len(matrix), len(t.Queries))
	}
	for q, row := range matrix {
		if len(row) != len(t.Models) {
			return fmt.Errorf("query %s: %s has %d values for %d models", t.Queries[q], name, len(row), len(t.Models))
		}
	}
	return nil
}
