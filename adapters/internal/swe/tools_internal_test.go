package swe

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// OpenAI rejects a schema that contains null.
func TestToolsHaveNoNull(t *testing.T) {
	data, err := json.Marshal(definitions())
	if err != nil || strings.Contains(string(data), "null") {
		t.Errorf("%s, %v", data, err)
	}
}

// Names that an agent made cannot write control characters into a note.
func TestPrintable(t *testing.T) {
	if got := printable([]string{"a/bü.txt", "a\nb", "\x1b[2J"}); !slices.Equal(got, []string{"a/bü.txt", `"a\nb"`, `"\x1b[2J"`}) {
		t.Errorf("%q", got)
	}
}
