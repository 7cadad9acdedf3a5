package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// behind returns a gateway before models of the APIs, the cheapest first, that answer with what their vendors do.
func behind(t *testing.T, apis []middleware.Dialect, vendors ...http.RoundTripper) *gateway.Gateway {
	t.Helper()
	var models []middleware.Candidate
	for i, v := range vendors {
		var llm llms.Model
		llm, err := provider.New(provider.Options{API: apis[i], Model: "m", BaseURL: "http://vendor", Transport: v})
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, middleware.Candidate{Model: sdk.Model{Name: string(apis[i]), Price: sdk.Price{Output: float64(i + 1)}, Capabilities: sdk.Capabilities{Tools: true, JSONMode: true}}, LLM: llm})
	}
	m, err := middleware.New(middleware.Config{Models: models, Stream: middleware.Commit})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Model: m})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const twoTools = `"model":"stepfall","messages":[{"role":"user","content":"q"}],"tools":[{"type":"function","function":{"name":"look"}},{"type":"function","function":{"name":"listen"}}]`

// Prose in place of a call that the caller made a model make is no answer: another model is asked. A model whose API
// has no such choice is asked for the call in words.
func TestAForcedCallIsMade(t *testing.T) {
	ollama := &vendor{whole: `{"model":"m","message":{"role":"assistant","content":"plain text"},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":5}`}
	claude := &vendor{whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":5},"content":[{"type":"tool_use","id":"c1","name":"look","input":{}}]}`}
	g := behind(t, []middleware.Dialect{middleware.DialectOllama, middleware.DialectAnthropic}, ollama, claude)
	for choice, words := range map[string]string{
		`"required"`: "Answer with a call of one of the tools.",
		`{"type":"function","function":{"name":"look"}}`: "Answer with a call of the tool look.",
	} {
		_, body := postChat(t.Context(), t, g, "{"+twoTools+`,"tool_choice":`+choice+"}")
		if name := gjson.Get(body, "choices.0.message.tool_calls.0.function.name").Str; name != "look" {
			t.Errorf("%s: %s", choice, body)
		}
		if said := gjson.Get(ollama.asked, "messages.0").Get("content").Str; said != words {
			t.Errorf("%s: the cheap model was told %q", choice, said)
		}
	}
	if _, body := postChat(t.Context(), t, g, "{"+twoTools+"}"); gjson.Get(body, "choices.0.message.content").Str != "plain text" || strings.Contains(ollama.asked, "Answer with") {
		t.Errorf("no choice: %s, asked %s", body, ollama.asked)
	}
}

// A caller that takes one call at a time gets one, also of a model that makes several, streamed or not.
func TestOneCallAtATime(t *testing.T) {
	two := `{"responseId":"g","modelVersion":"m","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5},"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[` +
		`{"functionCall":{"name":"look","args":{}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"listen","args":{}}}]}}]}`
	for name, c := range map[string]struct {
		from http.RoundTripper
		more string
		want []string
	}{
		"one":                 {canned{"application/json", two}, `,"parallel_tool_calls":false`, []string{"look"}},
		"several":             {canned{"application/json", two}, `,"parallel_tool_calls":true`, []string{"look", "listen"}},
		"one of a stream":     {canned{"text/event-stream", "data: " + two + "\n\n"}, `,"stream":true,"parallel_tool_calls":false`, []string{"look"}},
		"several of a stream": {canned{"text/event-stream", "data: " + two + "\n\n"}, `,"stream":true`, []string{"look", "listen"}},
	} {
		_, body := postChat(t.Context(), t, behind(t, []middleware.Dialect{middleware.DialectGemini}, c.from), "{"+twoTools+c.more+"}")
		for _, tool := range []string{"look", "listen"} {
			if got, want := strings.Count(body, `"name":"`+tool+`"`), strings.Count(strings.Join(c.want, " "), tool); got != want {
				t.Errorf("%s: %d calls of %s, want %d: %s", name, got, tool, want, body)
			}
		}
	}
}
