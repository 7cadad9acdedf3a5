package outcome

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"hash"
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

// Hash returns the SHA-256, in hex, of everything in the table. Equal outcomes have the
// same hash, whatever file they came from.
func (t *Table) Hash() string {
	h := sha256.New()
	texts(h, t.Models)
	texts(h, t.Queries)
	texts(h, t.Groups)
	texts(h, t.Prompts)
	for _, m := range [][][]float64{t.Quality, t.CostUSD, t.InputTokens, t.OutputTokens, t.LatencySeconds, t.Ante, t.Post} {
		numbers(h, m)
	}
	count(h, len(t.Answers))
	for _, row := range t.Answers {
		texts(h, row)
	}
	for _, name := range t.SignalNames() {
		texts(h, []string{name})
		numbers(h, t.Signals[name])
	}
	for _, judge := range t.Judges() {
		texts(h, []string{colVerdict + judge})
		numbers(h, t.Verdicts[judge])
	}
	for _, m := range [][][]float64{t.Propensity, t.ToolTroubles, t.StepVerdicts, t.VerdictsUSD, t.EstimatedInputTokens, t.CachedUSD} {
		if m != nil {
			numbers(h, m)
		}
	}
	if t.Verified {
		count(h, 1)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A hash.Hash never returns an error from Write.

func count(h hash.Hash, n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = h.Write(b[:])
}

func texts(h hash.Hash, column []string) {
	count(h, len(column))
	for _, s := range column {
		count(h, len(s))
		_, _ = h.Write([]byte(s))
	}
}

func numbers(h hash.Hash, matrix [][]float64) {
	count(h, len(matrix))
	var b [8]byte
	for _, row := range matrix {
		for _, v := range row {
			bits := math.Float64bits(v)
			if math.IsNaN(v) {
				bits = 0x7ff8000000000001
			}
			binary.LittleEndian.PutUint64(b[:], bits)
			_, _ = h.Write(b[:])
		}
	}
}
