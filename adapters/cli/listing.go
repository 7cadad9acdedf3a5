package cli

import "fmt"

// listing prints rows one by one as they become known or, for JSON, keeps them until all
// of them are printed in one value.
type listing[Row any] struct {
	s    Streams
	json bool
	rows []Row
}

func newListing[Row any](s Streams, json bool) *listing[Row] {
	return &listing[Row]{s: s, json: json, rows: []Row{}}
}

// add takes a row and the line that shows it.
func (l *listing[Row]) add(row Row, line string) {
	l.rows = append(l.rows, row)
	l.say(line)
}

// say prints a line that JSON has in another form.
func (l *listing[Row]) say(line string) {
	if !l.json {
		fmt.Fprintln(l.s.Out, line)
	}
}
