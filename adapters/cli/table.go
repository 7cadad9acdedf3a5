package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/stepfall/stepfall/adapters/internal/say"
)

type column struct {
	name string
	// number aligns the column to the right.
	number bool
}

// grid is a table that a command prints: with light lines and without colours, so that it can be pasted anywhere. In
// a pipe or a file every cell is printed whole, up to maxCellLength characters. On a terminal the table is no wider
// than the terminal: texts wrap, and where that does not suffice each row becomes a list of its cells.
type grid struct {
	w       io.Writer
	columns []column
	rows    [][]string
}

func newTable(w io.Writer, columns ...column) *grid { return &grid{w: w, columns: columns} }

// row adds a row. Cells are escaped and put on one line.
func (g *grid) row(cells ...any) {
	row := make([]string, len(g.columns))
	for i, cell := range cells {
		row[i] = text.Snip(strings.NewReplacer("\n", " ", "\t", " ").Replace(say.Plain(fmt.Sprint(cell))), maxCellLength, "…")
	}
	g.rows = append(g.rows, row)
}

// maxCellLength bounds a cell, because all others of its column are padded to its width.
const maxCellLength = 4096

func (g *grid) print() { g.printWithin(terminalWidth(g.w)) }

// printWithin prints the table in lines of at most most characters; 0 means no limit.
func (g *grid) printWithin(most int) {
	widths, fits := g.widths(most)
	if !fits {
		g.list(most)
		return
	}
	t := table.NewWriter()
	t.SetOutputMirror(g.w)
	style := table.StyleLight
	style.Format.Header = text.FormatDefault
	style.Options.SeparateColumns = false
	t.SetStyle(style)
	header := make(table.Row, len(g.columns))
	configs := make([]table.ColumnConfig, len(g.columns))
	for i, c := range g.columns {
		header[i] = c.name
		configs[i] = table.ColumnConfig{Number: i + 1}
		if most > 0 {
			configs[i].WidthMax, configs[i].WidthMaxEnforcer = widths[i], text.WrapSoft
		}
		if c.number {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for _, row := range g.rows {
		cells := make(table.Row, len(row))
		for i, cell := range row {
			cells[i] = cell
			if most > 0 {
				cells[i] = text.Snip(cell, maxCellLines*widths[i], "…")
			}
		}
		t.AppendRow(cells)
	}
	t.Render()
}

// On a terminal, a text column is no narrower than its longest word, of which minColumnWidth characters count, and a
// cell is truncated after about maxCellLines lines.
const (
	minColumnWidth = 14
	maxCellLines   = 4
)

// widths returns the widths of the columns for lines of at most most characters (0 means no limit), and false if they
// do not fit.
func (g *grid) widths(most int) ([]int, bool) {
	widths, least, total := make([]int, len(g.columns)), make([]int, len(g.columns)), len("││")
	for i, c := range g.columns {
		for word := range strings.FieldsSeq(c.name) {
			least[i] = max(least[i], text.StringWidth(word))
		}
		widths[i] = text.StringWidth(c.name)
		for _, row := range g.rows {
			widths[i] = max(widths[i], text.StringWidth(row[i]))
			if c.number {
				least[i] = max(least[i], text.StringWidth(row[i]))
				continue
			}
			for word := range strings.FieldsSeq(row[i]) {
				least[i] = max(least[i], min(text.StringWidth(word), minColumnWidth))
			}
		}
		least[i] = max(least[i], 1)
		total += widths[i] + len("  ")
	}
	for ; most > 0 && total > most; total-- {
		if !narrow(widths, least) {
			return nil, false
		}
	}
	return widths, true
}

// narrow reduces by 1 the widest of the columns that are wider than their least width; false if there is none.
func narrow(widths, least []int) bool {
	widest := -1
	for i := range widths {
		if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	if widest >= 0 {
		widths[widest]--
	}
	return widest >= 0
}

func (g *grid) list(most int) {
	names, width := make([]string, len(g.columns)), 0
	for i, c := range g.columns {
		names[i] = c.name
		width = max(width, text.StringWidth(cmp.Or(c.name, "-")))
	}
	width = min(width, most/2)
	room := max(most-width-len("  "), 1)
	for _, row := range g.rows {
		fmt.Fprintln(g.w, strings.Repeat("─", most))
		for i, cell := range row {
			if cell == "" {
				continue
			}
			for k, line := range strings.Split(text.WrapSoft(text.Snip(cell, maxCellLines*room, "…"), room), "\n") {
				label := ""
				if k == 0 {
					label = text.Snip(cmp.Or(names[i], "-"), width, "…")
				}
				fmt.Fprintf(g.w, "%s  %s\n", text.Pad(label, width, ' '), strings.TrimRight(line, " "))
			}
		}
	}
	if len(g.rows) == 0 {
		fmt.Fprintln(g.w, strings.Join(names, ", "))
	}
}

// terminalWidth returns how many characters a line of the terminal holds, or 0 if w is not a terminal.
func terminalWidth(w io.Writer) int {
	if c, ok := w.(*errorWriter); ok {
		w = c.w
	}
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
