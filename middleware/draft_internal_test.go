package middleware

import (
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

// A client that streams on after a draft was found hopeless gets the same result for each further piece.
func TestHopelessDraftStaysHopeless(t *testing.T) {
	d := &draft{call: &call{m: &Model{}, query: sdk.Query{Format: sdk.ResponseFormat{JSON: true}}}}
	for _, piece := range []string{`{"a": 1}, he said`, "x", "y"} {
		if !d.isHopeless(&Delta{Text: piece}) {
			t.Errorf("after %q the answer may still be JSON", piece)
		}
	}
}
