package provider_test

import (
	"encoding/json"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Parameters about tools are not sent if the only tools are optional ones of another
// API.
func TestNoChoiceOfForeignTools(t *testing.T) {
	p := middleware.Params{RawTools: []json.RawMessage{json.RawMessage(`{"type":"web_search"}`)}, ParallelToolCalls: new(true)}
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			u := d.serve(t)
			m := u.model(t)
			p.Dialect = middleware.DialectResponses
			if m.(middleware.NativeModel).Dialect() == p.Dialect {
				p.Dialect = middleware.DialectAnthropic
			}
			if _, err := m.GenerateContent(t.Context(), human("hi"), middleware.WithParams(p), llms.WithToolChoice("required")); err != nil {
				t.Fatal(err)
			}
			for _, member := range []string{"tool_choice", "parallel_tool_calls", "toolConfig", "tools"} {
				if _, there := at(u.asked, member); there {
					t.Errorf("%s is sent: %v", member, u.asked)
				}
			}
		})
	}
}
