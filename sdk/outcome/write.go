package outcome

import (
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
)

// WriteCSV writes the table as long CSV, which [Open] reads: one row for each query and
// model, with the columns that the table has and the prompt in the first row of its query.
// Unknown values are empty, and rows without any known value are left out.
func (t *Table) WriteCSV(w io.Writer) error {
	columns := t.numberColumns()
	out := csv.NewWriter(w)
	header := []string{colQuery, colGroup, colModel}
	for _, c := range columns {
		header = append(header, c.name)
	}
	if t.Prompts != nil {
		header = append(header, colPrompt)
	}
	if t.Answers != nil {
		header = append(header, colAnswer)
	}
	if err := out.Write(header); err != nil {
		return err
	}
	for q := range t.Queries {
		if err := t.writeRows(out, q, columns); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

type numberColumn struct {
	name   string
	matrix [][]float64
}

func (t *Table) numberColumns() []numberColumn {
	columns := slices.DeleteFunc([]numberColumn{
		{colQuality, t.Quality},
		{colCost, t.CostUSD},
		{colInput, t.InputTokens},
		{colOutput, t.OutputTokens},
		{colEstimated, t.EstimatedInputTokens},
		{colTroubles, t.ToolTroubles},
		{colLatency, t.LatencySeconds},
		{colAnte, t.Ante},
		{colPost, t.Post},
		{colPropensity, t.Propensity}, {colVerdictsUSD, t.VerdictsUSD},
	}, func(c numberColumn) bool { return c.matrix == nil })
	for _, name := range t.SignalNames() {
		columns = append(columns, numberColumn{name, t.Signals[name]})
	}
	for _, judge := range t.Judges() {
		columns = append(columns, numberColumn{colVerdict + judge, t.Verdicts[judge]})
	}
	return columns
}

// writeRows writes the rows of a query, for the models with any known number.
func (t *Table) writeRows(out *csv.Writer, q int, columns []numberColumn) error {
	prompt := t.Prompt(q) // only in the first row
	for m, model := range t.Models {
		row, some := []string{t.Queries[q], t.Group(q), model}, false
		for _, c := range columns {
			text := ""
			if v := At(c.matrix, q, m); !math.IsNaN(v) {
				text, some = strconv.FormatFloat(v, 'g', -1, 64), true
			}
			row = append(row, text)
		}
		if !some {
			continue
		}
		if t.Prompts != nil {
			row, prompt = append(row, prompt), ""
		}
		if t.Answers != nil {
			row = append(row, t.Answer(q, m))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	return nil
}
