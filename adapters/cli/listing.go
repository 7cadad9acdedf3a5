package cli

import "fmt"

// listing prints rows one by one as they become known or, for JSON, collects them and renders one value.
type listing[Row any] struct {
	s    Streams
	rows []Row
}

func newListing[Row any](s Streams) *listing[Row] { return &listing[Row]{s: s, rows: []Row{}} }

func (l *listing[Row]) add(row Row, line string) {
	l.rows = append(l.rows, row)
	if !l.s.wantsJSON() {
		fmt.Fprintln(l.s.Out, line)
	}
}
