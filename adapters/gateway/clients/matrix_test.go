package clients_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

var updateBroken = flag.Bool("update-broken", false, "write testdata/broken.txt: the cells that do not work")

// cascadeOf returns a gateway in front of a cascade of a small and a large model of the upstream, which rejects
// drafts.
func cascadeOf(t *testing.T, u *upstream, small, large *vendorModel, optionalTools ...string) *gateway.Gateway {
	t.Helper()
	strategy, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.5}})
	if err != nil {
		t.Fatal(err)
	}
	candidate := func(m *vendorModel, price float64) middleware.Candidate {
		return middleware.Candidate{LLM: m.open(t, u), Model: sdk.Model{
			Name: m.name, Provider: m.api, Served: m.name, MaxOutputTokens: m.maxTokens, Price: sdk.Price{Input: price, Output: price},
			Capabilities: sdk.Capabilities{Tools: true, Images: true, JSONMode: true, JSONSchema: true, Reasoning: true},
		}}
	}
	rejectDrafts := step.Check{Name: "check:draft", Fault: func(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
		if strings.HasPrefix(a.Text, draft) {
			return "a draft"
		}
		return ""
	}}
	model, err := middleware.New(middleware.Config{
		Models: []middleware.Candidate{candidate(small, 1), candidate(large, 10)},
		Step: step.Config{
			Strategy: strategy, Checks: append(middleware.DefaultChecks(), rejectDrafts), Retry: step.Retry{MaxAttempts: 1},
		},
		OptionalTools: optionalTools, Stream: middleware.Commit, Breaker: middleware.BreakerConfig{Failures: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	g, err := gateway.New(gateway.Options{Model: model, Models: func() []string { return []string{small.name, large.name} }})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// open returns a provider's client of the model.
func (m *vendorModel) open(t *testing.T, u *upstream) (llm llms.Model) {
	t.Helper()
	var err error
	switch m.api {
	case messagesAPI:
		llm, err = provider.New(provider.Options{API: middleware.DialectAnthropic, Model: m.name, BaseURL: m.baseURL, Transport: u})
	case responsesAPI:
		llm, err = provider.New(provider.Options{Model: m.name, BaseURL: m.baseURL, API: middleware.DialectResponses, Transport: u})
	default:
		llm, err = provider.New(provider.Options{Model: m.name, BaseURL: m.baseURL, Transport: u})
	}
	if err != nil {
		t.Fatal(err)
	}
	return llm
}

// cascades calls each with the nine cascades of the upstream's models.
func cascades(each func(small, large *vendorModel)) {
	for i := range vendorModels {
		for k := range vendorModels {
			if vendorModels[i].small && !vendorModels[k].small {
				each(&vendorModels[i], &vendorModels[k])
			}
		}
	}
}

// rawClient uses one API by plain HTTP and sends back everything that it received, as the official clients
// do.
type rawClient struct {
	api, path string
	// first is a request with one question, the tool and reasoning.
	first func() object
	// assemble builds the answer from a stream's events.
	assemble func(events []gjson.Result) gjson.Result
	// extend adds the answer to the conversation, and the results of its calls. It
	// returns the number of calls.
	extend func(q object, answer gjson.Result) (calls int)
	// text returns the text of an answer; ask adds another question.
	text func(answer gjson.Result) string
	ask  func(q object, text string)
}

const lookupSchema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func push(q object, list string, items ...any) {
	before, _ := q[list].([]any)
	q[list] = append(slices.Clone(before), items...)
}

var rawClients = []rawClient{
	{
		api: chatAPI, path: "/v1/chat/completions",
		first: func() object {
			return object{
				"model": "stepfall", "reasoning_effort": "medium", "messages": []any{object{"role": "system", "content": "Be brief."}, object{"role": "user", "content": "Look up."}},
				"tools": []any{object{"type": "function", "function": object{"name": "lookup", "description": "looks up", "parameters": raw(lookupSchema)}}},
			}
		},
		assemble: assembleChat,
		extend: func(q object, answer gjson.Result) (calls int) {
			message := answer.Get("choices.0.message")
			push(q, "messages", raw(message.Raw))
			for _, c := range message.Get("tool_calls").Array() {
				calls++
				push(q, "messages", object{"role": "tool", "tool_call_id": c.Get("id").Str, "content": "found " + c.Get("function.arguments").Str})
			}
			return calls
		},
		text: func(answer gjson.Result) string { return answer.Get("choices.0.message.content").Str },
		ask:  func(q object, text string) { push(q, "messages", object{"role": "user", "content": text}) },
	}, {
		api: responsesAPI, path: "/v1/responses",
		first: func() object {
			return object{
				"model": "stepfall", "instructions": "Be brief.", "input": []any{object{"role": "user", "content": "Look up."}}, "store": false,
				"include": []string{"reasoning.encrypted_content"}, "reasoning": object{"effort": "medium", "summary": "auto"},
				"tools": []any{object{"type": "function", "name": "lookup", "description": "looks up", "parameters": raw(lookupSchema), "strict": false}},
			}
		},
		assemble: func(events []gjson.Result) gjson.Result {
			for _, e := range events {
				if e.Get("type").Str == "response.completed" {
					return e.Get("response")
				}
			}
			return gjson.Result{}
		},
		extend: func(q object, answer gjson.Result) (calls int) {
			var results []any
			for _, item := range answer.Get("output").Array() {
				push(q, "input", raw(item.Raw))
				if item.Get("type").Str == "function_call" {
					calls++
					results = append(results, object{"type": "function_call_output", "call_id": item.Get("call_id").Str, "output": "found " + item.Get("arguments").Str})
				}
			}
			push(q, "input", results...)
			return calls
		},
		text: func(answer gjson.Result) string {
			text := ""
			for _, item := range answer.Get("output").Array() {
				for _, part := range item.Get("content").Array() {
					text += part.Get("text").Str
				}
			}
			return text
		},
		ask: func(q object, text string) { push(q, "input", object{"role": "user", "content": text}) },
	}, {
		api: messagesAPI, path: "/v1/messages",
		first: func() object {
			return object{
				"model": "stepfall", "max_tokens": 8000, "thinking": object{"type": "enabled", "budget_tokens": 2000}, "system": "Be brief.",
				"messages": []any{object{"role": "user", "content": "Look up."}},
				"tools":    []any{object{"name": "lookup", "description": "looks up", "input_schema": raw(lookupSchema)}},
			}
		},
		assemble: assembleMessages,
		extend: func(q object, answer gjson.Result) (calls int) {
			push(q, "messages", object{"role": "assistant", "content": raw(answer.Get("content").Raw)})
			var results []any
			for _, b := range blocks(answer, "tool_use") {
				calls++
				results = append(results, object{"type": "tool_result", "tool_use_id": b.Get("id").Str, "content": "found " + b.Get("input").Raw})
			}
			if calls > 0 {
				push(q, "messages", object{"role": "user", "content": results})
			}
			return calls
		},
		text: func(answer gjson.Result) string {
			text := ""
			for _, b := range blocks(answer, "text") {
				text += b.Get("text").Str
			}
			return text
		},
		ask: func(q object, text string) { push(q, "messages", object{"role": "user", "content": text}) },
	},
}

// assembleChat joins the chunks: texts by member, calls by index.
func assembleChat(events []gjson.Result) gjson.Result {
	message := object{}
	var calls []object
	for _, e := range events {
		e.Get("choices.0.delta").ForEach(func(k, v gjson.Result) bool {
			switch {
			case k.Str == "tool_calls":
				for _, c := range v.Array() {
					i := int(c.Get("index").Int())
					for len(calls) <= i {
						calls = append(calls, object{"type": "function", "function": object{"name": "", "arguments": ""}})
					}
					c.ForEach(func(k, v gjson.Result) bool {
						if k.Str != "function" && k.Str != "index" {
							calls[i][k.Str] = raw(v.Raw)
						}
						return true
					})
					function, _ := calls[i]["function"].(object)
					for _, name := range []string{"name", "arguments"} {
						function[name] = fmt.Sprint(function[name]) + c.Get("function."+name).Str
					}
				}
			case v.Type == gjson.String && k.Str != "role":
				before, _ := message[k.Str].(string)
				message[k.Str] = before + v.Str
			case v.Type != gjson.Null:
				message[k.Str] = raw(v.Raw)
			}
			return true
		})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return parsed(object{"choices": []any{object{"message": message}}})
}

// assembleMessages joins the deltas of each block.
func assembleMessages(events []gjson.Result) gjson.Result {
	content := []object{}
	grow := func(i int, name, text string) {
		before, _ := content[i][name].(string)
		content[i][name] = before + text
	}
	for _, e := range events {
		i := int(e.Get("index").Int())
		switch e.Get("type").Str {
		case "content_block_start":
			b := object{}
			e.Get("content_block").ForEach(func(k, v gjson.Result) bool {
				if b[k.Str] = any(raw(v.Raw)); v.Type == gjson.String {
					b[k.Str] = v.Str
				}
				return true
			})
			content = append(content, b)
		case "content_block_delta":
			e.Get("delta").ForEach(func(k, v gjson.Result) bool {
				if k.Str == "partial_json" {
					k.Str = "input"
				}
				if k.Str != "type" {
					grow(i, k.Str, v.Str)
				}
				return true
			})
		case "content_block_stop":
			if input, ok := content[i]["input"].(string); ok {
				content[i]["input"] = raw(input)
			}
		}
	}
	return parsed(object{"content": content})
}

func parsed(v any) gjson.Result {
	data, err := json.Marshal(v)
	if err != nil {
		return gjson.Result{}
	}
	return gjson.ParseBytes(data)
}

// answered is the response to a client.
type answered struct {
	status int
	model  string // that answered, by the header
	retry  string // whether to ask again, by the header
	body   gjson.Result
}

// send sends a request to the gateway, in process, and reads the whole answer.
func (c *rawClient) send(ctx context.Context, g http.RoundTripper, q object, stream bool) (*answered, error) {
	q["stream"] = stream
	data, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+c.path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := g.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	a := &answered{status: resp.StatusCode, model: resp.Header.Get(gateway.HeaderModel) + resp.Trailer.Get(gateway.HeaderModel), body: gjson.ParseBytes(body), retry: resp.Header.Get("X-Should-Retry")}
	if stream && resp.StatusCode == http.StatusOK {
		a.body = c.assemble(events(body))
	}
	return a, nil
}

// events returns the data of server-sent events.
func events(body []byte) (list []gjson.Result) {
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "[DONE]" {
			list = append(list, gjson.Parse(data))
		}
	}
	return list
}

// brokenCells are the failing cells of a test, with the reasons.
type brokenCells map[string]string

// addf adds a cell, as a line of its name and its result.
func (b brokenCells) addf(name, format string, args ...any) {
	b[name] = strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
}

// compare fails the test for each cell that newly fails, and for each cell that is listed as broken but
// works.
func (b brokenCells) compare(t *testing.T, file string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *updateBroken {
		var lines []string
		for name, why := range b {
			lines = append(lines, name+"\t"+why+"\n")
		}
		if slices.Sort(lines); lines == nil {
			_ = os.Remove(path) // there may be none
			return
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "\t")
		if listed[name] = true; b[name] == "" {
			t.Errorf("%s works now: take it off %s, which -update-broken does", name, path)
		}
	}
	for name, why := range b {
		if !listed[name] {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// TestCascades runs each client through a loop of three tool turns and another question on each of the nine cascades,
// with reasoning. The models alternate: a draft of the small one is rejected, so that the large one answers, and the
// other way round.
func TestCascades(t *testing.T) {
	broken := brokenCells{}
	for i := range rawClients {
		c := &rawClients[i]
		cascades(func(small, large *vendorModel) {
			for _, stream := range []bool{false, true} {
				name := fmt.Sprintf("%s client, %s > %s", c.api, small.name, large.name)
				if stream {
					name += ", streamed"
				}
				u := newUpstream()
				if why := c.walk(t.Context(), u, cascadeOf(t, u, small, large), small, large, stream); why != "" {
					broken.addf(name, "%s", why)
				}
			}
		})
	}
	broken.compare(t, "broken-cascades.txt")
}

// walk returns the first fault, or "".
func (c *rawClient) walk(ctx context.Context, u *upstream, g http.RoundTripper, small, large *vendorModel, stream bool) string {
	q := c.first()
	for turn, want := range []struct {
		model *vendorModel
		calls int
		text  string
	}{{large, 1, ""}, {small, 2, ""}, {large, 1, ""}, {small, 0, "Done: 1 2 3 4."}, {large, 0, "Done again."}} {
		if turn == 4 {
			c.ask(q, "And again?")
		}
		a, err := c.send(ctx, g, q, stream)
		if err != nil {
			return fmt.Sprintf("turn %d: %v", turn+1, err)
		}
		_, refused, _ := u.forget()
		for _, f := range refused {
			return fmt.Sprintf("turn %d: %s refused: %s", turn+1, f.Model, f.Message)
		}
		if a.status != http.StatusOK {
			return fmt.Sprintf("turn %d: status %d: %.200s", turn+1, a.status, a.body.Raw)
		}
		if a.model != want.model.name {
			return fmt.Sprintf("turn %d: answered by %q, want %s", turn+1, a.model, want.model.name)
		}
		text := c.text(a.body)
		if calls := c.extend(q, a.body); calls != want.calls || text != want.text {
			return fmt.Sprintf("turn %d: %d calls and %q, want %d and %q", turn+1, calls, text, want.calls, want.text)
		}
	}
	return ""
}
