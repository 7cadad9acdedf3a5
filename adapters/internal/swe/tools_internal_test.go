package swe

import (
	"encoding/json"
	"strings"
	"testing"
)

// OpenAI refuses a schema with a null in it.
func TestToolsHaveNoNull(t *testing.T) {
	data, err := json.Marshal(definitions())
	if err != nil || strings.Contains(string(data), "null") {
		t.Errorf("%s, %v", data, err)
	}
}
