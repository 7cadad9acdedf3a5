package dialect

import (
	"testing"

	"github.com/stepfall/stepfall/middleware"
)

// Call ids differ even between simultaneous answers, because clients drop calls with a known id.
func TestOllamaCallsHaveIDsOfTheirOwn(t *testing.T) {
	ids := map[string]bool{}
	for range 2 {
		r := &Reply{Emit: func(*middleware.Delta) {}}
		if err := (ollama{}.Reader(r)).Whole([]byte(`{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"look","arguments":{}}}]},"done":true,"done_reason":"stop"}`)); err != nil {
			t.Fatal(err)
		}
		answer, err := r.Response()
		if err != nil {
			t.Fatal(err)
		}
		ids[answer.Choices[0].ToolCalls[0].ID] = true
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("the ids are %v", ids)
	}
}
