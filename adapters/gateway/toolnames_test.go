package gateway_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// callsFirstTool answers each request with a call of its first tool, as OpenAI's server would.
type callsFirstTool struct{ asked gjson.Result }

func (c *callsFirstTool) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.asked = gjson.ParseBytes(body)
	name := c.asked.Get("tools.0.function.name").Str + c.asked.Get("tools.0.name").Str
	chunk := `{"id":"a","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"` + name + `","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":5}}`
	whole := strings.NewReplacer(`"delta"`, `"message"`, `"index":0,"id"`, `"id"`).Replace(chunk)
	item := `{"type":"function_call","id":"fc_1","call_id":"c1","name":"` + name + `","arguments":"{}"}`
	if isResponses := c.asked.Get("input").Exists(); isResponses {
		whole = `{"id":"a","object":"response","status":"completed","output":[` + item + `],"usage":{"input_tokens":9,"output_tokens":5}}`
		chunk = `{"type":"response.output_item.added","output_index":0,"item":` + item + "}\n\ndata: " + `{"type":"response.completed","response":` + whole + `}`
	}
	kind := "application/json"
	if c.asked.Get("stream").Bool() {
		kind, whole = "text/event-stream", "data: "+chunk+"\n\ndata: [DONE]\n\n"
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(whole)), Request: r}, nil
}

// A tool whose name OpenAI rejects has another name there, in the history and in the choice too. Its client gets calls
// under its own name.
func TestToolNamesThatOpenAIRejects(t *testing.T) {
	accepted := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	long := "mcp__a_server_of_a_team__" + strings.Repeat("x", 60)
	for _, name := range []string{long + "_get", "srv.look", "look"} {
		requests := map[string]string{
			chatPath: `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c0","type":"function","function":{"name":"NAME","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c0","content":"done"}],
				"tools":[{"type":"function","function":{"name":"NAME","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"OTHER"}}],
				"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"NAME"}}]}},"stream":STREAM}`,
			messagesPath: `{"max_tokens":99,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"c0","name":"NAME","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c0","content":"done"}]}],
				"tools":[{"name":"NAME","input_schema":{"type":"object"}},{"name":"OTHER","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"NAME"},"stream":STREAM}`,
			responsesPath: `{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c0","name":"NAME","arguments":"{}"},{"type":"function_call_output","call_id":"c0","output":"done"}],
				"tools":[{"type":"function","name":"NAME","strict":true,"parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false}},{"type":"function","name":"OTHER"}],"tool_choice":{"type":"function","name":"NAME"},"stream":STREAM}`,
		}
		for path, request := range requests {
			for _, api := range []middleware.Dialect{middleware.DialectChat, middleware.DialectResponses} {
				for _, stream := range []string{"false", "true"} {
					up := &callsFirstTool{}
					llm, err := provider.New(provider.Options{Model: "gpt-4.1", API: api, Transport: up})
					if err != nil {
						t.Fatal(err)
					}
					m, err := middleware.New(middleware.Config{Stream: middleware.Passthrough, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm}}})
					if err != nil {
						t.Fatal(err)
					}
					w := post(newGateway(t, gateway.Options{Model: m}), path, strings.NewReplacer("NAME", name, "OTHER", long+"_set", "STREAM", stream).Replace(request))
					m.Close()
					sent := up.asked.Get("tools.0.function.name").Str + up.asked.Get("tools.0.name").Str
					switch {
					case w.Code != http.StatusOK || strings.Count(w.Body.String(), `"name":"`+name+`"`) == 0 || sent != name && strings.Contains(w.Body.String(), sent):
						t.Errorf("%s to %s, stream %s: status %d: %s", path, api, stream, w.Code, w.Body)
					case !accepted.MatchString(sent) || strings.Contains(up.asked.Raw, long+"_") || strings.Contains(up.asked.Raw, "srv.look"):
						t.Errorf("%s to %s: sent %s", path, api, up.asked.Raw)
					case strings.Count(up.asked.Raw, `"`+sent+`"`) < 2:
						t.Errorf("%s to %s: the history has another name: %s", path, api, up.asked.Raw)
					case path == responsesPath && api == middleware.DialectResponses && !up.asked.Get("tools.0.strict").Bool():
						t.Errorf("%s to %s: the schema is not strict: %s", path, api, up.asked.Raw)
					case path != chatPath && up.asked.Get("tool_choice.function.name").Str+up.asked.Get("tool_choice.name").Str != sent:
						t.Errorf("%s to %s: chosen is %s", path, api, up.asked.Get("tool_choice").Raw)
					}
				}
			}
		}
	}
}
