package cli

import (
	"bytes"
	"strings"
	"testing"
)

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
