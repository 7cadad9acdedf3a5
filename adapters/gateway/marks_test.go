package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
)

// Clients of OpenAI's APIs mark what Claude should cache as OpenRouter and LiteLLM document it. Claude gets these marks
// and no others, and a vendor that rejects them gets none.
func TestCacheMarksOfOtherAPIs(t *testing.T) {
	const mark = `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	claude, gpt := exampleAPIs["Messages"], exampleAPIs["chat"]
	gpt.open = func(up http.RoundTripper) (llms.Model, error) {
		return provider.New(provider.Options{Model: "gpt-4.1", Transport: up})
	}
	responses := exampleAPIs["Responses"]
	responses.open = func(up http.RoundTripper) (llms.Model, error) {
		return provider.New(provider.Options{Model: "gpt-4.1", API: middleware.DialectResponses, Transport: up})
	}
	for name, tt := range map[string]struct {
		path, request, want string
		refuses             exampleAPI // rejects the marks
	}{
		"parts": {chatPath, `{"messages":[{"role":"system","content":[{"type":"text","text":"be",` + mark + `},{"type":"text","text":"kind"}]},
			{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"https://x/y.png"},` + mark + `}]}]}`,
			"system.0 messages.0.content.1", gpt},
		"messages": {chatPath, `{"messages":[{"role":"system","content":"be",` + mark + `},{"role":"user","content":"hi"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c1","content":"done",` + mark + `}],"tools":[{"type":"function","function":{"name":"look"}}]}`,
			"system.0 messages.2.content.0", gpt},
		"a result's text": {chatPath, `{"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"done",` + mark + `}]}]}`,
			"messages.2.content.0.content.0", gpt},
		"tools": {chatPath, `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"look"},` + mark + `},
			{"type":"function","function":{"name":"go",` + mark + `}},{"type":"function","function":{"name":"stay"}}]}`, "tools.0 tools.1", gpt},
		"the request": {chatPath, `{` + mark + `,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"look"}}]}`, ".", gpt},
		"Responses": {responsesPath, `{"input":[{"role":"developer","content":[{"type":"input_text","text":"be",` + mark + `}]},{"role":"user","content":"hi",` + mark + `}],
			"tools":[{"type":"function","name":"look","parameters":{"type":"object","properties":{}},` + mark + `}]}`, "tools.0 system.0 messages.0.content.0", responses},
	} {
		t.Run(name, func(t *testing.T) {
			claude.path, tt.refuses.path = tt.path, tt.path
			up, w := askExample(t, claude, tt.request, upstream{whole: claude.answer})
			if got := strings.Join(marksIn(up.body), " "); w.code != http.StatusOK || got != tt.want || w.header.Get("X-Stepfall-Not-Sent") != "" {
				t.Errorf("marks at %q, want %q; not sent: %q; status %d; Claude is sent %s", got, tt.want, w.header.Get("X-Stepfall-Not-Sent"), w.code, up.body)
			}
			up, w = askExample(t, tt.refuses, tt.request, upstream{whole: tt.refuses.answer})
			if w.code != http.StatusOK || strings.Contains(up.body, "cache_control") || w.header.Get("X-Stepfall-Not-Sent") != "cache_control" {
				t.Errorf("not sent: %q; status %d; GPT is sent %s", w.header.Get("X-Stepfall-Not-Sent"), w.code, up.body)
			}
		})
	}
}

// marksIn returns the paths of the objects with a cache mark of an hour in a request of Messages.
func marksIn(body string) (paths []string) {
	var look func(path string, v gjson.Result)
	look = func(path string, v gjson.Result) {
		if v.Get("cache_control.ttl").Str == "1h" {
			paths = append(paths, strings.TrimPrefix(path, "."))
		}
		v.ForEach(func(name, v gjson.Result) bool {
			if v.IsObject() || v.IsArray() {
				look(path+"."+name.String(), v)
			}
			return true
		})
	}
	root := gjson.Parse(body)
	if root.Get("cache_control").Exists() {
		paths = append(paths, ".")
	}
	for _, member := range []string{"tools", "system", "messages"} {
		for i, element := range root.Get(member).Array() {
			look(member+"."+string(rune('0'+i)), element)
		}
	}
	return slices.Clip(paths)
}

// Members of messages that only another vendor of chat completions has do not reach OpenAI, which rejects them.
func TestMessageMembersOfOtherVendors(t *testing.T) {
	gpt := exampleAPIs["chat"]
	gpt.open = func(up http.RoundTripper) (llms.Model, error) {
		return provider.New(provider.Options{Model: "gpt-4.1", Transport: up})
	}
	up, w := askExample(t, gpt, `{"messages":[{"role":"user","content":"hi","prefix":false},{"role":"assistant","refusal":"no","annotations":[{"type":"url_citation"}]},
		{"role":"user","name":"ann","content":"go on","prefix":false}]}`, upstream{whole: gpt.answer})
	const want = `[{"content":"hi","role":"user"},{"annotations":[{"type":"url_citation"}],"content":"no","refusal":"no","role":"assistant"},{"content":"go on","name":"ann","role":"user"}]`
	if got := gjson.Get(up.body, "messages").Raw; w.code != http.StatusOK || got != want || w.header.Get("X-Stepfall-Not-Sent") != "prefix" {
		t.Errorf("sent %s, want %s; not sent: %q; status %d: %s", got, want, w.header.Get("X-Stepfall-Not-Sent"), w.code, w.body)
	}
}
