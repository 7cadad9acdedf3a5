package outcome

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// maxColumns bounds the columns of a table, since each is compared with all others.
const maxColumns = 10_000

func (b *builder) readCSV(r *bufio.Reader, name string) error {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	header, err := readHeader(rows, name)
	if err != nil {
		return err
	}
	if isRouterBench(header) {
		return b.readRouterBench(rows, header, name)
	}
	c := cell{numbers: map[string]float64{}}
	isText := map[string]bool{}
	err = eachRecord(rows, name, func(line int, record []string) error {
		c.query, c.group, c.prompt, c.model, c.answer = "", "", "", "", ""
		clear(c.numbers)
		for i, column := range header {
			if err := c.set(column, record[i], isText); err != nil {
				return &Error{File: name, Row: line, Column: column, Err: err}
			}
		}
		if f := b.add(&c); f != nil {
			return &Error{File: name, Row: line, Column: f.column, Err: f.err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.checkVerdicts(name)
}

// readHeader reads the names of the columns, which must include the required ones.
func readHeader(rows *csv.Reader, name string) ([]string, error) {
	header, err := rows.Read()
	if err != nil {
		return nil, &Error{File: name, Row: 1, Err: err}
	}
	isNamed := func(column string) bool { return isColumn(strings.TrimSpace(column)) }
	if !slices.ContainsFunc(header, isNamed) && !isRouterBench(header) {
		hint := ""
		if strings.Contains(header[0], ";") || strings.Contains(header[0], "\t") {
			hint = "; columns are separated by commas"
		}
		return nil, &Error{File: name, Row: 1, Err: fmt.Errorf("no header: want a first row with the names %s, %s and %s%s", colQuery, colModel, colQuality, hint)}
	}
	if header, err = columnNames(header, name); err != nil || isRouterBench(header) {
		return header, err
	}
	for _, column := range []string{colQuery, colModel, colQuality} {
		if !slices.Contains(header, column) {
			return nil, &Error{File: name, Row: 1, Column: column, Err: fmt.Errorf("missing; the header has %.400s", fmt.Sprintf("%.100q", header))}
		}
	}
	return header, nil
}

// eachRecord calls f with every row and the line that it begins on.
func eachRecord(rows *csv.Reader, name string, f func(line int, record []string) error) error {
	for {
		record, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if parse, ok := errors.AsType[*csv.ParseError](err); ok {
			if err = parse.Err; errors.Is(err, csv.ErrFieldCount) {
				err = fmt.Errorf("%w: want as many as the header has; a text with a comma is in quotes", err)
			}
			return &Error{File: name, Row: parse.Line, Err: err}
		}
		if err != nil {
			return &Error{File: name, Err: err}
		}
		line, _ := rows.FieldPos(0)
		if err := f(line, record); err != nil {
			return err
		}
	}
}

// checkVerdicts returns an error for a column of verdicts without a value: to ignore it would treat the
// qualities as final.
func (b *builder) checkVerdicts(file string) error {
	for _, column := range slices.Sorted(maps.Keys(b.verdicts)) {
		if b.numbers[column] == nil {
			return &Error{File: file, Row: 1, Column: column, Err: errors.New("no row has a verdict (1 is a pass, 0 a fail): fill it, or leave the column out and the quality is taken for what judges say")}
		}
	}
	return nil
}

// columnNames returns the columns of a header without the white space around them.
func columnNames(header []string, file string) ([]string, error) {
	if len(header) > maxColumns {
		return nil, &Error{File: file, Row: 1, Err: fmt.Errorf("%d columns, more than %d", len(header), maxColumns)}
	}
	if strings.Contains(strings.TrimSpace(strings.Join(header, ",")), "\r") {
		return nil, &Error{File: file, Row: 1, Err: errors.New("a header over several lines, or lines that end in a carriage return alone: want line feeds")}
	}
	names := make([]string, len(header))
	for i, column := range header {
		names[i] = strings.TrimSpace(column)
		if names[i] != "" && slices.Contains(names[:i], names[i]) {
			return nil, &Error{File: file, Row: 1, Column: names[i], Err: errors.New("named twice")}
		}
	}
	return names, nil
}

// text returns the text field for a column, or nil for columns of numbers and unknown ones.
func (c *cell) text(column string) *string {
	switch column {
	case colQuery:
		return &c.query
	case colGroup:
		return &c.group
	case colPrompt:
		return &c.prompt
	case colModel:
		return &c.model
	case colAnswer:
		return &c.answer
	}
	return nil
}

// set sets the value of a column. An unknown column is a signal if its first value is a number. If that is
// text, the column is skipped, which isText records.
func (c *cell) set(column, value string, isText map[string]bool) error {
	if to := c.text(column); to != nil {
		*to = value
		return nil
	}
	skipped, decided := isText[column]
	if skipped {
		return nil
	}
	v, err := number(strings.TrimSpace(value))
	switch {
	case err == nil:
		c.numbers[column] = v
	case isVerdict(column):
		return fmt.Errorf("%w: 1 is a pass, 0 a fail", err)
	case decided, isNumeric(column):
		return err
	}
	if !decided && value != "" {
		isText[column] = err != nil
	}
	return nil
}
