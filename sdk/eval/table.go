package eval

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Table is a comparison as a table of texts.
type Table struct {
	Header []string
	Cells  [][]string
}

// Table returns the comparison's rows as text: AUC, AIQ, APGR and CPT in per cent,
// costs in US dollars.
func (c *Comparison) Table() *Table {
	t := &Table{Header: []string{
		"strategy", "AUC %", "2-sigma", "vs " + c.Reference, "AIQ %", "APGR %", "CPT50 %", "CPT80 %",
		"USD at best", "quality % at its cost", "USD/success", "steps", "decision",
	}}
	for _, r := range c.Rows {
		t.Cells = append(t.Cells, []string{
			r.Name, percent(r.AUC), halfWidth(r.AUCInterval), gain(r.Difference),
			percent(r.AIQ), percent(r.APGR), percent(r.CPT50), percent(r.CPT80),
			Dollars(r.CostAtBest), percent(r.QualityAtBestCost), Dollars(r.CostPerSuccess),
			number(r.Steps, 2), duration(r),
		})
	}
	return t
}

const none = "-"

func percent(v float64) string { return number(100*v, 2) }

func number(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	return fmt.Sprintf("%.*f", digits, v)
}

func halfWidth(i interval) string {
	if math.IsNaN(i.High) {
		return none
	}
	return "± " + number(100*(i.High-i.Low)/2, 2)
}

// gain formats a difference in per cent with its half-width; a star means that it is
// significant.
func gain(i interval) string {
	if math.IsNaN(i.Value) {
		return none
	}
	text := fmt.Sprintf("%+.2f", 100*i.Value)
	if !math.IsNaN(i.High) {
		text += " " + halfWidth(i)
	}
	if i.isSignificant() {
		text += " *"
	}
	return text
}

// Dollars formats an amount with three significant digits.
func Dollars(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return none
	case v >= 0.01:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func duration(r *Row) string {
	if r.Decisions == 0 {
		return none
	}
	if r.DecisionTime < 10*time.Microsecond {
		return fmt.Sprintf("%.2f µs", float64(r.DecisionTime.Nanoseconds())/1e3)
	}
	return fmt.Sprintf("%.0f µs", float64(r.DecisionTime.Nanoseconds())/1e3)
}

// Markdown returns the table in Markdown, with numbers aligned right.
func (t *Table) Markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Header)
	rule := make([]string, len(t.Header))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0] = "---"
	line(rule)
	for _, cells := range t.Cells {
		line(cells)
	}
	return b.String()
}
