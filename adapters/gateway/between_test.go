package gateway_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// askBoth returns the requests to models of two APIs for one client request.
func askBoth(t *testing.T, path, body string) (claude, gpt string) {
	t.Helper()
	up := map[string]*vendor{
		"claude": {whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":9,"output_tokens":5}}`},
		"gpt":    {whole: `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":9,"completion_tokens":5}}`},
	}
	one, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-opus-4-6", BaseURL: "http://claude", Transport: up["claude"]})
	if err != nil {
		t.Fatal(err)
	}
	other, err := provider.New(provider.Options{Model: "gpt-1", Transport: up["gpt"]})
	if err != nil {
		t.Fatal(err)
	}
	for name, llm := range map[string]llms.Model{"claude": one, "gpt": other} {
		m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{{Model: sdk.Model{Name: name, Capabilities: sdk.Capabilities{Tools: true, Images: true}}, LLM: llm}}})
		if err != nil {
			t.Fatal(err)
		}
		w := post(newGateway(t, gateway.Options{Model: m}), path, body)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", name, w.Code, w.Body)
		}
		m.Close()
	}
	return up["claude"].asked, up["gpt"].asked
}

// Cache controls, documents with citations and search results in tool results reach Claude unchanged, and models of
// other APIs as text.
func TestDocumentsAndResultsReachEveryModel(t *testing.T) {
	const (
		cached   = `{"type":"text","text":"a cat","cache_control":{"type":"ephemeral"}}`
		found    = `{"type":"search_result","source":"https://x","title":"X","content":[{"type":"text","text":"a fact"}],"citations":{"enabled":true}}`
		document = `{"type":"document","title":"T","source":{"type":"content","content":[{"type":"text","text":"said"}]},"citations":{"enabled":true}}`
		pdf      = `{"type":"document","title":"P","source":{"type":"base64","media_type":"application/pdf","data":"AAE="},"citations":{"enabled":true}}`
	)
	claude, gpt := askBoth(t, messagesPath, `{"max_tokens":9,"messages":[{"role":"user","content":[`+document+`,`+pdf+`]},
		{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[`+cached+`,`+found+`]}]}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`)
	for path, want := range map[string]string{
		"messages.0.content.0": document, "messages.0.content.1": pdf, "messages.2.content.0.content.0.cache_control.type": `"ephemeral"`, "messages.2.content.0.content.1": found,
	} {
		if got := gjson.Get(claude, path).Raw; got != want {
			t.Errorf("Claude's %s is %s", path, got)
		}
	}
	for path, want := range map[string]string{
		"messages.0.content.0.text": "T\n\nsaid", "messages.0.content.1.file.filename": "P.pdf", "messages.2.content": "a cat\nX\n\nhttps://x\n\na fact",
	} {
		if got := gjson.Get(gpt, path).Str; got != want {
			t.Errorf("GPT's %s is %q, in %s", path, got, gpt)
		}
	}
}

// A user's content in a form that a model's API lacks is never left out: that model is not
// called.
func TestForeignContentExcludes(t *testing.T) {
	up := &vendor{whole: `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}`}
	llm, err := provider.New(provider.Options{Model: "gpt-1", Transport: up})
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{{Model: sdk.Model{Name: "gpt", Capabilities: sdk.Capabilities{Tools: true, Images: true}}, LLM: llm}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const image = `{"source":{"file_id":"file_1","type":"file"},"type":"image"}`
	for _, block := range []string{`{"type":"document","source":{"type":"content","content":[` + image + `]},"citations":{"enabled":true}}`, `{"type":"container_upload","file_id":"file_1"}`} {
		w := post(newGateway(t, gateway.Options{Model: m}), messagesPath, `{"max_tokens":9,"messages":[{"role":"user","content":[`+block+`,{"type":"text","text":"hi"}]}]}`)
		if w.Code != http.StatusBadRequest || up.asked != "" || !strings.Contains(w.Body.String(), "of another API") {
			t.Errorf("%s: status %d: %s; asked %s", block, w.Code, w.Body, up.asked)
		}
	}
	const text = `{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"said"}}`
	claude, gpt := askBoth(t, messagesPath, `{"max_tokens":9,"messages":[{"role":"user","content":[`+text+`]}]}`)
	if got := gjson.Get(claude, "messages.0.content.0.source.data").Str; got != "said" {
		t.Errorf("Claude is sent %s", claude)
	}
	if got := gjson.Get(gpt, "messages.0.content").Str; got != "T\n\nsaid" {
		t.Errorf("GPT is sent %s", gpt)
	}
}

// The first event of a stream names the model that answers, and the estimated length of the prompt.
func TestStreamsNameTheirModel(t *testing.T) {
	llm := says(llms.ContentChoice{Content: "fine"})
	m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{{Model: sdk.Model{Name: "large"}, LLM: llm}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := newGateway(t, gateway.Options{Model: m})
	for path, body := range map[string]string{
		chatPath:      `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		messagesPath:  `{"stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		responsesPath: `{"stream":true,"input":"hi"}`,
	} {
		got := post(g, path, body).Body.String()
		if strings.Contains(got, `"model":"stepfall"`) || !strings.Contains(got, `"model":"large"`) {
			t.Errorf("%s: %s", path, got)
		}
		if path == messagesPath && strings.Contains(got, `"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":0,"output_tokens":0}`) {
			t.Errorf("no estimate: %s", got)
		}
	}
}

// A call of Claude's without arguments has an empty object in other APIs, also streamed, and Claude's service tier is
// translated.
func TestClaudeAnswersClientsOfOthers(t *testing.T) {
	const usage = `"usage":{"input_tokens":9,"output_tokens":5,"service_tier":"standard"}`
	up := upstream{
		whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","content":[{"type":"tool_use","id":"c1","name":"now","input":{}}],` + usage + `}`,
		streamed: sse(`{"type":"message_start","message":{"id":"a","role":"assistant","model":"m","content":[],`+usage+`}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"now","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`),
	}
	llm, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-opus-4-6", BaseURL: "http://claude", Transport: up})
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{Stream: middleware.Passthrough, Models: []middleware.Candidate{{Model: sdk.Model{Name: "claude", Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := newGateway(t, gateway.Options{Model: m})
	for path, body := range map[string]string{
		chatPath:      `"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"now"}}]`,
		responsesPath: `"input":"hi","tools":[{"type":"function","name":"now"}]`,
	} {
		for _, streamed := range []string{"false", "true"} {
			got := post(g, path, `{"stream":`+streamed+`,`+body+`}`).Body.String()
			arguments := ""
			for _, line := range regexp.MustCompile(`"(?:arguments|delta)":"([^"]*)"`).FindAllStringSubmatch(got, -1) {
				if arguments += line[1]; path == responsesPath && arguments != "" {
					break // events at the end say it all once more
				}
			}
			if arguments != "{}" || strings.Contains(got, `"service_tier":"standard"`) {
				t.Errorf("%s, streamed %s: arguments %q in %s", path, streamed, arguments, got)
			}
		}
	}
}

// A turn that Claude pauses is not complete: clients of other APIs, which cannot express that, are told that the answer
// is incomplete.
func TestPausedTurnsAreNotWhole(t *testing.T) {
	answer := strings.Replace(exampleAPIs["Messages"].answer, `"stop_reason":"tool_use","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"},
			{"type":"tool_use","id":"t1","name":"look","input":{}},`, `"stop_reason":"pause_turn","content":[{"type":"text","text":"hi"},`, 1)
	for path, want := range map[string]string{chatPath: `"finish_reason":"length"`, responsesPath: `"status":"incomplete"`, messagesPath: `"stop_reason":"pause_turn"`} {
		api := exampleAPIs["Messages"]
		api.path = path
		for _, streamed := range []string{"false", "true"} {
			_, w := askExampleBy(t, api, strings.Replace(asked[path], "%v", streamed, 1), upstream{whole: answer}, middleware.Buffer)
			if !strings.Contains(w.body, want) {
				t.Errorf("%s, streamed %s: %s", path, streamed, w.body)
			}
		}
	}
}

// A paused turn is only continued by the model that paused it. If the conversation has continued without it, the open
// call of its tool is left out.
func TestPausedTurnsGoOn(t *testing.T) {
	const paused = `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"pause_turn","content":[{"type":"text","text":"I look"},{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"cats"}}],"usage":{"input_tokens":3,"output_tokens":4}}`
	vendors := map[string]*vendor{"claude-opus-4-6": {whole: paused}, "claude-opus-4-5": {whole: paused}, "claude-sonnet-4-6": {whole: paused}}
	var candidates []middleware.Candidate
	for name, v := range vendors {
		llm, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: name, BaseURL: "https://api.anthropic.com", Transport: v})
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, middleware.Candidate{Model: sdk.Model{Name: name, Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm})
	}
	m, err := middleware.New(middleware.Config{Models: candidates})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := newGateway(t, gateway.Options{Model: m, Models: named("claude-opus-4-6", "claude-opus-4-5", "claude-sonnet-4-6")})
	const first = `"max_tokens":9,"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[{"role":"user","content":"hi"}`
	for from, own := range vendors {
		content := gjson.GetBytes(post(g, messagesPath, `{"model":"`+from+`",`+first+`]}`).Body.Bytes(), "content").Raw
		for _, v := range vendors {
			v.asked = ""
		}
		w := post(g, messagesPath, `{`+first+`,{"role":"assistant","content":`+content+`}]}`)
		for name, v := range vendors {
			if isAsked := v.asked != ""; isAsked != (name == from) || w.Code != http.StatusOK {
				t.Errorf("paused by %s: %s is asked: %v; status %d: %s", from, name, isAsked, w.Code, w.Body)
			}
		}
		if !strings.Contains(own.asked, `"srvtoolu_1"`) {
			t.Errorf("%s is sent %s", from, own.asked)
		}
		for _, next := range []string{`,{"role":"assistant","content":` + strings.TrimSuffix(content, "]") + `,{"type":"text","text":"they purr"}]},{"role":"user","content":"and?"}]}`,
			`,{"role":"assistant","content":` + content + `},{"role":"assistant","content":"they purr"},{"role":"user","content":"and?"}]}`} {
			if post(g, messagesPath, `{"model":"`+from+`",`+first+next); strings.Contains(own.asked, "srvtoolu_1") || !strings.Contains(own.asked, "they purr") {
				t.Errorf("%s is sent %s", from, own.asked)
			}
		}
		// A call made by the model's code waits for the client, and the code waits for the result.
		call := strings.TrimSuffix(content, "]") + `,{"type":"tool_use","id":"toolu_1","name":"look","input":{},"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}}]`
		if post(g, messagesPath, `{"model":"`+from+`",`+first+`,{"role":"assistant","content":`+call+`},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a"}]}]}`); !strings.Contains(own.asked, `"id":"srvtoolu_1"`) {
			t.Errorf("%s is sent %s", from, own.asked)
		}
	}
}

// An answer that its server did not finish, or that was truncated, is reported as incomplete to clients of all APIs,
// without invented arguments of a call.
func TestUnfinishedAnswersAreNotWhole(t *testing.T) {
	chat := func(finish, message string) string {
		return `{"id":"a","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"` + finish + `","message":{"role":"assistant",` + message + `}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`
	}
	const call = `"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"a\": \"Z"}}]`
	type answer struct{ api, whole string }
	broken := map[string]string{chatPath: `"finish_reason":"length"`, responsesPath: `"status":"incomplete"`, messagesPath: `"stop_reason":"max_tokens"`}
	for a, want := range map[answer]map[string]string{
		{"chat", chat("error", `"content":"hi"`)}:                        broken,
		{"chat", chat("insufficient_system_resource", `"content":"hi"`)}: broken,
		{"chat", chat("abort", `"content":"hi"`)}:                        broken,
		{"chat", chat("unheard_of", `"content":"hi"`)}:                   broken,
		{"Messages", `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"unheard_of","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":3,"output_tokens":4}}`}: broken,
		{"chat", chat("length", call)}: {chatPath: `"finish_reason":"length"`, responsesPath: `"arguments":"{\"a\": \"Z"`, messagesPath: `"input":{}`},
		{"Responses", `{"id":"a","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"par"},{"type":"refusal","refusal":"no"}]}],"usage":{"input_tokens":3,"output_tokens":4}}`}: {
			chatPath: `"refusal":"no"`, responsesPath: `"status":"completed"`, messagesPath: `"stop_reason":"refusal"`},
		{"Messages", `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"no"},"content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":3,"output_tokens":4}}`}: {
			chatPath: `"finish_reason":"content_filter"`, responsesPath: `"status":"incomplete"`, messagesPath: `"stop_reason":"refusal"`},
	} {
		for path, want := range want {
			api := exampleAPIs[a.api]
			api.path = path
			for _, streamed := range []string{"false", "true"} {
				_, w := askExampleBy(t, api, strings.Replace(asked[path], "%v", streamed, 1), upstream{whole: a.whole}, middleware.Buffer)
				if !strings.Contains(w.body, want) || strings.Contains(w.body, "__arg1") || strings.Contains(w.body, "parno") {
					t.Errorf("%s, streamed %s: want %s in %s", path, streamed, want, w.body)
				}
			}
		}
	}
}

// Anthropic's tool runner continues without threads if the error has the expected form, and a vendor's error about the
// length of a request keeps its meaning.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	g := newGateway(t, gateway.Options{Model: says(llms.ContentChoice{Content: "fine"})})
	w := post(g, messagesPath, `{"max_tokens":9,"thread":{"type":"new"},"messages":[{"role":"user","content":"hi"}]}`)
	if got := gjson.Get(w.Body.String(), "error.details.error_code").Str; w.Code != http.StatusBadRequest || got != "thread_unsupported_request" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	for said, want := range map[*middleware.ProviderError]struct {
		status int
		code   string
	}{
		middleware.NewProviderError("anthropic", 400, nil, []byte(`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), nil): {400, "context_length_exceeded"},
		middleware.NewProviderError("anthropic", 413, nil, []byte(`{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`), nil):                       {413, "request_too_large"},
		middleware.NewProviderError("openai", 400, nil, []byte(`{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`), nil):                {400, "context_length_exceeded"},
	} {
		m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{{Model: sdk.Model{Name: "large"}, LLM: &recorder{answer: func(context.Context, *middleware.Params) (*llms.ContentResponse, error) { return nil, said }}}}})
		if err != nil {
			t.Fatal(err)
		}
		w := post(newGateway(t, gateway.Options{Model: m}), chatPath, `{"messages":[{"role":"user","content":"hi"}]}`)
		if got := gjson.Get(w.Body.String(), "error.code").Str; w.Code != want.status || got != want.code {
			t.Errorf("%v: status %d: %s", said, w.Code, w.Body)
		}
		w = post(newGateway(t, gateway.Options{Model: m}), messagesPath, `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
		if got := gjson.Get(w.Body.String(), "error.message").Str; w.Code != want.status || strings.Contains(got, "prompt is too long") != (want.status == 400) {
			t.Errorf("%v: Anthropic's clients are told %s", said, got)
		}
		m.Close()
	}
}
