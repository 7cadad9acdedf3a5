package cli

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

func exampleTable(w *bytes.Buffer) *grid {
	g := newTable(w, column{name: "Strategy"}, column{name: "why it was chosen"}, column{name: "USD", number: true})
	g.row("route", "since nothing that it could have asked beside would have been worth its price", "0.1")
	g.row("cascade_route", "cheap \x1b[31mred\x1b[0m\nand 生命", "10.25")
	return g
}

func TestTableAlignsNumbersToTheRight(t *testing.T) {
	var out bytes.Buffer
	tab := newTable(&out, column{name: "Strategy"}, column{name: "USD", number: true})
	tab.row("route", "0.1")
	tab.row("cascade_route", "10.25")
	tab.print()
	if !strings.Contains(out.String(), " route            0.1 ") {
		t.Errorf("numbers are not aligned to the right:\n%s", &out)
	}
}

func TestTableIsWholeAndPlainInPipes(t *testing.T) {
	var out bytes.Buffer
	exampleTable(&out).print()
	if !strings.Contains(out.String(), "since nothing that it could have asked beside would have been worth its price") {
		t.Errorf("a cell is cut or wrapped:\n%s", &out)
	}
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Errorf("an escape of a cell reaches the reader:\n%q", &out)
	}
}

// fullDisk is a writer without space.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestLostOutputFails: output that cannot be written is a failure, whoever printed it.
func TestLostOutputFails(t *testing.T) {
	var errOut bytes.Buffer
	code := Run(t.Context(), []string{"policy", "show", "--library"}, Streams{Out: fullDisk{}, Err: &errOut})
	if code != exitFailure || !strings.Contains(errOut.String(), "no space left") {
		t.Errorf("exit code %d: %s", code, &errOut)
	}
}

// TestTableFitsEveryWidth: no line is wider than the terminal, and everything that fits is printed.
func TestTableFitsEveryWidth(t *testing.T) {
	for most := 20; most <= 200; most++ {
		var out bytes.Buffer
		exampleTable(&out).printWithin(most)
		for line := range strings.Lines(out.String()) {
			if n := text.StringWidth(strings.TrimRight(line, "\n")); n > most {
				t.Fatalf("%d wide on a terminal of %d: %q\n%s", n, most, line, &out)
			}
		}
		for _, word := range []string{"cascade", "10.25", "nothing"} {
			if !strings.Contains(out.String(), word) {
				t.Errorf("on a terminal of %d, %q is missing:\n%s", most, word, &out)
			}
		}
	}
}
