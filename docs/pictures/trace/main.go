// Command trace draws the record of one step: it reads a trace as JSON (from
// `stepfall trace --json`) and writes a graph in the language of Graphviz.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	var t sdk.Trace
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return fmt.Errorf("reading the trace: %w", err)
	}
	_, err := out.Write(draw(&t))
	return err
}

// draw puts each decision beside the call that came of it, from top to bottom.
func draw(t *sdk.Trace) []byte {
	var b bytes.Buffer
	b.WriteString(`// A trace explained. Drawn by ` + "`make pictures`" + ` from trace.json, a step of ` + "`make demo`" + `.
digraph trace {
  graph [rankdir=TB, nodesep=0.5, ranksep=0.35, fontname="Helvetica", bgcolor="white", margin=0.1];
  node  [shape=plain, fontname="Helvetica", fontsize=11];
  edge  [color="#555555", arrowsize=0.7];
`)
	head := fmt.Sprintf("task %s, strategy %s: one US dollar is worth %g of quality (lambda)", t.QueryID, t.Strategy, t.Setting.Lambdas[0])
	fmt.Fprintf(&b, "  head [shape=note, style=filled, fillcolor=\"#eef3fa\", margin=\"0.2,0.1\", label=%q];\n", head)
	before := "head"
	spent := 0.0
	for i, d := range t.Decisions {
		name := fmt.Sprintf("decide%d", i)
		fmt.Fprintf(&b, "  %s [label=<%s>];\n  %s -> %s;\n", name, decision(i, &d), before, name)
		before = name
		if d.Run == "" || i >= len(t.Calls) {
			continue
		}
		c := &t.Calls[i]
		spent += c.CostUSD
		fmt.Fprintf(&b, "  call%d [label=<%s>];\n  { rank=same; %s -> call%d; }\n", i, call(c, spent), name, i)
	}
	fmt.Fprintf(&b, "  end [shape=note, style=filled, fillcolor=\"#eef3fa\", margin=\"0.2,0.1\", label=%q];\n  %s -> end;\n}\n",
		fmt.Sprintf("answer of %s, %.6f US dollars", t.Chosen, t.CostUSD), before)
	return b.Bytes()
}

const (
	table = `<table border="1" cellborder="0" cellspacing="0" cellpadding="4" color="#333333" bgcolor="%s">`
	title = `<tr><td colspan="%d" align="left"><b>%s</b></td></tr>`
)

// decision is the table of what was believed of each alternative, the best first.
func decision(i int, d *sdk.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, table, "#fdf3d8")
	verb := "run " + d.Run
	if d.Run == "" {
		verb = "stop with the answer of " + d.Answer
	}
	fmt.Fprintf(&b, title, 4, fmt.Sprintf("decision %d: %s", i+1, verb))
	b.WriteString(`<tr><td align="left"><i>set of models</i></td><td><i>E[max]</i></td><td><i>USD to pay</i></td><td><i>tau = E[max] − λ·USD</i></td></tr>`)
	alternatives := slices.Clone(d.Alternatives)
	slices.SortStableFunc(alternatives, func(a, b sdk.Alternative) int {
		switch {
		case a.Tau > b.Tau:
			return -1
		case a.Tau < b.Tau:
			return 1
		}
		return 0
	})
	for j, a := range alternatives {
		open, end := "", ""
		if j == 0 {
			open, end = "<b>", "</b>"
		}
		fmt.Fprintf(&b, `<tr><td align="left">%s%s%s</td><td>%.3f</td><td>%.6f</td><td>%s%.3f%s</td></tr>`,
			open, strings.Join(a.Models, " + "), end, a.ExpectedMax, a.CostUSD, open, a.Tau, end)
	}
	b.WriteString("</table>")
	return b.String()
}

// call is the table of what a call cost and came to.
func call(c *sdk.Call, spent float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, table, "white")
	fmt.Fprintf(&b, title, 1, "call of "+c.Model)
	line := func(format string, args ...any) {
		b.WriteString(`<tr><td align="left">` + fmt.Sprintf(format, args...) + `</td></tr>`)
	}
	line("%d tokens in, %d out", c.Usage.InputTokens, c.Usage.OutputTokens)
	line("%.6f USD, %.6f in all", c.CostUSD, spent)
	if c.Verdict != nil {
		evidence, _, _ := strings.Cut(c.Verdict.Evidence, "\n")
		line("%s: %s", c.Verdict.Outcome, html.EscapeString(evidence))
	}
	line("quality now %.2f", c.Quality.Mean)
	b.WriteString("</table>")
	return b.String()
}
