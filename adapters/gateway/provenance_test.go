package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
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

// vendor is an upstream that answers each request with a call of a tool, in its own API,
// with state that only it may see again.
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

// What a model signed goes back to it through the clients of all dialects,
// and to no other model; a turn of another model within a loop of tool calls does not
// make Claude refuse.
func TestStateGoesBackToItsModelOnly(t *testing.T) {
	vendors := map[string]*vendor{
		"claude": {whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":5},
			"content":[{"type":"thinking","thinking":"hm","signature":"SECRET-claude"},{"type":"tool_use","id":"c1","name":"look","input":{}}]}`},
		"gpt": {whole: `{"id":"r","object":"response","status":"completed","model":"m","usage":{"input_tokens":9,"output_tokens":5},"output":[
			{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"SECRET-gpt"},{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}]}`},
		"deepseek": {whole: `{"id":"c","object":"chat.completion","model":"m","usage":{"prompt_tokens":9,"completion_tokens":5},"choices":[{"index":0,"finish_reason":"tool_calls",
			"message":{"role":"assistant","content":"","reasoning_content":"SECRET-deepseek","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}`},
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
			llm, err = provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-1", BaseURL: "http://claude", Transport: v})
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
		return []string{"claude", "gpt", "deepseek", "openrouter", "compat", "gemini"}
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
				if strings.Contains(other.asked, "stepfall1") {
					t.Errorf("%s of %s, then %s: a tag was sent: %s", client, from, to, other.asked)
				}
				if named := strings.Contains(w.Header().Get(gateway.HeaderNotSent), "another model's reasoning"); named != (from != to) {
					t.Errorf("%s of %s, then %s: not sent: %q", client, from, to, w.Header().Get(gateway.HeaderNotSent))
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

// State without a tag comes from a conversation that began elsewhere: it goes to the
// model that has the name which was asked for.
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

// A client that streams has what it sends back for the model as well: pieces of one
// entry are one, and where a text has no place for whose it is, the calls' ids say so.
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
