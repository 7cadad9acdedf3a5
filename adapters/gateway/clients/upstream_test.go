package clients_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// The APIs that the upstream serves.
const (
	chatAPI      = "chat"
	responsesAPI = "responses"
	messagesAPI  = "messages"
)

// vendorModel is a model of the upstream, with the limits that its vendor publishes.
type vendorModel struct {
	name, api, baseURL string
	// small models give a draft at the turns that the script marks.
	small bool
	// maxTokens is the maximum length of an answer that can be requested.
	maxTokens int
	// effort and temperature are set if the model accepts these parameters.
	effort, temperature bool
}

// vendorModels are the two models of each API that form the cascades. Limits:
// https://platform.claude.com/docs/en/about-claude/models/overview,
// https://platform.openai.com/docs/models, https://api-docs.deepseek.com/quick_start/pricing.
var vendorModels = []vendorModel{
	{name: "deepseek-reasoner", api: chatAPI, baseURL: "https://api.deepseek.com/v1", small: true, maxTokens: 65536, effort: true, temperature: true},
	{name: "gpt-5-mini", api: responsesAPI, baseURL: "https://api.openai.com/v1", small: true, maxTokens: 128000, effort: true},
	{name: "claude-haiku-4-5", api: messagesAPI, baseURL: "https://api.anthropic.com", small: true, maxTokens: 64000, temperature: true},
	{name: "gpt-4.1", api: chatAPI, baseURL: "https://api.openai.com/v1", maxTokens: 32768, temperature: true},
	{name: "gpt-5", api: responsesAPI, baseURL: "https://api.openai.com/v1", maxTokens: 128000, effort: true},
	{name: "claude-opus-5-5", api: messagesAPI, baseURL: "https://api.anthropic.com", maxTokens: 128000, effort: true},
}

func modelOf(name string) *vendorModel {
	for i := range vendorModels {
		if vendorModels[i].name == name {
			return &vendorModels[i]
		}
	}
	return nil
}

// refusal is an error of the upstream, in the form of the vendor's errors.
type refusal struct {
	Status               int
	Type, Code, Param    string
	Message, Model, Rule string
}

// upstream serves the APIs of three vendors and rejects what they reject. It is also an http.RoundTripper, so that
// providers keep the vendors' URLs.
type upstream struct {
	mu      sync.Mutex
	asked   []string // models, in order
	refused []refusal
	bodies  []string
	// never is a model that rejects every request.
	never string
	// owner is the model that issued an id, thought the reasoning item to which a function
	// call of Responses belongs.
	owner, thought map[string]string
	// stored are the reasoning items of stored answers.
	stored map[string]bool
}

func newUpstream() *upstream {
	return &upstream{owner: map[string]string{}, thought: map[string]string{}, stored: map[string]bool{}}
}

// RoundTrip answers a request to any of the vendors' URLs.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	u.ServeHTTP(w, r)
	return w.Result(), nil
}

// forget returns the requests and refusals since its last call.
func (u *upstream) forget() (asked []string, refused []refusal, bodies []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	asked, refused, bodies = u.asked, u.refused, u.bodies
	u.asked, u.refused, u.bodies = nil, nil, nil
	return asked, refused, bodies
}

// ServeHTTP answers a request, or rejects it as its vendor does.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := gjson.ParseBytes(body)
	api := map[string]string{"/chat/completions": chatAPI, "/responses": responsesAPI, "/messages": messagesAPI}[strings.TrimPrefix(r.URL.Path, "/v1")]
	m := modelOf(q.Get("model").Str)
	if m == nil || m.api != api {
		http.Error(w, fmt.Sprintf(`{"error":{"message":"The model %q does not exist at %s","type":"invalid_request_error","code":"model_not_found"}}`, q.Get("model").Str, r.URL.Path), http.StatusNotFound)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, m.name)
	u.bodies = append(u.bodies, string(body))
	if why := u.check(m, q); why != nil {
		u.refused = append(u.refused, *why)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(why.Status)
		_ = json.NewEncoder(w).Encode(why.body(api))
		return
	}
	a := u.script(m, q)
	events := map[string]func(*vendorModel, gjson.Result, *scripted) []event{chatAPI: chatEvents, responsesAPI: responsesEvents, messagesAPI: messagesEvents}[api]
	list := events(m, q, a)
	if !q.Get("stream").Bool() {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a.whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		if e.name != "" {
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		fmt.Fprintf(w, "data: %s\n\n", e.json())
	}
	if api == chatAPI {
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

// body returns the error in its vendor's form.
func (f *refusal) body(api string) any {
	if api == messagesAPI {
		return map[string]any{"type": "error", "error": map[string]any{"type": f.Type, "message": f.Message}, "request_id": "req_011"}
	}
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return map[string]any{"error": map[string]any{"message": f.Message, "type": f.Type, "param": null(f.Param), "code": null(f.Code)}}
}

// check returns the first violated rule.
func (u *upstream) check(m *vendorModel, q gjson.Result) *refusal {
	if m.name == u.never {
		return &refusal{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "No such luck.", Model: m.name}
	}
	for _, r := range rules {
		if r.api != m.api {
			continue
		}
		if f := r.broken(u, m, q); f != nil {
			f.Model, f.Rule = m.name, r.name
			if f.Status == 0 {
				f.Status = http.StatusBadRequest
			}
			if f.Type == "" {
				f.Type = "invalid_request_error"
			}
			return f
		}
	}
	return nil
}

// scripted is an answer of the upstream before it is encoded for an API.
type scripted struct {
	think, text string
	calls       []scriptedCall
	whole       map[string]any // as an answer that is not streamed
}

type scriptedCall struct {
	id, item, name, arguments string
}

// draft is the answer of small models at turns for the large ones.
const draft = "DRAFT: I am not sure."

// script returns a model's answer at each turn of a conversation, which is determined by the tool results so far.
// Small models begin with a draft, then call the tool twice at once, give another draft, and end. Large models answer
// at the turns of the drafts.
func (u *upstream) script(m *vendorModel, q gjson.Result) *scripted {
	results, again := progress(m.api, q)
	a := &scripted{}
	if thinks(m, q) {
		a.think = fmt.Sprintf("%s thinks at %d.", m.name, results)
	}
	call := func(n int) {
		c := scriptedCall{name: "lookup", arguments: fmt.Sprintf(`{"n":%d}`, n)}
		serial := len(u.owner)
		for _, t := range q.Get("tools").Array() {
			name := t.Get("name").Str + t.Get("function.name").Str
			switch name {
			case "Bash":
				c.name, c.arguments = name, fmt.Sprintf(`{"command":"echo %d","description":"echo"}`, n)
			case "shell", "shell_command":
				c.name, c.arguments = name, fmt.Sprintf(`{"command":"echo %d"}`, n)
				if name == "shell" {
					c.arguments = fmt.Sprintf(`{"command":["echo","%d"]}`, n)
				}
			case "exec_command":
				c.name, c.arguments = name, fmt.Sprintf(`{"cmd":"echo %d"}`, n)
			}
		}
		switch m.api {
		case messagesAPI:
			c.id = fmt.Sprintf("toolu_01%022d", serial)
		case responsesAPI:
			c.id, c.item = fmt.Sprintf("call_%024d", serial), fmt.Sprintf("fc_%048d", serial)
		default:
			c.id = fmt.Sprintf("call_00_%024d", serial)
		}
		u.owner[c.id] = m.name
		a.calls = append(a.calls, c)
	}
	tools := q.Get("tools").Exists()
	schema := q.Get("response_format").Exists() || q.Get("text.format").Exists() || q.Get("output_config.format").Exists()
	switch {
	case m.small && (results == 0 || results == 3 || again || !tools):
		a.text = draft
	case schema:
		a.text = `{"city":"Paris"}`
	case again || !tools:
		a.text = "Done again."
	case results == 0:
		call(1)
	case results == 1:
		call(2)
		call(3)
	case results == 3:
		call(4)
	default:
		a.text = "Done: 1 2 3 4."
	}
	if m.api == responsesAPI && a.think != "" {
		if q.Get("store").Raw != "false" { // https://platform.openai.com/docs/guides/conversation-state
			u.stored[fmt.Sprintf("rs_%s%d", strings.ReplaceAll(m.name, "-", ""), results)] = true
		}
		for _, c := range a.calls {
			u.thought[c.item] = fmt.Sprintf("rs_%s%d", strings.ReplaceAll(m.name, "-", ""), results)
		}
	}
	return a
}

// progress counts the tool results, and reports whether the user has asked again after an
// answer.
func progress(api string, q gjson.Result) (results int, again bool) {
	answered := false
	said := func(role string) {
		switch {
		case role == "assistant":
			answered = true
		case role == "user" && answered:
			again = true
		}
	}
	list := q.Get("messages")
	if api == responsesAPI {
		list = q.Get("input")
	}
	list.ForEach(func(_, m gjson.Result) bool {
		switch {
		case m.Get("type").Str == "function_call_output", m.Get("role").Str == "tool":
			results++
		case m.Get("type").Str == "function_call", m.Get("type").Str == "reasoning":
			answered = true
		case api == messagesAPI && m.Get("role").Str == "user":
			n := len(blocks(m, "tool_result"))
			results += n
			if n == 0 || len(blocks(m, "text")) > 0 {
				said("user")
			}
		default:
			said(m.Get("role").Str)
		}
		return true
	})
	return results, again
}

// thinks reports whether a model shows its reasoning.
func thinks(m *vendorModel, q gjson.Result) bool {
	switch m.api {
	case messagesAPI:
		return thinkingOn(q)
	case responsesAPI:
		return true
	}
	return m.name == "deepseek-reasoner"
}

func thinkingOn(q gjson.Result) bool {
	kind := q.Get("thinking.type").Str
	return kind == "enabled" || kind == "adaptive"
}

// sign and signedBy bind a text to a model.
func sign(m *vendorModel, text string) string {
	return base64.StdEncoding.EncodeToString([]byte(m.name + "\x00" + text))
}

func signedBy(m *vendorModel, signature string) bool {
	data, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && bytes.HasPrefix(data, []byte(m.name+"\x00"))
}

// blocks returns the content blocks of one type in a message.
func blocks(message gjson.Result, kind string) (list []gjson.Result) {
	for _, b := range message.Get("content").Array() {
		if b.Get("type").Str == kind {
			list = append(list, b)
		}
	}
	return list
}

// event is an event of a stream.
type event struct {
	name string
	data any
}

func (e event) json() []byte {
	data, err := json.Marshal(e.data)
	if err != nil {
		panic(err) // plain maps
	}
	return data
}

type object = map[string]any

// halves splits a text into the two pieces that a stream sends.
func halves(s string) [2]string { return [2]string{s[:len(s)/2], s[len(s)/2:]} }

func chatEvents(m *vendorModel, _ gjson.Result, a *scripted) []event {
	message := object{"role": "assistant", "content": nil}
	if a.text != "" {
		message["content"] = a.text
	}
	if a.think != "" {
		message["reasoning_content"] = a.think
	}
	finish := "stop"
	var calls []any
	for _, c := range a.calls {
		finish = "tool_calls"
		calls = append(calls, object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	usage := object{"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
	head := object{"id": "chatcmpl-1", "created": 1, "model": m.name}
	with := func(kind string, more object) object {
		o := object{"object": kind}
		for _, from := range []object{head, more} {
			maps.Copy(o, from)
		}
		return o
	}
	a.whole = with("chat.completion", object{"usage": usage, "choices": []any{object{"index": 0, "message": message, "finish_reason": finish}}})
	var list []event
	delta := func(d object, end any) {
		list = append(list, event{data: with("chat.completion.chunk", object{"choices": []any{object{"index": 0, "delta": d, "finish_reason": end}}})})
	}
	delta(object{"role": "assistant"}, nil)
	for _, one := range []struct{ name, text string }{{"reasoning_content", a.think}, {"content", a.text}} {
		if one.text != "" {
			for _, half := range halves(one.text) {
				delta(object{one.name: half}, nil)
			}
		}
	}
	for i, c := range a.calls {
		delta(object{"tool_calls": []any{object{"index": i, "id": c.id, "type": "function", "function": object{"name": c.name, "arguments": ""}}}}, nil)
		for _, half := range halves(c.arguments) {
			delta(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": half}}}}, nil)
		}
	}
	delta(object{}, finish)
	return append(list, event{data: with("chat.completion.chunk", object{"choices": []any{}, "usage": usage})})
}

func responsesEvents(m *vendorModel, q gjson.Result, a *scripted) (list []event) {
	var output []any
	sequence := 0
	add := func(name string, data object) {
		data["type"], data["sequence_number"] = name, sequence
		sequence++
		list = append(list, event{name, data})
	}
	response := func(status string, output []any) object {
		o := object{"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": m.name, "output": output, "error": nil,
			"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}}
		if status == "completed" {
			o["usage"] = object{"input_tokens": 20, "output_tokens": 10, "total_tokens": 30, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 4}}
		}
		return o
	}
	add("response.created", object{"response": response("in_progress", []any{})})
	item := func(began, done object, pieces func(index int)) {
		index := len(output)
		add("response.output_item.added", object{"output_index": index, "item": began})
		pieces(index)
		add("response.output_item.done", object{"output_index": index, "item": done})
		output = append(output, done)
	}
	if a.think != "" {
		results, _ := progress(m.api, q)
		id := fmt.Sprintf("rs_%s%d", strings.ReplaceAll(m.name, "-", ""), results)
		thought := object{"id": id, "type": "reasoning", "summary": []any{}}
		if q.Get("reasoning.summary").Exists() {
			thought["summary"] = []any{object{"type": "summary_text", "text": a.think}}
		}
		if strings.Contains(q.Get("include").Raw, "reasoning.encrypted_content") {
			thought["encrypted_content"] = sign(m, a.think)
		}
		item(object{"id": id, "type": "reasoning", "summary": []any{}}, thought, func(index int) {
			if q.Get("reasoning.summary").Exists() {
				add("response.reasoning_summary_part.added", object{"item_id": id, "output_index": index, "summary_index": 0, "part": object{"type": "summary_text", "text": ""}})
				add("response.reasoning_summary_text.delta", object{"item_id": id, "output_index": index, "summary_index": 0, "delta": a.think})
				add("response.reasoning_summary_text.done", object{"item_id": id, "output_index": index, "summary_index": 0, "text": a.think})
				add("response.reasoning_summary_part.done", object{"item_id": id, "output_index": index, "summary_index": 0, "part": object{"type": "summary_text", "text": a.think}})
			}
		})
	}
	if a.text != "" {
		part := object{"type": "output_text", "text": a.text, "annotations": []any{}}
		item(object{"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}},
			object{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": []any{part}}, func(index int) {
				at := func(more object) object {
					more["item_id"], more["output_index"], more["content_index"] = "msg_1", index, 0
					return more
				}
				add("response.content_part.added", at(object{"part": object{"type": "output_text", "text": "", "annotations": []any{}}}))
				for _, half := range halves(a.text) {
					add("response.output_text.delta", at(object{"delta": half}))
				}
				add("response.output_text.done", at(object{"text": a.text}))
				add("response.content_part.done", at(object{"part": part}))
			})
	}
	for _, c := range a.calls {
		item(object{"id": c.item, "type": "function_call", "status": "in_progress", "call_id": c.id, "name": c.name, "arguments": ""},
			object{"id": c.item, "type": "function_call", "status": "completed", "call_id": c.id, "name": c.name, "arguments": c.arguments}, func(index int) {
				for _, half := range halves(c.arguments) {
					add("response.function_call_arguments.delta", object{"item_id": c.item, "output_index": index, "delta": half})
				}
				add("response.function_call_arguments.done", object{"item_id": c.item, "output_index": index, "arguments": c.arguments})
			})
	}
	a.whole = response("completed", output)
	add("response.completed", object{"response": a.whole})
	return list
}

func messagesEvents(m *vendorModel, _ gjson.Result, a *scripted) (list []event) {
	content := []any{}
	stop := "end_turn"
	add := func(name string, data object) {
		data["type"] = name
		list = append(list, event{name, data})
	}
	usage := object{"input_tokens": 20, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
	head := func() object {
		return object{"id": "msg_1", "type": "message", "role": "assistant", "model": m.name, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	}
	add("message_start", object{"message": head()})
	block := func(began, done object, deltas ...object) {
		index := len(content)
		add("content_block_start", object{"index": index, "content_block": began})
		for _, d := range deltas {
			add("content_block_delta", object{"index": index, "delta": d})
		}
		add("content_block_stop", object{"index": index})
		content = append(content, done)
	}
	if a.think != "" {
		signature := sign(m, a.think)
		block(object{"type": "thinking", "thinking": "", "signature": ""}, object{"type": "thinking", "thinking": a.think, "signature": signature},
			object{"type": "thinking_delta", "thinking": a.think}, object{"type": "signature_delta", "signature": signature})
	}
	if a.text != "" {
		text := halves(a.text)
		block(object{"type": "text", "text": ""}, object{"type": "text", "text": a.text}, object{"type": "text_delta", "text": text[0]}, object{"type": "text_delta", "text": text[1]})
	}
	for _, c := range a.calls {
		stop = "tool_use"
		input := halves(c.arguments)
		block(object{"type": "tool_use", "id": c.id, "name": c.name, "input": object{}},
			object{"type": "tool_use", "id": c.id, "name": c.name, "input": json.RawMessage(c.arguments)},
			object{"type": "input_json_delta", "partial_json": input[0]}, object{"type": "input_json_delta", "partial_json": input[1]})
	}
	a.whole = head()
	a.whole["content"], a.whole["stop_reason"] = content, stop
	add("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 10}})
	add("message_stop", object{})
	return list
}
