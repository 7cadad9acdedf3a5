package provider_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
)

// picky is a server that rejects requests by refuse, and counts them.
type picky struct {
	refuse func(body map[string]any) string // the error as JSON, or ""
	answer string                           // "" is one of chat completions
	bodies []map[string]any
}

func (p *picky) RoundTrip(req *http.Request) (*http.Response, error) {
	var body map[string]any
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, err
	}
	p.bodies = append(p.bodies, body)
	status, said := http.StatusOK, `{"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}`
	said = cmp.Or(p.answer, said)
	if refused := p.refuse(body); refused != "" {
		status, said = http.StatusBadRequest, `{"error": `+refused+`}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(said)), Request: req}, nil
}

// A tenant's faulty request changes nothing for other tenants. A parameter that the model does not support is not sent
// to it for an hour, which is reported.
func TestOnlyUnsupportedParametersAreLearned(t *testing.T) {
	refusal := func(code, param, message string) string {
		return fmt.Sprintf(`{"type": "invalid_request_error", "code": %q, "param": %q, "message": %q}`, code, param, message)
	}
	for what, c := range map[string]struct {
		refusal    string
		first      float64 // the first tenant's temperature
		answered   bool    // the first tenant is answered
		taught     string
		other      float64
		otherKeeps bool
	}{
		"out of range":          {refusal("decimal_above_max_value", "temperature", "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 7 instead."), 7, false, "", 0.5, true},
		"no code":               {refusal("", "temperature", "'temperature' must be at most 2"), 7, false, "", 0.5, true},
		"another parameter":     {refusal("unsupported_parameter", "messages[0].audio", "'temperature' is fine"), 7, false, "", 0.5, true},
		"not supported":         {refusal("unsupported_parameter", "temperature", "Unsupported parameter: 'temperature' is not supported with this model."), 7, true, "temperature", 0.5, false},
		"in words":              {refusal("", "temperature", "Unsupported parameter: 'temperature' is not supported with this model."), 7, true, "temperature", 0.5, false},
		"only the default":      {refusal("unsupported_value", "temperature", "Unsupported value: 'temperature' does not support 7 with this model. Only the default (1) value is supported."), 7, true, "temperature", 0.5, false},
		"one value unsupported": {refusal("unsupported_value", "temperature", "Unsupported value: 'temperature' does not support 7 with this model."), 7, true, "temperature=7", 0.5, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &picky{}
			m, err := provider.New(provider.Options{Model: "m", Transport: server})
			if err != nil {
				t.Fatal(err)
			}
			ask := func(tenant string, temperature float64) (sent []any, err error) {
				from := len(server.bodies)
				ctx := middleware.WithInfo(t.Context(), middleware.Info{Tenant: tenant})
				_, err = m.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")}, llms.WithTemperature(temperature))
				for _, body := range server.bodies[from:] {
					sent = append(sent, body["temperature"])
				}
				return sent, err
			}
			server.refuse = func(body map[string]any) string {
				if body["temperature"] == c.first {
					return c.refusal
				}
				return ""
			}
			if _, err := ask("one", c.first); (err == nil) != c.answered {
				t.Errorf("%s: %v", what, err)
			}
			taught := ""
			for _, fact := range m.(interface {
				Unsupported() []middleware.Unsupported
			}).Unsupported() {
				taught = fact.Parameter
				if fact.Value != "" {
					taught += "=" + fact.Value
				}
			}
			if taught != c.taught {
				t.Errorf("%s: taught %q, want %q", what, taught, c.taught)
			}
			sent, err := ask("two", c.other)
			if err != nil || len(sent) != 1 || (sent[0] == c.other) != c.otherKeeps {
				t.Errorf("%s: the other tenant's request had %v (%v)", what, sent, err)
			}
			if sent, _ := ask("one", c.first); c.answered && (len(sent) != 1 || sent[0] != nil) {
				t.Errorf("%s: asked again with %v", what, sent)
			}
			time.Sleep(time.Hour)
			if sent, _ := ask("two", c.other); len(sent) != 1 || sent[0] != c.other || len(m.(interface {
				Unsupported() []middleware.Unsupported
			}).Unsupported()) != 0 {
				t.Errorf("%s: an hour later %v is sent", what, sent)
			}
		})
	}
}

// Parameters added by the provider itself are left out if the server rejects them, with whatever error code.
func TestOwnParametersAreLeftOut(t *testing.T) {
	server := &picky{refuse: func(body map[string]any) string {
		if body["logprobs"] != nil || body["stream_options"] != nil {
			return `{"message": "Unknown fields: logprobs, top_logprobs, stream_options"}`
		}
		return ""
	}}
	m, err := provider.New(provider.Options{Model: "m", Transport: server, TopLogProbs: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range [][]llms.CallOption{nil, {llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })}} {
		if _, err := m.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")}, options...); err != nil {
			t.Error(err)
		}
	}
	if facts := m.(interface {
		Unsupported() []middleware.Unsupported
	}).Unsupported(); len(facts) > 0 {
		t.Errorf("learned %+v of a refusal without a code", facts)
	}
}

// Unsupported parameters of Responses are known by their paths.
func TestUnsupportedParametersHavePaths(t *testing.T) {
	server := &picky{refuse: func(body map[string]any) string {
		if text, _ := body["text"].(map[string]any); text["verbosity"] != nil {
			return `{"code": "unsupported_value", "param": "text.verbosity", "message": "Unsupported value: 'low' is not supported with the 'm' model. Supported values are: 'medium'."}`
		}
		return ""
	}, answer: `{"id":"r","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}]}`}
	m, err := provider.New(provider.Options{API: middleware.DialectResponses, Model: "m", Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 1} { // requests
		server.bodies = nil
		resp, err := m.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")}, middleware.WithParams(middleware.Params{Verbosity: "low"}))
		if err != nil {
			t.Fatal(err)
		}
		if notSent := middleware.ExtraOf(resp.Choices[0]).NotSent; len(server.bodies) != want || server.bodies[want-1]["text"] != nil || !slices.Equal(notSent, []string{"Verbosity"}) {
			t.Errorf("asked with %v, not sent %q", server.bodies, notSent)
		}
	}
}

// A member that a vendor does not know is left out of further requests to the same model: it was passed through
// unread, and a model called in its place would not get it either.
func TestUnknownMembersAreLeftOut(t *testing.T) {
	type refusal func(names []string) string
	for api, refusals := range map[middleware.Dialect]map[string]refusal{
		middleware.DialectChat: {
			"OpenAI": func(names []string) string {
				return fmt.Sprintf(`{"error":{"message":"Unrecognized request arguments supplied: %s","type":"invalid_request_error","param":null,"code":null}}`, strings.Join(names, ", "))
			},
			"Mistral": func(names []string) string {
				return fmt.Sprintf(`{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body",%q],"msg":"Extra inputs are not permitted","input":{"x":1}}]},"type":"invalid_request_error","param":null,"code":null}`, names[0])
			},
			"FastAPI": func(names []string) string {
				return fmt.Sprintf(`{"detail":[{"type":"extra_forbidden","loc":["body",%q],"msg":"Extra inputs are not permitted","input":true}]}`, names[0])
			},
			"Groq": func(names []string) string {
				return fmt.Sprintf(`{"error":{"message":"property '%s' is unsupported","type":"invalid_request_error"}}`, names[0])
			},
		},
		middleware.DialectResponses: {"Responses": func(names []string) string {
			return fmt.Sprintf(`{"error":{"message":"Unknown parameter: '%s'.","type":"invalid_request_error","param":%[1]q,"code":"unknown_parameter"}}`, names[0])
		}},
		middleware.DialectAnthropic: {"Anthropic": func(names []string) string {
			return fmt.Sprintf(`{"type":"error","error":{"type":"invalid_request_error","message":"%s: Extra inputs are not permitted"}}`, names[0])
		}},
		middleware.DialectGemini: {"Gemini": func(names []string) string {
			return fmt.Sprintf(`{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"%s\": Cannot find field.","status":"INVALID_ARGUMENT"}}`, strings.Join(names, `\": Cannot find field.\nInvalid JSON payload received. Unknown name \"`))
		}},
	} {
		for vendor, refuse := range refusals {
			t.Run(vendor, func(t *testing.T) {
				requests := 0
				m, err := provider.New(provider.Options{API: api, Model: "m", BaseURL: "http://vendor", Transport: vendorFunc(func(body map[string]any) (int, string) {
					requests++
					var unknown []string
					for _, name := range []string{"guided_json", "provider"} {
						if body[name] != nil {
							unknown = append(unknown, name)
						}
					}
					if unknown != nil {
						return http.StatusUnprocessableEntity, refuse(unknown)
					}
					return http.StatusOK, answers[api]
				})})
				if err != nil {
					t.Fatal(err)
				}
				p := middleware.Params{Dialect: api, Extra: map[string]json.RawMessage{"guided_json": []byte(`{"x":1}`), "provider": []byte(`{"y":1}`)}}
				for round := range 2 {
					requests = 0
					resp, err := m.GenerateContent(t.Context(), human("hi"), middleware.WithParams(p))
					if err != nil {
						t.Fatal(err)
					}
					if got := middleware.ExtraOf(resp.Choices[0]).NotSent; !slices.Equal(got, []string{"guided_json", "provider"}) {
						t.Errorf("not sent: %q", got)
					}
					if round == 1 && requests != 1 {
						t.Errorf("%d requests once it is known", requests)
					}
				}
			})
		}
	}
}

// OpenAI calls parameters that a model does not support unrecognized, whatever the server's address.
func TestUnrecognizedParametersAreLeftOut(t *testing.T) {
	requests := 0
	m, err := provider.New(provider.Options{Model: "m", BaseURL: "http://proxy", Transport: vendorFunc(func(body map[string]any) (int, string) {
		if requests++; body["reasoning_effort"] != nil {
			return http.StatusBadRequest, `{"error":{"message":"Unrecognized request argument supplied: reasoning_effort","type":"invalid_request_error","param":null,"code":null}}`
		}
		return http.StatusOK, answers[middleware.DialectChat]
	})})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{2, 1} {
		requests = 0
		if _, err := m.GenerateContent(t.Context(), human("hi"), llms.WithThinkingMode(llms.ThinkingModeHigh)); err != nil || requests != want {
			t.Errorf("%d requests, want %d: %v", requests, want, err)
		}
	}
}

// A rejection within a member, or of a known parameter, is still the client's fault.
func TestMembersWithinOthersAreNotLeftOut(t *testing.T) {
	for _, message := range []string{"provider.order: Extra inputs are not permitted", "messages.0.provider: Extra inputs are not permitted", "Unknown parameter: 'provider.order'.", "Unrecognized request argument supplied: user", "provider is bad"} {
		m, err := provider.New(provider.Options{Model: "m", Transport: vendorFunc(func(map[string]any) (int, string) {
			return http.StatusBadRequest, fmt.Sprintf(`{"error":{"message":%q}}`, message)
		})})
		if err != nil {
			t.Fatal(err)
		}
		p := middleware.Params{User: "u", Dialect: middleware.DialectChat, Extra: map[string]json.RawMessage{"provider": []byte(`{"order":1}`)}}
		if _, err := m.GenerateContent(t.Context(), human("hi"), middleware.WithParams(p)); err == nil {
			t.Errorf("%s: asked again", message)
		}
	}
}

var answers = map[middleware.Dialect]string{
	middleware.DialectChat:      `{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`,
	middleware.DialectResponses: `{"id":"r","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}]}`,
	middleware.DialectAnthropic: `{"id":"a","type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"ok"}]}`,
	middleware.DialectGemini:    `{"candidates":[{"index":0,"finishReason":"STOP","content":{"parts":[{"text":"ok"}]}}]}`,
}

// vendorFunc answers a request with a status and a body.
type vendorFunc func(body map[string]any) (status int, answer string)

func (f vendorFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	status, said := f(body)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(said)), Request: r}, nil
}
