package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider/anthropic"
	"github.com/stepfall/stepfall/adapters/provider/openai"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// What nobody here knows of a message, a part or what is within one goes from a client to a
// model of the same API, and from the model to the client.
func TestUnknownMembersSurvive(t *testing.T) {
	const (
		chatCall = `"tool_calls":[{"index":0,"id":"c1","type":"function","novel_call":1,"function":{"name":"look","arguments":"{}","novel_inner":1}}]`
		chatEnd  = `"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
		tool     = `{"type":"tool_use","id":"t1","name":"look","input":{},"caller":{"type":"direct"}}`
		started  = `{"type":"message_start","message":{"id":"a","type":"message","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`
	)
	for name, tt := range map[string]struct {
		path string
		up   upstream
		open func(http.RoundTripper) (llms.Model, error)
		body string   // %v is whether it streams
		sent []string // to the model, once each
		got  []string // by the client
	}{
		"chat": {
			chatPath, upstream{
				whole: `{"id":"a","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi","annotations":[{"type":"url_citation"}]},` + chatEnd,
				streamed: sse(`{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"}}]}`,
					`{"id":"a","choices":[{"index":0,"delta":{"annotations":[{"type":"url_citation"}]}}]}`, `{"id":"a","choices":[{"index":0,"delta":{},`+chatEnd, "[DONE]"),
			},
			func(up http.RoundTripper) (llms.Model, error) {
				return openai.New(openai.Options{Model: "m", BaseURL: "http://upstream/v1", Transport: up})
			},
			`{"stream":%v,"messages":[{"role":"system","content":"be","novel_system":1},
				{"role":"user","content":[{"type":"text","text":"a","novel_text":{"x":[1]}},{"type":"image_url","image_url":{"url":"https://example.com/a.png","novel_url":2},"novel_image":1}]},
				{"role":"assistant","content":[{"type":"text","text":"b","novel_said":1}],"novel_message":1,` + chatCall + `},
				{"role":"tool","tool_call_id":"c1","content":"done","novel_result":1}]}`,
			[]string{`"novel_system":1`, `"novel_text":{"x":[1]}`, `"novel_url":2`, `"novel_image":1`, `"novel_said":1`, `"novel_message":1`, `"novel_call":1`, `"novel_inner":1`, `"novel_result":1`},
			[]string{`"annotations":[{"type":"url_citation"}]`},
		},
		"Messages": {
			messagesPath, upstream{
				whole: `{"id":"a","type":"message","role":"assistant","stop_reason":"tool_use","content":[` + tool + `],"usage":{"input_tokens":1,"output_tokens":1}}`,
				streamed: sse(started, `{"type":"content_block_start","index":0,"content_block":`+tool+`}`, `{"type":"content_block_stop","index":0}`,
					`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`),
			},
			func(up http.RoundTripper) (llms.Model, error) {
				return anthropic.New(anthropic.Options{Model: "m", BaseURL: "http://upstream", Transport: up})
			},
			`{"stream":%v,"max_tokens":9,"tools":[{"name":"look","input_schema":{"type":"object"}}],"messages":[
				{"role":"user","content":[{"type":"text","text":"a","novel_text":{"x":[1]}},{"type":"image","source":{"type":"url","url":"https://example.com/a.png","novel_source":1},"novel_image":1}]},
				{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"look","input":{},"caller":{"type":"direct"}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"done","novel_done":1}],"novel_result":1,"cache_control":{"type":"ephemeral","scope":"global"}}]}]}`,
			[]string{`"novel_text":{"x":[1]}`, `"novel_source":1`, `"novel_image":1`, `"caller":{"type":"direct"}`, `"novel_done":1`, `"novel_result":1`, `"scope":"global"`},
			[]string{`"caller":{"type":"direct"}`},
		},
		"Responses": {
			responsesPath, upstream{
				whole:    `{"id":"r","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","phase":"final","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}]}`,
				streamed: "",
			},
			func(up http.RoundTripper) (llms.Model, error) {
				return openai.New(openai.Options{Model: "m", API: middleware.DialectResponses, BaseURL: "http://upstream/v1", Transport: up})
			},
			`{"stream":%v,"input":[{"role":"user","content":[{"type":"input_text","text":"a","novel_text":{"x":[1]}}],"novel_item":1},
				{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"b","annotations":[]}]},
				{"type":"function_call","call_id":"c1","name":"look","arguments":"{}","novel_call":1},{"type":"function_call_output","call_id":"c1","output":"done","novel_result":1}]}`,
			[]string{`"novel_text":{"x":[1]}`, `"novel_item":1`, `"phase":"commentary"`, `"novel_call":1`, `"novel_result":1`},
			[]string{`"phase":"final"`},
		},
	} {
		for _, streamed := range []bool{false, true} {
			if streamed && tt.up.streamed == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v", name, streamed), func(t *testing.T) {
				up := &seen{upstream: tt.up}
				llm, err := tt.open(up)
				if err != nil {
					t.Fatal(err)
				}
				m, err := middleware.New(middleware.Config{Lambda: 1, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Tools: true, Images: true}}, LLM: llm}}})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				w := post(newGateway(t, gateway.Options{Model: m}), tt.path, fmt.Sprintf(tt.body, streamed))
				if w.Code != http.StatusOK {
					t.Fatalf("status %d: %s; sent %s", w.Code, w.Body, up.body)
				}
				for _, want := range tt.sent {
					if strings.Count(up.body, want) != 1 {
						t.Errorf("%s is there %d times in what was sent: %s", want, strings.Count(up.body, want), up.body)
					}
				}
				for _, want := range tt.got {
					if !strings.Contains(w.Body.String(), want) {
						t.Errorf("%s is not in the answer: %s", want, w.Body)
					}
				}
			})
		}
	}
}
