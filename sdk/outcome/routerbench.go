package outcome

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Columns of RouterBench's wide tables; each model has a column of its name with the
// quality, and two more with these endings.
const (
	wideID       = "sample_id"
	widePrompt   = "prompt"
	wideGroup    = "eval_name"
	wideResponse = "|model_response"
	wideCost     = "|total_cost"
)

// isRouterBench tells RouterBench's wide layout by its header.
func isRouterBench(header []string) bool {
	return slices.Contains(header, wideID) && slices.ContainsFunc(header, func(c string) bool { return strings.HasSuffix(c, wideCost) })
}

// readRouterBench reads the rows of a wide table: one query each.
func (b *builder) readRouterBench(rows *csv.Reader, header []string, name string) error {
	at := func(column string) int { return slices.Index(header, column) }
	id, prompt, group := at(wideID), at(widePrompt), at(wideGroup)
	type place struct {
		model                  string
		quality, response, usd int
	}
	var models []place
	for i, column := range header {
		model, isCost := strings.CutSuffix(column, wideCost)
		if !isCost {
			continue
		}
		p := place{model: model, quality: at(model), response: at(model + wideResponse), usd: i}
		if p.quality < 0 {
			return &Error{File: name, Row: 1, Column: model, Err: fmt.Errorf("missing: the quality of the model of column %q", column)}
		}
		models = append(models, p)
	}
	for {
		record, err := rows.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return csvError(name, err)
		}
		line, _ := rows.FieldPos(0)
		for _, m := range models {
			c := cell{query: record[id], model: m.model, numbers: map[string]float64{}}
			if prompt >= 0 {
				c.prompt = record[prompt]
			}
			if group >= 0 {
				c.group = record[group]
			}
			if m.response >= 0 {
				c.answer = record[m.response]
			}
			for _, x := range []struct {
				column string
				at     int
			}{{colQuality, m.quality}, {colCost, m.usd}} {
				v, err := number(strings.TrimSpace(record[x.at]))
				if err != nil {
					return &Error{File: name, Row: line, Column: header[x.at], Err: err}
				}
				c.numbers[x.column] = v
			}
			if f := b.add(&c); f != nil {
				return &Error{File: name, Row: line, Column: m.model, Err: f.err}
			}
		}
	}
}

// csvError places an error of the CSV reader.
func csvError(name string, err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		if err = parse.Err; errors.Is(err, csv.ErrFieldCount) {
			err = fmt.Errorf("%w: want as many as the header has; a text with a comma is in quotes", err)
		}
		return &Error{File: name, Row: parse.Line, Err: err}
	}
	return &Error{File: name, Err: err}
}

// unknownAsNaN is used where a number may be absent.
func unknownAsNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
