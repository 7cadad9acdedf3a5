package clients_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// oddRequest is a feature of a request that its own API accepts and another one does not.
type oddRequest struct {
	name string
	// change alters the first request of a client of each API; clients without one are
	// skipped.
	change map[string]func(q object)
	// excludes is set if there is no counterpart, so that a model of another API can be
	// excluded: only the draft is then available.
	excludes bool
}

func set(pairs ...any) func(q object) {
	return func(q object) {
		for i := 0; i < len(pairs); i += 2 {
			name, _ := pairs[i].(string)
			if pairs[i+1] == nil {
				delete(q, name)
				continue
			}
			q[name] = pairs[i+1]
		}
	}
}

// history is a conversation with one tool call, with a given id.
func history(id string) map[string]func(q object) {
	return map[string]func(q object){
		chatAPI: func(q object) {
			push(q, "messages",
				object{"role": "assistant", "content": nil, "tool_calls": []any{object{"id": id, "type": "function", "function": object{"name": "lookup", "arguments": `{"n":1}`}}}},
				object{"role": "tool", "tool_call_id": id, "content": "found"}, object{"role": "user", "content": "And?"})
		},
		responsesAPI: func(q object) {
			push(q, "input", object{"type": "function_call", "call_id": id, "name": "lookup", "arguments": `{"n":1}`},
				object{"type": "function_call_output", "call_id": id, "output": "found"}, object{"role": "user", "content": "And?"})
		},
		messagesAPI: func(q object) {
			push(q, "messages", object{"role": "assistant", "content": []any{object{"type": "tool_use", "id": id, "name": "lookup", "input": object{"n": 1}}}},
				object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": "found"}, object{"type": "text", "text": "And?"}}})
		},
	}
}

var noThinking = set("thinking", nil)

func both(list ...func(q object)) func(q object) {
	return func(q object) {
		for _, change := range list {
			change(q)
		}
	}
}

// cityFormat is a schema of an answer that does not set additionalProperties.
var cityFormat = raw(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)

// boundFormat is a schema of an answer that limits a number and has a member named like a bound.
var boundFormat = raw(`{"type":"object","properties":{"city":{"type":"string"},"people":{"type":"integer","minimum":1}}}`)

func image(media string) map[string]func(q object) {
	return map[string]func(q object){
		chatAPI: func(q object) {
			push(q, "messages", object{"role": "user", "content": []any{object{"type": "image_url", "image_url": object{"url": "data:" + media + ";base64,iVBORw0K"}}}})
		},
		responsesAPI: func(q object) {
			push(q, "input", object{"role": "user", "content": []any{object{"type": "input_image", "image_url": "data:" + media + ";base64,iVBORw0K"}}})
		},
	}
}

var oddRequests = []oddRequest{
	{name: "as it is", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil), responsesAPI: set("reasoning", nil), messagesAPI: noThinking}},
	{name: "effort", change: map[string]func(q object){chatAPI: set(), responsesAPI: set(), messagesAPI: set()}},
	{name: "least effort", change: map[string]func(q object){chatAPI: set("reasoning_effort", "minimal"), responsesAPI: set("reasoning", object{"effort": "minimal"})}},
	{name: "temperature 1.5", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "temperature", 1.5), responsesAPI: set("reasoning", nil, "temperature", 1.5)}},
	{name: "temperature 0.2 and effort", change: map[string]func(q object){chatAPI: set("temperature", 0.2), responsesAPI: set("temperature", 0.2)}},
	{name: "temperature and top_p", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "temperature", 0.2, "top_p", 0.9), responsesAPI: set("reasoning", nil, "temperature", 0.2, "top_p", 0.9)}},
	{name: "top_k", change: map[string]func(q object){messagesAPI: both(noThinking, set("top_k", 5))}},
	{name: "effort and adaptive thinking", change: map[string]func(q object){messagesAPI: set("output_config", object{"effort": "high"}, "thinking", object{"type": "adaptive", "display": "omitted"})}},
	{name: "temperature", change: map[string]func(q object){messagesAPI: both(noThinking, set("temperature", 0.5))}},
	{name: "no limit", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil), responsesAPI: set("reasoning", nil)}},
	{name: "a limit of 60000", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "max_completion_tokens", 60000), responsesAPI: set("reasoning", nil, "max_output_tokens", 60000), messagesAPI: set("max_tokens", 60000)}},
	{name: "a limit of 128000", change: map[string]func(q object){responsesAPI: set("reasoning", nil, "max_output_tokens", 128000)}},
	{name: "a limit of 8", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "max_tokens", 8), messagesAPI: both(noThinking, set("max_tokens", 8))}},
	{name: "a limit below the thinking", change: map[string]func(q object){chatAPI: set("max_completion_tokens", 1500), responsesAPI: set("max_output_tokens", 1500)}},
	{name: "five stop words", change: map[string]func(q object){messagesAPI: both(noThinking, set("stop_sequences", []string{"a1", "b2", "c3", "d4", "e5"}))}},
	{name: "a stop word of white space", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "stop", []string{"\n\n"})}},
	{name: "tool ids of other alphabets", change: map[string]func(q object){chatAPI: both(history("call:a.1|x")[chatAPI], set("reasoning_effort", nil)), responsesAPI: both(history("call:a.1|x")[responsesAPI], set("reasoning", nil))}},
	{name: "long tool ids", change: map[string]func(q object){messagesAPI: both(history("toolu_" + strings.Repeat("x", 100))[messagesAPI], noThinking), responsesAPI: both(history("call_" + strings.Repeat("x", 55))[responsesAPI], set("reasoning", nil))}},
	{name: "another's tool turn", change: history("call_1")},
	{name: "a schema without properties", change: map[string]func(q object){
		messagesAPI: both(noThinking, func(q object) { push(q, "tools", object{"name": "now", "input_schema": object{"type": "object"}}) })}},
	{name: "a tool without parameters", change: map[string]func(q object){
		chatAPI: both(set("reasoning_effort", nil), func(q object) { push(q, "tools", object{"type": "function", "function": object{"name": "now"}}) }),
		responsesAPI: both(set("reasoning", nil), func(q object) {
			push(q, "tools", object{"type": "function", "name": "now", "parameters": nil, "strict": false})
		})}},
	{name: "an open schema", change: map[string]func(q object){
		chatAPI:      set("reasoning_effort", nil, "tools", nil, "response_format", object{"type": "json_schema", "json_schema": object{"name": "city", "schema": cityFormat}}),
		responsesAPI: set("reasoning", nil, "tools", nil, "text", object{"format": object{"type": "json_schema", "name": "city", "schema": cityFormat, "strict": false}})}},
	{name: "a schema with bounds", change: map[string]func(q object){
		chatAPI:      set("reasoning_effort", nil, "tools", nil, "response_format", object{"type": "json_schema", "json_schema": object{"name": "city", "schema": boundFormat}}),
		responsesAPI: set("reasoning", nil, "tools", nil, "text", object{"format": object{"type": "json_schema", "name": "city", "schema": boundFormat, "strict": false}})}},
	{name: "a choice of no tools", change: map[string]func(q object){
		chatAPI:      set("reasoning_effort", nil, "tools", nil, "tool_choice", "auto", "parallel_tool_calls", true),
		responsesAPI: set("reasoning", nil, "tools", []any{}, "tool_choice", "auto", "parallel_tool_calls", true)}},
	{name: "one of some tools", excludes: true, change: map[string]func(q object){
		chatAPI:      set("reasoning_effort", nil, "tool_choice", object{"type": "allowed_tools", "allowed_tools": object{"mode": "required", "tools": []any{object{"type": "function", "function": object{"name": "lookup"}}}}}),
		responsesAPI: set("reasoning", nil, "tool_choice", object{"type": "allowed_tools", "mode": "required", "tools": []any{object{"type": "function", "name": "lookup"}}})}},
	{name: "an answer to go on with", excludes: true, change: map[string]func(q object){
		chatAPI: both(set("reasoning_effort", nil), func(q object) { push(q, "messages", object{"role": "assistant", "content": "The answer is "}) })}},
	{name: "a question of white space", excludes: true, change: map[string]func(q object){
		chatAPI: both(set("reasoning_effort", nil), func(q object) {
			push(q, "messages", object{"role": "assistant", "content": "Hm."}, object{"role": "user", "content": " "})
		})}},
	{name: "verbosity", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "verbosity", "low"), responsesAPI: set("reasoning", nil, "text", object{"verbosity": "low"})}},
	{name: "a PDF", excludes: true, change: map[string]func(q object){messagesAPI: both(noThinking, func(q object) {
		push(q, "messages", object{"role": "user", "content": []any{object{"type": "document", "source": object{"type": "base64", "media_type": "application/pdf", "data": "AAE="}}}})
	})}},
	{name: "a file of text", change: map[string]func(q object){messagesAPI: both(noThinking, func(q object) {
		push(q, "messages", object{"role": "user", "content": []any{object{"type": "document", "title": "notes", "source": object{"type": "text", "media_type": "text/plain", "data": "a fact"}}}})
	}), responsesAPI: both(set("reasoning", nil), func(q object) {
		push(q, "input", object{"role": "user", "content": []any{object{"type": "input_file", "filename": "a.md", "file_data": "data:text/markdown;base64,aGk="}}})
	})}},
	{name: "a file of the vendor's", excludes: true, change: map[string]func(q object){messagesAPI: both(noThinking, func(q object) {
		push(q, "messages", object{"role": "user", "content": []any{object{"type": "document", "title": "notes", "source": object{"type": "file", "file_id": "file_011"}}}})
	}), responsesAPI: both(set("reasoning", nil), func(q object) {
		push(q, "input", object{"role": "user", "content": []any{object{"type": "input_file", "file_id": "file-1"}, object{"type": "input_file", "file_url": "https://example.com/a.pdf"}}})
	})}},
	{name: "a forced tool and effort", excludes: true, change: map[string]func(q object){chatAPI: set("tool_choice", "required"), responsesAPI: set("tool_choice", "required")}},
	{name: "only a system message", change: map[string]func(q object){
		chatAPI:      set("reasoning_effort", nil, "messages", []any{object{"role": "system", "content": "Say hello."}}),
		responsesAPI: set("reasoning", nil, "instructions", nil, "input", []any{object{"role": "system", "content": "Say hello."}})}},
	{name: "a system message in between", change: map[string]func(q object){
		chatAPI: both(set("reasoning_effort", nil), func(q object) {
			push(q, "messages", object{"role": "assistant", "content": "Hm."}, object{"role": "system", "content": "Be kind."})
		}),
		responsesAPI: both(set("reasoning", nil), func(q object) {
			push(q, "input", object{"role": "assistant", "content": "Hm."}, object{"role": "developer", "content": "Be kind."})
		})}},
	{name: "an empty answer in between", change: map[string]func(q object){
		chatAPI: both(set("reasoning_effort", nil), func(q object) {
			push(q, "messages", object{"role": "assistant", "content": ""}, object{"role": "user", "content": "Again."})
		})}},
	{name: "two users in a row", change: map[string]func(q object){
		chatAPI: both(set("reasoning_effort", nil), func(q object) { push(q, "messages", object{"role": "user", "content": "And more."}) }), responsesAPI: both(set("reasoning", nil), func(q object) { push(q, "input", object{"role": "user", "content": "And more."}) }),
		messagesAPI: both(noThinking, func(q object) { push(q, "messages", object{"role": "user", "content": "And more."}) })}},
	{name: "image/jpg", change: map[string]func(q object){chatAPI: both(image("image/jpg")[chatAPI], set("reasoning_effort", nil)), responsesAPI: both(image("image/jpg")[responsesAPI], set("reasoning", nil))}},
	{name: "metadata", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "metadata", object{"a": "b"}, "user", "u1"), responsesAPI: set("reasoning", nil, "metadata", object{"a": "b"}, "user", "u1"), messagesAPI: both(noThinking, set("metadata", object{"user_id": "u1"}))}},
	{name: "service tier", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "service_tier", "flex"), responsesAPI: set("reasoning", nil, "service_tier", "flex"), messagesAPI: both(noThinking, set("service_tier", "standard_only"))}},
	{name: "two choices", excludes: true, change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "n", 2)}},
	{name: "seed and penalties", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "seed", 1, "presence_penalty", 0.5, "logit_bias", object{"50256": -100})}},
	{name: "one call at a time", change: map[string]func(q object){chatAPI: set("reasoning_effort", nil, "parallel_tool_calls", false), responsesAPI: set("reasoning", nil, "parallel_tool_calls", false),
		messagesAPI: both(noThinking, set("tool_choice", object{"type": "auto", "disable_parallel_tool_use": true}))}},
	{name: "members of other vendors", change: map[string]func(q object){
		chatAPI: both(set("reasoning_effort", nil), func(q object) {
			mark := object{"type": "ephemeral"}
			push(q, "messages", object{"role": "assistant", "content": "Hm.", "prefix": false}, object{"role": "user", "content": "And?", "cache_control": mark},
				object{"role": "user", "content": []any{object{"type": "text", "text": "So?", "cache_control": mark}}})
		}),
		responsesAPI: both(set("reasoning", nil), func(q object) {
			push(q, "input", object{"role": "user", "content": []any{object{"type": "input_text", "text": "So?", "cache_control": object{"type": "ephemeral"}}}})
		})}},
	{name: "cached blocks", change: map[string]func(q object){messagesAPI: both(noThinking, set("system", []any{object{"type": "text", "text": "Be brief.", "cache_control": object{"type": "ephemeral"}}}), func(q object) {
		push(q, "messages", object{"role": "assistant", "content": []any{object{"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": object{"n": 1}}}},
			object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": "toolu_1", "cache_control": object{"type": "ephemeral"}, "content": []any{object{"type": "text", "text": "found", "cache_control": object{"type": "ephemeral"}}}}, object{"type": "text", "text": "And?"}}})
	})}},
	{name: "a reasoning of nobody's", change: map[string]func(q object){
		chatAPI: both(set("reasoning_effort", nil), func(q object) {
			push(q, "messages", object{"role": "assistant", "content": "Hm.", "reasoning_content": "I wonder."}, object{"role": "user", "content": "And?"})
		}),
		messagesAPI: func(q object) {
			push(q, "messages", object{"role": "assistant", "content": []any{object{"type": "thinking", "thinking": "I wonder.", "signature": "c29tZWJvZHk="}, object{"type": "text", "text": "Hm."}}}, object{"role": "user", "content": "And?"})
		}}},
}

// TestOddRequests sends each odd request to the nine cascades: a request that is valid in the client's API is not
// rejected by any model.
func TestOddRequests(t *testing.T) {
	broken := brokenCells{}
	for i := range rawClients {
		c := &rawClients[i]
		for _, p := range oddRequests {
			change := p.change[c.api]
			if change == nil {
				continue
			}
			cascades(func(small, large *vendorModel) {
				u := newUpstream()
				q := c.first()
				change(q)
				a, err := c.send(t.Context(), cascadeOf(t, u, small, large), q, false)
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("%s: %s client, ", p.name, c.api)
				asked, refused, _ := u.forget()
				for _, f := range refused {
					broken.addf(name+f.Model, "%s", f.Message)
				}
				cascade := name + small.name + " > " + large.name
				switch {
				case len(refused) > 0:
				case p.excludes && a.status == http.StatusBadRequest && strings.Contains(a.body.Get("error.message").Str, "no feasible model"):
				case a.status != http.StatusOK:
					broken.addf(cascade, "status %d: %.200s", a.status, a.body.Get("error.message").Str)
				case a.model != large.name && !p.excludes:
					broken.addf(cascade, "answered by %q, want %s; asked were %v", a.model, large.name, asked)
				}
			})
		}
	}
	broken.compare(t, "broken-requests.txt")
}

// TestHostedTools offers a tool that only one API has. Models of other APIs are excluded, or called without the tool if
// it is optional.
func TestHostedTools(t *testing.T) {
	tools := map[string][]any{
		responsesAPI: {object{"type": "web_search"}, object{"type": "namespace", "name": "mcp__docs", "description": "docs", "tools": []any{}}},
		messagesAPI:  {object{"type": "web_search_20250305", "name": "web_search"}},
	}
	for i := range rawClients {
		c := &rawClients[i]
		if tools[c.api] == nil {
			continue
		}
		cascades(func(small, large *vendorModel) {
			if small.api != c.api || large.api == c.api {
				return
			}
			for _, optional := range [][]string{nil, {"web_search"}, {"web_search", "namespace"}} {
				u := newUpstream()
				q := c.first()
				oddRequests[0].change[c.api](q)
				push(q, "tools", tools[c.api]...)
				a, err := c.send(t.Context(), cascadeOf(t, u, small, large, optional...), q, false)
				if err != nil {
					t.Fatal(err)
				}
				want := large.name
				if len(optional) < len(tools[c.api]) {
					want = small.name // its draft is all that can be had
				}
				if asked, refused, _ := u.forget(); a.status != http.StatusOK || a.model != want || len(refused) > 0 {
					t.Errorf("%s client, %s > %s, optional %v: status %d, answered by %q, want %s; asked %v, refused %v", c.api, small.name, large.name, optional, a.status, a.model, want, asked, refused)
				}
			}
		})
	}
}

// TestRefusedEscalation makes the upstream reject the escalation: the client gets an error, and not the rejected draft
// as an answer, also on a stream.
func TestRefusedEscalation(t *testing.T) {
	for i := range rawClients {
		c := &rawClients[i]
		cascades(func(small, large *vendorModel) {
			for _, stream := range []bool{false, true} {
				u := newUpstream()
				u.never = large.name
				q := c.first()
				oddRequests[0].change[c.api](q)
				a, err := c.send(t.Context(), cascadeOf(t, u, small, large), q, stream)
				if err != nil {
					t.Fatal(err)
				}
				if a.status != http.StatusBadGateway || a.retry != "false" || !strings.Contains(a.body.Get("error.message").Str, "No such luck.") || a.model != "" {
					t.Errorf("%s client, %s > %s, streamed %v: status %d, retry %q, model %q: %s", c.api, small.name, large.name, stream, a.status, a.retry, a.model, a.body.Raw)
				}
			}
		})
	}
}

// TestRulesNameTheirSource checks that each rule of the upstream states its source.
func TestRulesNameTheirSource(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules {
		if id := r.api + " " + r.name; seen[id] || !strings.HasPrefix(r.source, "https://") || r.broken == nil {
			t.Errorf("rule %q of %s: its source is %q", r.name, r.api, r.source)
		} else {
			seen[id] = true
		}
	}
}
