package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Validate returns an error if a table made by a program is not one that [Open] could have read: its columns do not have a
// value for each query and model, a name occurs twice, or a value is out of its range. NaN is a missing value.
func (t *Table) Validate() error {
	if len(t.Models) == 0 {
		return errors.New("outcomes of no model")
	}
	if err := checkUnique("model", t.Models); err != nil {
		return err
	}
	if err := checkUnique("query", t.Queries); err != nil {
		return err
	}
	for name, column := range map[string][]string{"groups": t.Groups, "prompts": t.Prompts, "tools": t.Tools, "runs": t.Runs} {
		if len(column) > 0 && len(column) != len(t.Queries) {
			return fmt.Errorf("%d %s for %d queries", len(column), name, len(t.Queries))
		}
	}
	if err := checkShape(t, "answers", t.Answers); err != nil {
		return err
	}
	columns := map[string][][]float64{
		colQuality: t.Quality, colCost: t.CostUSD, colVerdictsUSD: t.VerdictsUSD, colInput: t.InputTokens, colOutput: t.OutputTokens,
		colEstimated: t.EstimatedInputTokens, colTroubles: t.ToolTroubles, colLatency: t.LatencySeconds, colPropensity: t.Propensity,
		colAnte: t.Ante, colPost: t.Post,
	}
	verdicts := map[string][][]float64{}
	for judge, column := range t.Verdicts {
		verdicts[colVerdict+judge] = column
	}
	for _, set := range []map[string][][]float64{columns, t.Signals, verdicts} {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if err := t.validateColumn(name, set[name]); err != nil {
				return err
			}
		}
	}
	return cmp.Or(checkShape(t, "cached_usd", t.CachedUSD), checkShape(t, "step_verdicts", t.StepVerdicts), checkShape(t, "run_verdicts", t.RunVerdicts))
}

func (t *Table) validateColumn(name string, matrix [][]float64) error {
	if err := checkShape(t, name, matrix); err != nil {
		return err
	}
	for q, row := range matrix {
		for m, v := range row {
			if math.IsNaN(v) {
				continue
			}
			if err := check(name, v); err != nil {
				return fmt.Errorf("query %s, model %s: %s %w", t.Queries[q], t.Models[m], name, err)
			}
		}
	}
	return nil
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

func checkUnique(what string, names []string) error {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			return fmt.Errorf("%s %s occurs twice", what, name)
		}
		seen[name] = true
	}
	return nil
}
