package view_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/view"
)

// TestSavingsOfALongName: a name of megabytes does not make a sentence of megabytes.
func TestSavingsOfALongName(t *testing.T) {
	for _, answered := range []bool{true, false} {
		saved := &view.Savings{Baseline: strings.Repeat("m", 3_000_000)}
		saved.Measured(1, 2, answered)
		if text := saved.String(); len(text) > 1000 || !strings.Contains(text, "mmm…") {
			t.Errorf("answered %v: %d bytes", answered, len(text))
		}
	}
}
