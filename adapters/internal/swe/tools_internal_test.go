package swe

import (
	"encoding/json"
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
