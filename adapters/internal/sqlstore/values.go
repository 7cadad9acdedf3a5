package sqlstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// values returns the row source of an INSERT and its arguments, for rows of width columns whose values are in flat.
func (d *DB) values(width int, flat []any) (query string, args []any) {
	if len(d.Arrays) > 0 {
		query, args = arrays(width, flat)
		return query, slices.Concat(d.Arrays, args)
	}
	b := []byte("VALUES ")
	for i := range flat {
		switch {
		case i == 0:
			b = append(b, '(')
		case i%width == 0:
			b = append(b, "),("...)
		default:
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '$'), int64(i+1), 10)
		if body, ok := flat[i].(document); ok {
			flat[i] = string(body)
		}
	}
	return string(append(b, ')')), flat
}

// arrays passes each column as one argument, so that the query text does not grow with the rows.
func arrays(width int, flat []any) (query string, args []any) {
	var names, chosen, columns []string
	for at := range width {
		name := fmt.Sprintf("c%d", at)
		names, chosen = append(names, name), append(chosen, name)
		switch flat[at].(type) {
		case document:
			chosen[at] = "convert_from(" + name + ", 'UTF8')"
			columns, args = append(columns, fmt.Sprintf("$%d::bytea[]", at+1)), append(args, documents(flat, at, width))
		case string:
			columns, args = append(columns, fmt.Sprintf("$%d::text[]", at+1)), append(args, column[string](flat, at, width))
		default:
			columns, args = append(columns, fmt.Sprintf("$%d::bigint[]", at+1)), append(args, column[int64](flat, at, width))
		}
	}
	return "SELECT " + strings.Join(chosen, ", ") + " FROM unnest(" + strings.Join(columns, ", ") + ") AS given (" + strings.Join(names, ", ") + ")", args
}

func column[T any](flat []any, at, width int) []T {
	list := make([]T, 0, len(flat)/width)
	for ; at < len(flat); at += width {
		list = append(list, flat[at].(T))
	}
	return list
}

// document is a long text that is passed as bytes, since quotes in text arrays must be escaped. It is JSON as Go
// writes it, without NUL and invalid UTF-8.
type document []byte

func documents(flat []any, at, width int) [][]byte {
	list := make([][]byte, 0, len(flat)/width)
	for ; at < len(flat); at += width {
		list = append(list, flat[at].(document))
	}
	return list
}
