package outcome

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
)

// The columns of RouterBench's wide tables. Each model has a column of its name with the
// quality, and two more with these suffixes.
const (
	wideID       = "sample_id"
	widePrompt   = "prompt"
	wideGroup    = "eval_name"
	wideResponse = "|model_response"
	wideCost     = "|total_cost"
)

// isRouterBench detects RouterBench's wide layout by its header.
func isRouterBench(header []string) bool {
	return slices.Contains(header, wideID) && slices.ContainsFunc(header, func(c string) bool { return strings.HasSuffix(c, wideCost) })
}

// readRouterBench reads the rows of a wide table, one per query.
func (b *builder) readRouterBench(rows *csv.Reader, header []string, name string) error {
	models := slices.DeleteFunc(slices.Clone(header), func(column string) bool { return !strings.HasSuffix(column, wideCost) })
	for i, column := range models {
		if models[i] = strings.TrimSuffix(column, wideCost); !slices.Contains(header, models[i]) {
			return &Error{File: name, Row: 1, Column: models[i], Err: fmt.Errorf("missing: the quality of the model of column %q", column)}
		}
	}
	return eachRecord(rows, name, func(line int, record []string) error {
		value := map[string]string{}
		for i, column := range slices.Backward(header) { // of duplicate names the first counts
			value[column] = record[i]
		}
		for _, m := range models {
			c := cell{query: value[wideID], model: m, prompt: value[widePrompt], group: value[wideGroup], answer: value[m+wideResponse], numbers: map[string]float64{}}
			for _, x := range [...]struct{ column, from string }{{colQuality, m}, {colCost, m + wideCost}} {
				v, err := number(strings.TrimSpace(value[x.from]))
				if err != nil {
					return &Error{File: name, Row: line, Column: x.from, Err: err}
				}
				c.numbers[x.column] = v
			}
			if f := b.add(&c); f != nil {
				return &Error{File: name, Row: line, Column: m, Err: f.err}
			}
		}
		return nil
	})
}
