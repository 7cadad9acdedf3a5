package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// behind returns a gateway in front of models of the APIs, the cheapest first, whose vendors answer as given.
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

// Prose in place of a required tool call is rejected: another model is called. A model whose API has no tool choice is
// asked for the call in the prompt.
func TestAForcedCallIsMade(t *testing.T) {
	ollama := &vendor{whole: `{"model":"m","message":{"role":"assistant","content":"plain text"},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":5}`}
	claude := &vendor{whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":5},"content":[{"type":"tool_use","id":"c1","name":"look","input":{}}]}`}
	g := behind(t, []middleware.Dialect{middleware.DialectOllama, middleware.DialectAnthropic}, ollama, claude)
	for choice, words := range map[string]string{
		`"required"`: "Answer with a call of one of the tools.",
		`{"type":"function","function":{"name":"look"}}`:                                                                        "Answer with a call of the tool look.",
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"look"}}]}}`: "Answer with a call of one of the tools.",
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

// A caller that accepts one call at a time gets one, even from a model that makes several, streamed or not.
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

// Ids of Gemini's calls differ from turn to turn, even if the server gives its answers no id, or equal ones.
func TestGeminiCallsHaveIDsOfTheirOwn(t *testing.T) {
	g := behind(t, []middleware.Dialect{middleware.DialectGemini}, canned{"application/json", `{"responseId":"same","candidates":[{"index":0,"finishReason":"STOP","content":{"parts":[{"functionCall":{"name":"look","args":{}}}]}}]}`})
	ids := map[string]bool{}
	for range 2 {
		_, body := postChat(t.Context(), t, g, "{"+twoTools+"}")
		ids[gjson.Get(body, "choices.0.message.tool_calls.0.id").Str] = true
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("ids %v", ids)
	}
}

// Images and documents in Mistral's form, which only have a URL, reach models of other APIs.
func TestFilesInMistralsForm(t *testing.T) {
	claude := &vendor{whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":5},"content":[{"type":"text","text":"ok"}]}`}
	m, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-sonnet-4-5", BaseURL: "http://claude", Transport: claude})
	if err != nil {
		t.Fatal(err)
	}
	model, err := middleware.New(middleware.Config{Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Images: true}}, LLM: m}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]string{
		`{"type":"image_url","image_url":"https://x/a.png"}`:                                                `{"type":"image","source":{"type":"url","url":"https://x/a.png"}}`,
		`{"type":"image_url","image_url":"data:image/png;base64,iVBORw0KGgo="}`:                             `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`,
		`{"type":"document_url","document_url":"https://x/a.pdf"}`:                                          `{"type":"document","source":{"type":"url","url":"https://x/a.pdf"}}`,
		`{"type":"document_url","document_name":"a","document_url":"data:application/pdf;base64,JVBERi0="}`: `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}`,
	} {
		resp, body := postChat(t.Context(), t, g, `{"model":"stepfall","messages":[{"role":"user","content":[{"type":"text","text":"q"},`+part+`]}]}`)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Stepfall-Not-Sent") != "" {
			t.Errorf("%s: %d %s %s", part, resp.StatusCode, body, resp.Header)
			continue
		}
		var got, wanted any
		_ = json.Unmarshal([]byte(gjson.Get(claude.asked, "messages.0.content.1").Raw), &got)
		_ = json.Unmarshal([]byte(want), &wanted)
		if !cmp.Equal(got, wanted) {
			t.Errorf("%s: %v", part, got)
		}
	}
}

// A model without a JSON mode is asked for JSON in the prompt, unless a message mentions it.
func TestClaudeIsAskedForJSON(t *testing.T) {
	claude := &vendor{whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":5},"content":[{"type":"text","text":"{}"}]}`}
	g := behind(t, []middleware.Dialect{middleware.DialectAnthropic}, claude)
	for question, want := range map[string]string{"q": "Answer with a JSON object.", "q in JSON": ""} {
		postChat(t.Context(), t, g, `{"model":"stepfall","response_format":{"type":"json_object"},"messages":[{"role":"user","content":"`+question+`"}]}`)
		if got := gjson.Get(claude.asked, "system").String(); strings.Contains(got, "JSON") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %s", question, claude.asked)
		}
	}
}

// A stream without requested usage has it once, in the chunk that ends the answer: Mistral's clients, which do not request it, read it there.
func TestUsageOfStreamsIsThereUnasked(t *testing.T) {
	g := behind(t, []middleware.Dialect{middleware.DialectAnthropic}, &vendor{whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":5},"content":[{"type":"text","text":"ok"}]}`})
	for options, choices := range map[string]int64{``: 1, `"stream_options":{"include_usage":true},`: 0} {
		_, body := postChat(t.Context(), t, g, `{"model":"stepfall","stream":true,`+options+`"messages":[{"role":"user","content":"q"}]}`)
		var with []string
		for event := range strings.SplitSeq(body, "\n\n") {
			if data := strings.TrimPrefix(event, "data: "); gjson.Get(data, "usage").IsObject() {
				with = append(with, data)
			}
		}
		if len(with) != 1 || gjson.Get(with[0], "usage.total_tokens").Int() != 14 || gjson.Get(with[0], "choices.#").Int() != choices {
			t.Errorf("%s: usage in %q", options, with)
		}
	}
}

// A request for an unknown model name is told which option accepts every name.
func TestUnknownNamesHaveAWayOut(t *testing.T) {
	resp, body := postChat(t.Context(), t, behind(t, []middleware.Dialect{middleware.DialectChat}, &vendor{}), `{"model":"gpt-4o","messages":[{"role":"user","content":"q"}]}`)
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "stepfall serve --any-model") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// The usage that agents use as the length of their conversation is that of one call, however many were made.
func TestUsageIsOfTheAnswer(t *testing.T) {
	ollama := &vendor{whole: `{"model":"m","message":{"role":"assistant","content":"I'm sorry, but I can't help with that."},"done":true,"done_reason":"stop","prompt_eval_count":10,"eval_count":4}`}
	claude := &vendor{whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":5},"content":[{"type":"text","text":"ok"}]}`}
	_, body := postChat(t.Context(), t, behind(t, []middleware.Dialect{middleware.DialectOllama, middleware.DialectAnthropic}, ollama, claude), `{"model":"stepfall","messages":[{"role":"user","content":"q"}]}`)
	for path, want := range map[string]int64{"usage.prompt_tokens": 9, "usage.completion_tokens": 5, "stepfall.calls": 2, "stepfall.usage.input_tokens": 19, "stepfall.usage.output_tokens": 9} {
		if got := gjson.Get(body, path).Int(); got != want {
			t.Errorf("%s is %d, want %d: %s", path, got, want, body)
		}
	}
}

// Tools that a request offers in a form that only one API has, such as an item of its conversation or a set without names,
// are called by models of that API: others are not asked, and the calls are accepted.
func TestToolsAddedInAnAPIsOwnForm(t *testing.T) {
	const late = `{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"late","parameters":{"type":"object","properties":{}},"strict":false}]}`
	const addition = `{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"late","input_schema":{"type":"object","properties":{}}}}}`
	own := map[string]*vendor{
		responsesPath: {whole: `{"id":"r","object":"response","status":"completed","model":"m","usage":{"input_tokens":9,"output_tokens":5},"output":[{"type":"function_call","id":"fc_1","call_id":"c1","name":"late","arguments":"{}"}]}`},
		messagesPath:  {whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":5},"content":[{"type":"tool_use","id":"c1","name":"late","input":{},"toolset_name":"computer"}]}`},
	}
	dialects := map[string]middleware.Dialect{responsesPath: middleware.DialectResponses, messagesPath: middleware.DialectAnthropic}
	for _, tt := range []struct{ path, request, kept, want string }{
		{responsesPath, `"tools":[{"type":"function","name":"g","parameters":{}}],"input":[` + late + `,{"role":"user","content":"hi"}]`, "input.0", late},
		{messagesPath, `"max_tokens":99,"messages":[{"role":"user","content":"hi"},{"role":"system","content":[` + addition + `]}]`, "messages.1", `{"content":[` + addition + `],"role":"system"}`},
		{messagesPath, `"max_tokens":99,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"computer_toolset_20260801"}]`, "tools.0", `{"type":"computer_toolset_20260801"}`},
	} {
		chat, up := &vendor{}, own[tt.path]
		g := behind(t, []middleware.Dialect{middleware.DialectChat, dialects[tt.path]}, chat, up)
		w := post(g, tt.path, `{"model":"stepfall",`+tt.request+`}`)
		if gjson.Get(w.Body.String(), "stepfall.quality").Num == 0 || chat.asked != "" || !strings.Contains(w.Body.String(), `"name":"late"`) || w.Header().Get("X-Stepfall-Not-Sent") != "" {
			t.Errorf("%s: status %d, %s, %v; another API was asked %q", tt.request, w.Code, w.Body, w.Header(), chat.asked)
		}
		if got := gjson.Get(up.asked, tt.kept).Raw; got != tt.want {
			t.Errorf("%s: sent %s", tt.request, got)
		}
	}
}

// A fallback of the vendor's would answer at a price that is not known here: the next model of the cascade is asked instead.
func TestTheCascadeIsTheFallback(t *testing.T) {
	claude := &vendor{whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"refusal","usage":{"input_tokens":9,"output_tokens":5},"content":[{"type":"text","text":"hm"}]}`}
	chat := &vendor{whole: `{"id":"c","object":"chat.completion","model":"m","usage":{"prompt_tokens":9,"completion_tokens":5},"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"yes"}}]}`}
	w := post(behind(t, []middleware.Dialect{middleware.DialectAnthropic, middleware.DialectChat}, claude, chat), messagesPath,
		`{"model":"stepfall","max_tokens":99,"metadata":{"novel":1},"messages":[{"role":"user","content":"hi"}],"fallbacks":[{"model":"claude-opus-4-6"}]}`)
	if gjson.Get(claude.asked, "fallbacks").Exists() || !gjson.Get(claude.asked, "metadata.novel").Exists() || !strings.Contains(w.Header().Get("X-Stepfall-Not-Sent"), "fallbacks") ||
		gjson.Get(w.Body.String(), "content.0.text").Str != "yes" || gjson.Get(w.Body.String(), "stepfall.calls").Int() != 2 {
		t.Errorf("asked %s; status %d, %s, %v", claude.asked, w.Code, w.Body, w.Header())
	}
}
