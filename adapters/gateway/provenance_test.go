package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
)

// vendor is an upstream that answers each request with a tool call, in its own API, with state that only this vendor
// may see again.
type vendor struct {
	name, whole string
	asked       string
}

func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	v.asked = string(body)
	return canned{"application/json", v.whole}.RoundTrip(r)
}

// Signed state is sent back to its model through the clients of all APIs, and to no other model. A turn of another
// model within a loop of tool calls does not make Claude reject the request.
func TestStateGoesBackToItsModelOnly(t *testing.T) {
	vendors := map[string]*vendor{
		"claude": {whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":5},
			"content":[{"type":"thinking","thinking":"hm","signature":"SECRET-claude"},{"type":"tool_use","id":"c1","name":"look","input":{}}]}`},
		"gpt": {whole: `{"id":"r","object":"response","status":"completed","model":"m","usage":{"input_tokens":9,"output_tokens":5},"output":[
			{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"SECRET-gpt"},{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}]}`},
		"deepseek": {whole: `{"id":"c","object":"chat.completion","model":"m","usage":{"prompt_tokens":9,"completion_tokens":5},"choices":[{"index":0,"finish_reason":"tool_calls",
			"message":{"role":"assistant","content":"","reasoning_content":"SECRET-deepseek","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}`},
		"vllm": {whole: `{"id":"c","object":"chat.completion","model":"m","usage":{"prompt_tokens":9,"completion_tokens":5},"choices":[{"index":0,"finish_reason":"tool_calls",
			"message":{"role":"assistant","content":"","reasoning":"SECRET-vllm","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}`},
		"api.mistral.ai": {whole: `{"id":"c","object":"chat.completion","model":"m","usage":{"prompt_tokens":9,"completion_tokens":5},"choices":[{"index":0,"finish_reason":"tool_calls",
			"message":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"SECRET-mistral"}]}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}`},
		"openrouter": {whole: `{"id":"c","object":"chat.completion","model":"m","usage":{"prompt_tokens":9,"completion_tokens":5},"choices":[{"index":0,"finish_reason":"tool_calls",
			"message":{"role":"assistant","content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"SECRET-openrouter","id":"x"}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}`},
		"compat": {whole: `{"id":"c","object":"chat.completion","model":"m","usage":{"prompt_tokens":9,"completion_tokens":5},"choices":[{"index":0,"finish_reason":"tool_calls",
			"message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"},"extra_content":{"google":{"thought_signature":"SECRET-compat"}}}]}}]}`},
		"gemini": {whole: `{"responseId":"g","modelVersion":"m","usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5},"candidates":[{"index":0,"finishReason":"STOP",
			"content":{"role":"model","parts":[{"functionCall":{"id":"c1","name":"look","args":{}},"thoughtSignature":"SECRETgemini"}]}}]}`},
	}
	var candidates []middleware.Candidate
	for name, v := range vendors {
		v.name = name
		var llm llms.Model
		var err error
		switch name {
		case "claude":
			llm, err = provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-sonnet-4", BaseURL: "http://claude", Transport: v})
		case "gpt":
			llm, err = provider.New(provider.Options{Model: "gpt-1", API: middleware.DialectResponses, BaseURL: "http://gpt/v1", Transport: v})
		case "gemini":
			llm, err = provider.New(provider.Options{API: middleware.DialectGemini, Model: "gemini-3-pro", BaseURL: "http://gemini", Transport: v})
		default:
			llm, err = provider.New(provider.Options{Model: "m", BaseURL: "http://" + name + "/v1", Transport: v})
		}
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
	g := newGateway(t, gateway.Options{Model: m, Models: func() []string {
		return []string{"claude", "gpt", "deepseek", "vllm", "openrouter", "compat", "gemini", "api.mistral.ai"}
	}})
	for client, again := range map[string]func(answer gjson.Result) string{
		chatPath: func(a gjson.Result) string {
			message := a.Get("choices.0.message").Raw
			return `"messages":[{"role":"user","content":"hi"},` + message + `,{"role":"tool","tool_call_id":` + a.Get("choices.0.message.tool_calls.0.id").Raw + `,"content":"a cat"}]`
		},
		messagesPath: func(a gjson.Result) string {
			return `"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":` + a.Get("content").Raw +
				`},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a cat"}]}]`
		},
		responsesPath: func(a gjson.Result) string {
			items := strings.TrimSuffix(a.Get("output").Raw, "]")
			return `"store":false,"include":["reasoning.encrypted_content"],"input":[{"role":"user","content":"hi"},` + items[1:] + `,{"type":"function_call_output","call_id":"c1","output":"a cat"}]`
		},
	} {
		const tools = `"tools":[{"type":"function","name":"look","input_schema":{"type":"object"},"parameters":{"type":"object"},"function":{"name":"look"}}]`
		first := map[string]string{
			chatPath:      `"messages":[{"role":"user","content":"hi"}]`,
			messagesPath:  `"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"hi"}]`,
			responsesPath: `"store":false,"include":["reasoning.encrypted_content"],"input":"hi"`,
		}[client]
		if client == messagesPath {
			first += `,"tools":[{"name":"look","input_schema":{"type":"object"}}]`
		} else {
			first += "," + tools
		}
		for from := range vendors {
			w := post(g, client, fmt.Sprintf(`{"model":%q,%s}`, from, first))
			if w.Code != http.StatusOK {
				t.Fatalf("%s of %s: status %d: %s", client, from, w.Code, w.Body)
			}
			turn := again(gjson.ParseBytes(w.Body.Bytes()))
			for to, other := range vendors {
				w := post(g, client, fmt.Sprintf(`{"model":%q,%s}`, to, turn))
				if w.Code != http.StatusOK {
					t.Fatalf("%s of %s, then %s: status %d: %s", client, from, to, w.Code, w.Body)
				}
				if back := strings.Contains(other.asked, "SECRET"); back != (from == to) {
					t.Errorf("%s of %s, then %s: state sent: %v\nclient: %s\nsent: %s", client, from, to, back, turn, other.asked)
				}
				const chunk = `"content":[{"thinking":[{"text":"SECRET-mistral","type":"text"}],"type":"thinking"}]`
				if from == to && to == "api.mistral.ai" && !strings.Contains(other.asked, chunk) {
					t.Errorf("%s of Mistral: its thoughts have another form: %s", client, other.asked)
				}
				if strings.Contains(other.asked, "stepfall1") {
					t.Errorf("%s of %s, then %s: a tag was sent: %s", client, from, to, other.asked)
				}
				if named := strings.Contains(w.Header().Get("X-Stepfall-Not-Sent"), "another model's reasoning"); named != (from != to) {
					t.Errorf("%s of %s, then %s: not sent: %q", client, from, to, w.Header().Get("X-Stepfall-Not-Sent"))
				}
				if to == "claude" && client == messagesPath {
					if kind := gjson.Get(other.asked, "thinking.type").Str; (kind == "enabled") != (from == to) {
						t.Errorf("%s of %s, then Claude: thinking %s", client, from, kind)
					}
				}
				if signed := gjson.Get(other.asked, "contents.1.parts.0.thoughtSignature").Str; to == "gemini" && signed == "" {
					t.Errorf("%s of %s, then Gemini: the call has no signature: %s", client, from, other.asked)
				}
			}
		}
	}
}

// State without a tag comes from a conversation that began elsewhere: it is sent to the model with the requested
// name.
func TestStateWithoutATag(t *testing.T) {
	for model, want := range map[string]bool{"claude-1": true, "claude-2": false} {
		v := &vendor{whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}]}`}
		llm, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-1", BaseURL: "http://claude", Transport: v})
		if err != nil {
			t.Fatal(err)
		}
		m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{{Model: sdk.Model{Name: "large"}, LLM: llm}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		body, err := json.Marshal(map[string]any{"model": model, "max_tokens": 9, "messages": []any{
			map[string]any{"role": "user", "content": "hi"},
			map[string]any{"role": "assistant", "content": []any{map[string]string{"type": "thinking", "thinking": "hm", "signature": "sig"}, map[string]string{"type": "text", "text": "ho"}}},
			map[string]any{"role": "user", "content": "and?"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if w := post(newGateway(t, gateway.Options{Model: m, AnyModel: true}), messagesPath, string(body)); w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if got := strings.Contains(v.asked, `"sig"`); got != want {
			t.Errorf("asked for %s: %s", model, v.asked)
		}
	}
}

// The results of a Claude's web search, and its citations of them, are sent back to that Claude unchanged, whole or
// streamed, and to no other model.
func TestSearchesGoBackToTheirModelOnly(t *testing.T) {
	const (
		use    = `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"cats"}}`
		found  = `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://x","title":"X","encrypted_content":"SECRET-content"}]}`
		cited  = `{"type":"web_search_result_location","url":"https://x","title":"X","encrypted_index":"SECRET-index","cited_text":"c"}`
		text   = `{"type":"text","text":"cats","citations":[{"type":"char_location","cited_text":"c","document_index":0},` + cited + `]}`
		answer = `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":5},"content":[` + use + `,` + found + `,` + text + `]}`
		tools  = `"max_tokens":9,"tools":[{"type":"web_search_20250305","name":"web_search"}]`
	)
	delta := func(index, delta string) string {
		return `{"type":"content_block_delta","index":` + index + `,"delta":` + delta + `}`
	}
	stop := func(index string) string { return `{"type":"content_block_stop","index":` + index + `}` }
	stream := sse(`{"type":"message_start","message":{"id":"a","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":9}}}`,
		`{"type":"content_block_start","index":0,"content_block":`+use+`}`, stop("0"), `{"type":"content_block_start","index":1,"content_block":`+found+`}`, stop("1"),
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}`, delta("2", `{"type":"text_delta","text":"cats"}`),
		delta("2", `{"type":"citations_delta","citation":{"type":"char_location","cited_text":"c","document_index":0}}`), delta("2", `{"type":"citations_delta","citation":`+cited+`}`), stop("2"),
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`)
	first, second := &seen{upstream: upstream{answer, stream}}, &seen{upstream: upstream{answer, stream}}
	var candidates []middleware.Candidate
	for name, up := range map[string]*seen{"first": first, "second": second} {
		llm, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-" + name, BaseURL: "http://" + name, Transport: up})
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, middleware.Candidate{Model: sdk.Model{Name: name, Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm})
	}
	for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
		m, err := middleware.New(middleware.Config{Stream: stream, Models: candidates})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		g := newGateway(t, gateway.Options{Model: m, Models: named("first", "second")})
		for _, isStreamed := range []bool{false, true} {
			w := post(g, messagesPath, fmt.Sprintf(`{"model":"first","stream":%v,%s,"messages":[{"role":"user","content":"hi"}]}`, isStreamed, tools))
			if w.Code != http.StatusOK {
				t.Fatalf("%s: status %d: %s", mode, w.Code, w.Body)
			}
			content := gjson.GetBytes(w.Body.Bytes(), "content").Raw
			if isStreamed {
				content = contentOf(w.Body.String())
			}
			turn := fmt.Sprintf(`%s,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":%s},{"role":"user","content":"and?"}]}`, tools, content)
			post(g, messagesPath, `{"model":"first",`+turn)
			if back := gjson.Get(first.body, "messages.1.content"); !reflect.DeepEqual(back.Value(), gjson.Parse(`[`+use+`,`+found+`,`+text+`]`).Value()) {
				t.Errorf("%s, streamed %v: the first is sent %s", mode, isStreamed, back.Raw)
			}
			w = post(g, messagesPath, `{"model":"second",`+turn)
			if back := gjson.Get(second.body, "messages.1.content").Raw; back != `[{"text":"cats","type":"text"}]` {
				t.Errorf("%s, streamed %v: the second is sent %s", mode, isStreamed, back)
			}
			if got := w.Header().Get("X-Stepfall-Not-Sent"); got != "another model's hosted tools, citations" {
				t.Errorf("%s: not sent %q", mode, got)
			}
		}
	}
}

// A call made by Claude's code names the block of that code. Another Claude gets the call without it, as a call of the
// model's own.
func TestCallersGoBackToTheirModelOnly(t *testing.T) {
	const (
		code   = `{"type":"server_tool_use","id":"srvtoolu_1","name":"code_execution","input":{"code":"look()"}}`
		call   = `{"type":"tool_use","id":"toolu_1","name":"look","input":{},"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}}`
		direct = `{"type":"tool_use","id":"toolu_2","name":"look","input":{},"caller":{"type":"direct"}}`
		answer = `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":5},"content":[` + code + `,` + call + `,` + direct + `]}`
		tools  = `"max_tokens":9,"tools":[{"type":"code_execution_20260120","name":"code_execution"},{"name":"look","input_schema":{"type":"object","properties":{}},"allowed_callers":["code_execution_20260120"]}]`
	)
	stream := sse(`{"type":"message_start","message":{"id":"a","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":9}}}`,
		`{"type":"content_block_start","index":0,"content_block":`+code+`}`, `{"type":"content_block_stop","index":0}`, `{"type":"content_block_start","index":1,"content_block":`+call+`}`, `{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":`+direct+`}`, `{"type":"content_block_stop","index":2}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`)
	first, second := &seen{upstream: upstream{answer, stream}}, &seen{upstream: upstream{answer, stream}}
	var candidates []middleware.Candidate
	for name, up := range map[string]*seen{"first": first, "second": second} {
		llm, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-" + name, BaseURL: "http://" + name, Transport: up})
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, middleware.Candidate{Model: sdk.Model{Name: name, Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm})
	}
	for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
		m, err := middleware.New(middleware.Config{Stream: stream, Models: candidates})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		g := newGateway(t, gateway.Options{Model: m, Models: named("first", "second")})
		for _, isStreamed := range []bool{false, true} {
			w := post(g, messagesPath, fmt.Sprintf(`{"model":"first","stream":%v,%s,"messages":[{"role":"user","content":"hi"}]}`, isStreamed, tools))
			content := gjson.GetBytes(w.Body.Bytes(), "content").Raw
			if isStreamed {
				content = contentOf(w.Body.String())
			}
			turn := fmt.Sprintf(`%s,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":%s},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a"},{"type":"tool_result","tool_use_id":"toolu_2","content":"b"}]}]}`, tools, content)
			post(g, messagesPath, `{"model":"first",`+turn)
			if back := gjson.Get(first.body, "messages.1.content"); !reflect.DeepEqual(back.Value(), gjson.Parse(`[`+code+`,`+call+`,`+direct+`]`).Value()) {
				t.Errorf("%s, streamed %v: the first is sent %s", mode, isStreamed, back.Raw)
			}
			w = post(g, messagesPath, `{"model":"second",`+turn)
			if back, want := gjson.Get(second.body, "messages.1.content"), `[`+strings.Replace(call, `,"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}`, "", 1)+`,`+direct+`]`; !reflect.DeepEqual(back.Value(), gjson.Parse(want).Value()) {
				t.Errorf("%s, streamed %v: the second is sent %s", mode, isStreamed, back.Raw)
			}
			if got := w.Header().Get("X-Stepfall-Not-Sent"); got != "another model's hosted tools" {
				t.Errorf("%s: not sent %q", mode, got)
			}
		}
	}
}

// A signature of Gemini's in the last piece of a text does not split the text, live or held back, and is sent back with
// it. An answer ends with its text, like Claude's, because Claude Code uses the last block as the result. If the text
// has been streamed, the signature is sent back alone, which Gemini accepts.
func TestSignaturesOfTextsSplitNone(t *testing.T) {
	part := func(parts, finish string) string {
		return `{"responseId":"g","modelVersion":"m","candidates":[{"index":0,"content":{"role":"model","parts":[` + parts + `]}` + finish + `}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5}}`
	}
	up := &seen{upstream: upstream{streamed: sse(part(`{"text":"Hel"}`, ""), part(`{"text":"lo","thoughtSignature":"c2ln"}`, `,"finishReason":"STOP"`)), whole: part(`{"text":"Hello","thoughtSignature":"c2ln"}`, `,"finishReason":"STOP"`)}}
	llm, err := provider.New(provider.Options{API: middleware.DialectGemini, Model: "gemini-3-pro", BaseURL: "http://gemini", Transport: streamsByAddress{up}})
	if err != nil {
		t.Fatal(err)
	}
	for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
		m, err := middleware.New(middleware.Config{Lambda: 1, Stream: stream, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m"}, LLM: llm}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		g := newGateway(t, gateway.Options{Model: m, Models: named("m")})
		const first = `"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[{"role":"user","content":"hi"}`
		for _, isStreamed := range []bool{false, true} {
			w := post(g, messagesPath, fmt.Sprintf(`{"stream":%v,%s]}`, isStreamed, first))
			content := gjson.GetBytes(w.Body.Bytes(), "content").Raw
			if isStreamed {
				content = contentOf(w.Body.String())
			}
			blocks := gjson.Parse(content).Array()
			if texts := gjson.Get(content, `#(type=="text")#.text`).Raw; texts != `["Hello"]` || blocks[len(blocks)-1].Get("type").Str != "text" {
				t.Errorf("%s, streamed %v: %s", mode, isStreamed, w.Body)
			}
			post(g, messagesPath, `{`+first+`,{"role":"assistant","content":`+content+`},{"role":"user","content":"and?"}]}`)
			if back := gjson.Get(up.body, "contents.1.parts").Raw; back != `[{"text":"Hello","thoughtSignature":"c2ln"}]` && (mode == "held" || !isStreamed || back != `[{"text":"Hello"}]`) {
				t.Errorf("%s, streamed %v: sent back %s", mode, isStreamed, up.body)
			}
		}
	}
}

// The signature of a call stays with it if a text precedes it. A thought without a signature gets a tag in its place,
// because clients would otherwise send it to any model.
func TestSignaturesOfCallsStayWithThem(t *testing.T) {
	const parts = `[{"text":"hm","thought":true},{"text":"I look"},{"functionCall":{"id":"c1","name":"look","args":{}},"thoughtSignature":"c2ln"}]`
	whole := `{"responseId":"g","modelVersion":"m","candidates":[{"index":0,"content":{"role":"model","parts":` + parts + `},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5}}`
	api := exampleAPI{path: messagesPath, open: func(up http.RoundTripper) (llms.Model, error) {
		return provider.New(provider.Options{API: middleware.DialectGemini, Model: "gemini-3-pro", BaseURL: "http://gemini", Transport: streamsByAddress{up.(*seen)}})
	}}
	piece := func(part, end string) string {
		return `{"responseId":"g","modelVersion":"m","candidates":[{"index":0,"content":{"role":"model","parts":[` + part + `]}` + end + `}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5}}`
	}
	own := gjson.Parse(parts).Array()
	answers := upstream{whole: whole, streamed: sse(piece(`{"text":"h","thought":true}`, ""), piece(`{"text":"m","thought":true}`, ""), piece(own[1].Raw, ""), piece(own[2].Raw, `,"finishReason":"STOP"`))}
	for _, isStreamed := range []bool{false, true} {
		first := fmt.Sprintf(`{"stream":%t,"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2000},"tools":[{"name":"look","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"}`, isStreamed)
		_, w := askExample(t, api, first+`]}`, answers)
		content := gjson.Get(w.body, "content").Raw
		if isStreamed {
			content = contentOf(w.body)
		}
		if signature := gjson.Get(content, "0.signature").Str; !strings.HasPrefix(signature, "stepfall1") {
			t.Errorf("streamed %t: a thought has the signature %q in %s", isStreamed, signature, w.body)
		}
		up, _ := askExample(t, api, first+`,{"role":"assistant","content":`+content+`},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a"}]}]}`, answers)
		if back := gjson.Get(up.body, "contents.1.parts"); !reflect.DeepEqual(back.Value(), gjson.Parse(parts).Value()) {
			t.Errorf("streamed %t: sent back %s", isStreamed, up.body)
		}
	}
}

// streamsByAddress marks requests whose URL requests a stream.
type streamsByAddress struct{ *seen }

func (s streamsByAddress) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "stream") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(strings.NewReader(strings.TrimSuffix(string(body), "}") + `,"stream":true}`))
	}
	return s.seen.RoundTrip(r)
}

// contentOf returns the blocks of a streamed message as official clients assemble them.
func contentOf(stream string) string {
	blocks := []map[string]any{}
	for line := range strings.SplitSeq(stream, "\n") {
		e := gjson.Parse(strings.TrimPrefix(line, "data: "))
		switch e.Get("type").Str + e.Get("delta.type").Str {
		case "content_block_start":
			block, _ := e.Get("content_block").Value().(map[string]any)
			blocks = append(blocks, block)
		case "content_block_deltatext_delta", "content_block_deltathinking_delta", "content_block_deltasignature_delta":
			block, member := blocks[e.Get("index").Int()], strings.TrimSuffix(e.Get("delta.type").Str, "_delta")
			text, _ := block[member].(string)
			block[member] = text + e.Get("delta."+member).Str
		case "content_block_deltacitations_delta":
			block := blocks[e.Get("index").Int()]
			list, _ := block["citations"].([]any)
			block["citations"] = append(list, e.Get("delta.citation").Value())
		}
	}
	raw, err := json.Marshal(blocks)
	if err != nil {
		return ""
	}
	return string(raw)
}

// A streaming client receives the state that it must send back: pieces of one entry are joined, and if a text cannot
// carry its origin, the calls' ids do.
func TestStateIsStreamed(t *testing.T) {
	chunk := func(delta, finish string) string {
		return `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
	}
	up := upstream{streamed: sse(
		chunk(`{"role":"assistant","reasoning_content":"h"}`, "null"), chunk(`{"reasoning_content":"m"}`, "null"),
		chunk(`{"reasoning_details":[{"type":"reasoning.text","text":"he","index":0}]}`, "null"),
		chunk(`{"reasoning_details":[{"type":"reasoning.text","text":"llo","signature":"sig","index":0}]}`, "null"),
		chunk(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"look","arguments":"{}"},"extra_content":{"google":{"thought_signature":"ture"}}}]}`, "null"),
		chunk(`{}`, `"tool_calls"`), "[DONE]"),
		whole: `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"reasoning_content":"hm",
			"reasoning_details":[{"type":"reasoning.text","text":"hello","signature":"sig","index":0}],
			"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"},"extra_content":{"google":{"thought_signature":"ture"}}}]}}]}`}
	llm, err := provider.New(provider.Options{Model: "m", BaseURL: "http://upstream/v1", Transport: up})
	if err != nil {
		t.Fatal(err)
	}
	for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
		m, err := middleware.New(middleware.Config{Stream: stream, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		w := post(newGateway(t, gateway.Options{Model: m}), chatPath, `{"stream":true,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"look"}}]}`)
		got := w.Body.String()
		if n := len(tag.FindAllString(got, -1)); n != 3 { // of the call, the entry and the signature
			t.Errorf("%s: %d tags in\n%s", mode, n, got)
		}
		got = tag.ReplaceAllString(got, "")
		for _, want := range []string{`"id":"c1"`, `"text":"hello"`, `"signature":"sig"`, `{"index":0,"function":{"arguments":""},"extra_content":{"google":{"thought_signature":"ture"}}}`} {
			if strings.Count(got, want) != 1 {
				t.Errorf("%s: %s is not there once in\n%s", mode, want, got)
			}
		}
	}
}

// Servers use two names for reasoning: a client gets it only under the name that its server used. LiteLLM and
// openai-agents treat both together as two thoughts.
func TestReasoningKeepsItsName(t *testing.T) {
	up := upstream{
		whole: `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"ok","reasoning":"I think."}}]}`,
		streamed: sse(`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","reasoning":"I "},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"reasoning":"think."},"finish_reason":null}]}`,
			`{"id":"c","choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]"),
	}
	llm, err := provider.New(provider.Options{Model: "m", BaseURL: "http://upstream/v1", Transport: up})
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []middleware.StreamMode{middleware.Buffer, middleware.Passthrough} {
		m, err := middleware.New(middleware.Config{Stream: mode, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m"}, LLM: llm}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		g := newGateway(t, gateway.Options{Model: m})
		for _, stream := range []bool{false, true} {
			w := post(g, chatPath, fmt.Sprintf(`{"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, stream))
			for _, name := range []string{"reasoning", "reasoning_content"} {
				want := map[string]string{"reasoning": "I think."}[name]
				got := gjson.Get(w.Body.String(), "choices.0.message."+name).Str
				for event := range strings.SplitSeq(w.Body.String(), "\n\n") {
					got += gjson.Get(strings.TrimPrefix(event, "data: "), "choices.0.delta."+name).Str
				}
				if got != want {
					t.Errorf("%s, stream %t: %s is %q in\n%s", mode, stream, name, got, w.Body)
				}
			}
			if w := post(g, messagesPath, fmt.Sprintf(`{"stream":%t,"max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`, stream)); w.Header().Get("X-Stepfall-Not-Sent") != "" || !strings.Contains(w.Body.String(), `"ok"`) {
				t.Errorf("%s, stream %t: Messages get %v\n%s", mode, stream, w.Header(), w.Body)
			}
		}
	}
}

// An answer that its server reports as unfinished is rejected: the next model is called.
func TestUnfinishedAnswersEscalate(t *testing.T) {
	large, err := provider.New(provider.Options{Model: "m", BaseURL: "http://large/v1", Transport: canned{"application/json", `{"id":"c","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"whole"}}]}`}})
	if err != nil {
		t.Fatal(err)
	}
	responses := func(status string) string {
		return `{"id":"r","object":"response","status":"` + status + `","model":"m","incomplete_details":null,"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"part"}]}]}`
	}
	gemini := func(reason string) string {
		return `{"responseId":"g","candidates":[{"index":0,"finishReason":"` + reason + `","content":{"role":"model","parts":[{"text":"part"}]}}]}`
	}
	for name, c := range map[string]struct {
		api   middleware.Dialect
		whole string
	}{
		"cancelled":   {middleware.DialectResponses, responses("cancelled")},
		"in progress": {middleware.DialectResponses, responses("in_progress")},
		"incomplete":  {middleware.DialectResponses, responses("incomplete")},
		"language":    {middleware.DialectGemini, gemini("LANGUAGE")},
		"malformed":   {middleware.DialectGemini, gemini("MALFORMED_RESPONSE")},
		"aborted":     {middleware.DialectChat, `{"id":"c","choices":[{"index":0,"finish_reason":"abort","message":{"role":"assistant","content":"part"}}]}`},
		"unloaded":    {middleware.DialectOllama, `{"model":"m","message":{"role":"assistant","content":"part"},"done":true,"done_reason":"unload"}`},
	} {
		small, err := provider.New(provider.Options{API: c.api, Model: "m", BaseURL: "http://small/v1", Transport: canned{"application/json", c.whole}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{{Model: sdk.Model{Name: "small"}, LLM: small}, {Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 1}}, LLM: large}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if w := post(newGateway(t, gateway.Options{Model: m}), chatPath, `{"messages":[{"role":"user","content":"hi"}]}`); gjson.Get(w.Body.String(), "choices.0.message.content").Str != "whole" {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}

// If a model rejects the request of an escalation, in whatever form, the rejected draft is not returned in its place.
func TestRefusedEscalationsAreErrors(t *testing.T) {
	small, err := provider.New(provider.Options{Model: "m", BaseURL: "http://small/v1", Transport: canned{"application/json", `{"id":"c","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"at\":5}"}}]}}]}`}})
	if err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]int{
		`{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"bad schema"}}}`:         http.StatusBadGateway,
		`{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 9."}}`: http.StatusBadGateway,
		`{"error":{"code":503,"message":"Provider returned error"}}`:                                         http.StatusOK, // the draft is the best there is
	} {
		large, err := provider.New(provider.Options{Model: "m", BaseURL: "http://large/v1", Transport: canned{"application/json", said}})
		if err != nil {
			t.Fatal(err)
		}
		able := sdk.Capabilities{Tools: true}
		m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{{Model: sdk.Model{Name: "small", Capabilities: able}, LLM: small}, {Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 1}, Capabilities: able}, LLM: large}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		w := post(newGateway(t, gateway.Options{Model: m}), chatPath, `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}}}]}`)
		if w.Code != want {
			t.Errorf("%s: status %d: %s", said, w.Code, w.Body)
		}
	}
}

// An Ollama model's reasoning before a call is tagged in a live stream too, so that it is sent back to that
// model.
func TestStreamedThoughtsOfOllamaComeBack(t *testing.T) {
	llm, err := provider.New(provider.Options{API: middleware.DialectOllama, Model: "m", BaseURL: "http://ollama", Transport: canned{"application/x-ndjson", `{"model":"m","message":{"role":"assistant","thinking":"a plan"},"done":false}
{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"look","arguments":{}}}]},"done":false}
{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}
`}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{Stream: middleware.Passthrough, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := newGateway(t, gateway.Options{Model: m})
	for path, body := range map[string]string{
		messagesPath:  `{"stream":true,"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`,
		responsesPath: `{"stream":true,"store":false,"include":["reasoning.encrypted_content"],"input":"hi","tools":[{"type":"function","name":"look","parameters":{"type":"object"}}]}`,
	} {
		if w := post(g, path, body); !strings.Contains(w.Body.String(), "stepfall1") {
			t.Errorf("%s: nothing is tagged in\n%s", path, w.Body)
		}
	}
}

// A key that arrives in pieces of reasoning is removed from what a client gets.
func TestStreamedReasoningHasNoSecrets(t *testing.T) {
	const key = "sk-proj-0123456789abcdef"
	up := upstream{streamed: sse(`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","reasoning":"it is sk-proj-01"},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"reasoning":"23456789abcdef."},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]")}
	llm, err := provider.New(provider.Options{Model: "m", BaseURL: "http://upstream/v1", Transport: up})
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{Stream: middleware.Passthrough, Redact: redact.New(key), Models: []middleware.Candidate{{Model: sdk.Model{Name: "m"}, LLM: llm}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	w := post(newGateway(t, gateway.Options{Model: m}), chatPath, `{"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	got := ""
	for event := range strings.SplitSeq(w.Body.String(), "\n\n") {
		got += gjson.Get(strings.TrimPrefix(event, "data: "), "choices.0.delta.reasoning").Str
	}
	if got != "it is "+redact.Mark+"." {
		t.Errorf("the reasoning is %q", got)
	}
}
