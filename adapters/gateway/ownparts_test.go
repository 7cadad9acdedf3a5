package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// upstream answers a plain request with one text and a streamed one with another.
type upstream struct{ whole, streamed string }

func (u upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(body), `"stream":true`) {
		return canned{"text/event-stream", u.streamed}.RoundTrip(r)
	}
	return canned{"application/json", u.whole}.RoundTrip(r)
}

func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

// Parts of an answer that only its API has reach a client of that API once, whole or streamed, live or not: reasoning
// with what a later turn needs, results of the provider's own tools, and the text at its place.
func TestOwnPartsOfProviders(t *testing.T) {
	const (
		thinking = `{"type":"thinking","thinking":"hm","signature":"sig"}`
		redacted = `{"type":"redacted_thinking","data":"secret"}`
		search   = `{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"x"}}`
		cited    = `{"type":"text","text":"A fact.","citations":[{"type":"web_search_result_location","url":"http://x"}]}`
		usage    = `"usage":{"input_tokens":9,"output_tokens":5}`

		reasoning = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"sealed"}`
		hunt      = `{"id":"ws_1","type":"web_search_call","status":"completed"}`
		message   = `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"A fact.","annotations":[{"type":"url_citation","url":"http://y"}]}]}`
		declined  = `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"refusal","refusal":"Not that."}]}`
	)
	block := func(i int, start, delta string) string {
		return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, start) +
			fmt.Sprintf("\n\ndata: {\"type\":\"content_block_delta\",\"index\":%d,\"delta\":%s}", i, delta) +
			fmt.Sprintf("\n\ndata: {\"type\":\"content_block_stop\",\"index\":%d}", i)
	}
	response := func(items ...string) string {
		return `{"id":"r","object":"response","status":"completed","model":"m","output":[` + strings.Join(items, ",") + `],` + usage + `}`
	}
	done := func(i int, item string) string {
		return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, i, item)
	}
	claude, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "m", BaseURL: "http://upstream", Transport: upstream{
		whole: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[` + strings.Join([]string{thinking, redacted, `{"type":"text","text":"I look. "}`, search, cited}, ",") + `],` + usage + `}`,
		streamed: sse(`{"type":"message_start","message":{"id":"a","type":"message","role":"assistant","model":"m","content":[],`+usage+`}}`,
			block(0, `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"hm"}`+"}\n\ndata: "+`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}`),
			block(1, redacted, `{"type":"none"}`), block(2, `{"type":"text","text":""}`, `{"type":"text_delta","text":"I look. "}`),
			block(3, `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`),
			block(4, `{"type":"text","text":"","citations":[]}`, `{"type":"text_delta","text":"A fact."}`+"}\n\ndata: "+`{"type":"content_block_delta","index":4,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"http://x"}}`),
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	gpt := func(last string, said ...string) llms.Model {
		events := append([]string{`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"hm"}`, done(0, reasoning), done(1, hunt)}, said...)
		m, err := provider.New(provider.Options{Model: "m", API: middleware.DialectResponses, BaseURL: "http://upstream/v1", Transport: upstream{
			whole:    response(reasoning, hunt, last),
			streamed: sse(append(events, done(2, last), `{"type":"response.completed","response":`+response(reasoning, hunt, last)+`}`)...),
		}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	text := gpt(message, `{"type":"response.output_text.delta","output_index":2,"delta":"A fact."}`)
	refusal := gpt(declined, `{"type":"response.refusal.delta","output_index":2,"delta":"Not that."}`)

	for name, tt := range map[string]struct {
		llm  llms.Model
		path string
		// want are the parts of the answer, in order, once each.
		want []string
	}{
		"Anthropic": {claude, messagesPath, []string{`"hm"`, `"sig"`, `"secret"`, `"I look. "`, `"server_tool_use"`, `"A fact."`, `"http://x"`}},
		"Responses": {text, responsesPath, []string{`"sealed"`, `"web_search_call"`, `"A fact."`, `"http://y"`}},
		"refusal":   {refusal, responsesPath, []string{`"sealed"`, `"web_search_call"`, `"Not that."`}},
		// A client of another API gets the reasoning and the text.
		"Anthropic to Responses": {claude, responsesPath, []string{`"hm"`, `"I look. A fact."`}},
		"Responses to Anthropic": {text, messagesPath, []string{`"hm"`, `"A fact."`}},
	} {
		for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
			m, err := middleware.New(middleware.Config{Stream: stream, Lambda: 1, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m"}, LLM: tt.llm}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, streamed := range []bool{false, true} {
				ask := fmt.Sprintf(strings.ReplaceAll(question[tt.path], `"message.output_text.logprobs"`, `"reasoning.encrypted_content"`), streamed)
				w := post(newGateway(t, gateway.Options{Model: m}), tt.path, ask)
				if w.Code != http.StatusOK {
					t.Fatalf("%s, %s: status %d: %s", name, mode, w.Code, w.Body)
				}
				got := tag.ReplaceAllString(said(w.Body.String()), "")
				at := 0
				for _, want := range tt.want {
					where := strings.Index(got, want)
					if strings.Count(got, want) != 1 || where < at {
						t.Errorf("%s, %s, streamed %v: %s is there %d times, at %d after %d, in\n%s", name, mode, streamed, want, strings.Count(got, want), where, at, got)
					}
					at = max(at, where)
				}
			}
			m.Close()
		}
	}
}

// tag matches the origin in an opaque text of a model.
var tag = regexp.MustCompile("stepfall1[a-z2-7]{12}o")

// said returns the content of an answer; for a stream of Responses, that of the final response.
func said(body string) string {
	if _, last, ok := strings.Cut(body, "event: response.completed\n"); ok {
		return last
	}
	return body
}

// seen is an upstream that records its requests.
type seen struct {
	upstream
	header http.Header
	body   string
}

func (u *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	u.header, u.body = r.Header, string(body)
	r.Body = io.NopCloser(strings.NewReader(u.body))
	return u.upstream.RoundTrip(r)
}

// Some fields need a header: the requested beta features reach Anthropic's
// models.
func TestBetasReachAnthropic(t *testing.T) {
	up := &seen{upstream: upstream{whole: `{"id":"a","type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"hi"}]}`}}
	claude, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "m", BaseURL: "http://upstream", Transport: up})
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{Lambda: 1, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m"}, LLM: claude}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := newGateway(t, gateway.Options{Model: m})
	const body = `{"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "context_management": {"edits": []}}`
	if w := post(g, messagesPath, body, "Anthropic-Beta", "context-management-2025-06-27, files-api-2025-04-14"); w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := strings.Join(up.header.Values("Anthropic-Beta"), " "); got != "context-management-2025-06-27,files-api-2025-04-14" {
		t.Errorf("the header is %q", got)
	}
	if !strings.Contains(up.body, `"context_management":`) || strings.Contains(up.body, "anthropic_beta") {
		t.Errorf("sent %s", up.body)
	}
	if w := post(g, messagesPath, body); w.Code != http.StatusOK || up.header.Values("Anthropic-Beta") != nil {
		t.Errorf("status %d, header %v", w.Code, up.header)
	}
}

// A call of one of the API's own tools is an answer, whole and streamed: no other model is called
// for it.
func TestCustomCallsAreAnswers(t *testing.T) {
	const call = `{"id":"ctc_1","type":"custom_tool_call","status":"completed","call_id":"c1","name":"apply_patch","input":"*** Begin \"Patch\""}`
	const response = `{"id":"r","object":"response","status":"completed","model":"m","output":[` + call + `],"usage":{"input_tokens":5,"output_tokens":5}}`
	first, err := provider.New(provider.Options{Model: "m", API: middleware.DialectResponses, BaseURL: "http://upstream/v1", Transport: upstream{
		whole: response, streamed: sse(`{"type":"response.output_item.done","output_index":0,"item":`+call+`}`, `{"type":"response.completed","response":`+response+`}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	second := says(llms.ContentChoice{Content: "prose"})
	able := sdk.Capabilities{Tools: true}
	m, err := middleware.New(middleware.Config{Lambda: 1, Models: []middleware.Candidate{
		{Model: sdk.Model{Name: "small", Capabilities: able}, LLM: first}, {Model: sdk.Model{Name: "large", Price: sdk.Price{Output: 1}, Capabilities: able}, LLM: second}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := newGateway(t, gateway.Options{Model: m})
	for _, streamed := range []bool{false, true} {
		w := post(g, responsesPath, fmt.Sprintf(`{"model":"stepfall","stream":%t,"input":"fix it","tools":[{"type":"custom","name":"apply_patch"}]}`, streamed))
		if got := said(w.Body.String()); second.messages != nil || !strings.Contains(got, call) {
			t.Errorf("streamed %t: %s; the second was asked %v", streamed, got, second.messages)
		}
	}
}
