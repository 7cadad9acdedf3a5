package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
)

func TestTableAlignsNumbersToTheRight(t *testing.T) {
	var out bytes.Buffer
	tab := newTable(&out, Column{Name: "Strategy"}, Column{Name: "USD", Number: true})
	tab.AppendRow(table.Row{"route", "0.1"})
	tab.AppendRow(table.Row{"cascade_route", "10.25"})
	tab.Render()
	if !strings.Contains(out.String(), " route            0.1 ") {
		t.Errorf("numbers are not aligned to the right:\n%s", &out)
	}
}

func TestProgressWithoutATerminalPrintsTheEnd(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, 3, "tasks")
	for range 3 {
		p.describef("USD %.2f", 0.5)
		p.add(1)
	}
	p.finish()
	if got := out.String(); !strings.HasSuffix(got, "tasks 3/3 USD 0.50\n") {
		t.Errorf("got %q", got)
	}
}
