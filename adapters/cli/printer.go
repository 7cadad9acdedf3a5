package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/stepfall/stepfall/adapters/internal/say"
)

// printer writes text for people. An [errorWriter] below it remembers what cannot be written.
type printer struct{ w io.Writer }

// f prints a formatted text. It escapes control characters in string arguments, which may come from models and files.
func (p *printer) f(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = say.Plain(text)
		}
	}
	fmt.Fprintf(p.w, format, args...)
}

// raw prints text unescaped, for other programs.
func (p *printer) raw(text string) { fmt.Fprint(p.w, text) }

// cut truncates a line, which is printed after before other characters, to the width of the terminal, if there is
// one.
func (p *printer) cut(line string, before int) string {
	if most := terminalWidth(p.w); most > 0 {
		return text.Snip(say.Plain(line), max(most-before, 1), "…")
	}
	return line
}

func (p *printer) table(columns ...column) *grid { return newTable(p.w, columns...) }

// printsJSON is the annotation of commands that support --json.
const printsJSON = "json"

func hasJSON() map[string]string { return map[string]string{printsJSON: "yes"} }

func (s Streams) wantsJSON() bool { return s.json != nil && *s.json }

// render prints a result as JSON if --json is set, else by calling text.
func (s Streams) render(result any, text func(p *printer)) error {
	if s.wantsJSON() {
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(result)
	}
	text(&printer{s.Out})
	return nil
}

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
