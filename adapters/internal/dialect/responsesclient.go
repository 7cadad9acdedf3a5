package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

var responsesFields = append(newParamFields("max_output_tokens", "MaxTokens", "reasoning.effort", "ReasoningEffort", "reasoning.summary", "ReasoningSummary", "text.verbosity", "Verbosity"), commonFields...)

func (responses) Dialect() middleware.Dialect { return middleware.DialectResponses }

func (responses) Write(c *Call) (Object, error) {
	o, p := c.Options, c.Params
	b := Object{"model": c.Model}
	w := &itemWriter{}
	if err := eachMessage(c.Messages, w.message); err != nil {
		return nil, err
	}
	b["input"] = w.list
	responsesFields.write(b, p)
	if p.Store == nil && p.Dialect != "" && p.Dialect != middleware.DialectResponses {
		b["store"] = false // unlike this API, the client's own stores answers only on request
	}
	if !deref(p.LogProbs) && p.Dialect != middleware.DialectResponses { // a parameter of this API itself
		delete(b, "top_logprobs")
	}
	switch s := p.Schema; {
	case s != nil:
		format := schemaObject(s)
		format["type"] = "json_schema"
		b.setPath("text.format", format)
	case isJSON(o):
		b.setPath("text.format.type", "json_object")
	}
	b.tools(c, middleware.DialectResponses, func(f *llms.FunctionDefinition) Object {
		tool := c.functionObject(f, "parameters", json.RawMessage("null"))
		tool["type"] = "function"
		// If strict is missing, the API assumes true and changes the schema. Only its own clients can mean that.
		if own := gjson.GetBytes(p.Extra["tools"], gjson.Escape(f.Name)+".strict"); p.Dialect != middleware.DialectResponses || own.IsBool() {
			tool["strict"] = f.Strict
		}
		return tool
	})
	b.toolChoice(c, func(name string) Object { return Object{"type": "function", "name": name} })
	b.addExtra(p, middleware.DialectResponses)
	delete(b, "include")
	setList(b, "include", c.includes())
	b.setStream(c)
	c.NotSent = append(c.NotSent, responsesFields.missing(p, middleware.DialectResponses, "LogProbs", "Schema")...)
	c.omit(len(o.StopWords) > 0, "StopWords")
	c.removeRefused(b)
	return b, nil
}

func (c *Call) includes() (list []string) {
	p := c.Params
	if p.Dialect == middleware.DialectResponses {
		_ = json.Unmarshal(p.Extra["include"], &list) // the server rejects anything but a list
	}
	switch {
	case c.Limits.Unsealed:
		list = slices.DeleteFunc(list, func(word string) bool { return word == includeSealed })
	case c.Limits.Sealed || p.Store != nil && !*p.Store:
		// A later turn sends back in full what the server may not have stored.
		list = addNew(list, includeSealed)
	}
	if deref(p.LogProbs) {
		list = addNew(list, includeLogProbs)
	}
	return list
}

type itemWriter struct {
	list []any

	// Of the message that is being written.
	role    llms.ChatMessageType
	content []any // not yet in list
	unknown memberWriter
}

func (w *itemWriter) message(role llms.ChatMessageType, parts []llms.ContentPart) error {
	w.role, w.unknown = role, memberWriter{}
	err := eachPart(parts, w.part)
	w.flush()
	return err
}

func (w *itemWriter) flush() {
	if w.content != nil {
		w.list = append(w.list, w.unknown.addToMessage(Object{"type": "message", "role": roleName(w.role), "content": w.content}))
		w.content = nil
	}
}

func (w *itemWriter) add(item Object) {
	w.flush()
	w.list = append(w.list, w.unknown.addTo(item))
}

func (w *itemWriter) part(p llms.ContentPart, _ *llms.CacheControl) error {
	switch p := p.(type) {
	case middleware.NamePart: // the API has no names
	case llms.TextContent:
		kind := "input_text"
		if w.role == llms.ChatMessageTypeAI {
			kind = "output_text"
		}
		w.content = append(w.content, w.unknown.addTo(Object{"type": kind, "text": p.Text}))
	case middleware.RawPart:
		w.raw(p)
	case llms.ToolCall:
		w.add(Object{"type": "function_call", "call_id": p.ID, "name": p.FunctionCall.Name, "arguments": string(argumentsObject(p.FunctionCall.Arguments))})
	case middleware.ResultPart:
		output := Object{"type": "function_call_output", "call_id": p.ToolCallID, "output": p.Content}
		parts, err := inputParts(p.Parts)
		setList(output, "output", parts)
		w.add(output)
		return err
	default:
		one, err := responsesParts.write(p)
		if err != nil {
			return err
		}
		w.content = append(w.content, w.unknown.addTo(one))
	}
	return nil
}

func (w *itemWriter) raw(p middleware.RawPart) {
	if gjson.GetBytes(p.Raw, messageMembers).Exists() {
		w.flush() // the members begin an item
	}
	switch kind := gjson.GetBytes(p.Raw, "type").Str; {
	case w.unknown.take(p):
	case strings.HasPrefix(kind, "input_"), kind == "refusal":
		w.content = append(w.content, p.Raw)
	default:
		w.flush()
		w.list = append(w.list, p.Raw)
	}
}

func inputParts(parts []llms.ContentPart) (list []any, err error) {
	var unknown memberWriter
	err = eachPart(parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
		if raw, ok := p.(middleware.RawPart); ok && unknown.take(raw) {
			return nil
		}
		one, err := responsesParts.write(p)
		if err != nil {
			return err
		}
		list = append(list, unknown.addTo(one))
		return nil
	})
	return list, err
}

type responsesReply struct {
	ID          string             `json:"id"`
	Model       string             `json:"model"`
	CreatedAt   json.Number        `json:"created_at"`
	Status      string             `json:"status"`
	ServiceTier string             `json:"service_tier"`
	Output      []json.RawMessage  `json:"output"`
	Incomplete  *incompleteDetails `json:"incomplete_details"`
	Error       *json.RawMessage   `json:"error"`
	Usage       json.RawMessage    `json:"usage"`
}

type outputItem struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Text     string        `json:"text"`
		Refusal  string        `json:"refusal"`
		LogProbs []chatLogProb `json:"logprobs"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

type responsesReader struct {
	*Reply

	calls    map[int]int       // index of each tool call, by the index of its item
	special  map[int]bool      // items in a form that only this API has
	items    []json.RawMessage // completed items
	hasEnded bool
}

func (responses) Reader(r *Reply) Reader {
	return &responsesReader{Reply: r, calls: map[int]int{}, special: map[int]bool{}}
}

// HasEnded implements [Reader].
func (s *responsesReader) HasEnded() bool { return s.hasEnded }

func (s *responsesReader) End(bool) error {
	if !s.hasEnded {
		return errUnfinished
	}
	return nil
}

// Event reads an event. The answer is built from the last event alone, or from the items completed before it.
func (s *responsesReader) Event(data []byte) error {
	if !gjson.ValidBytes(data) {
		return errNotJSON
	}
	e := gjson.ParseBytes(data)
	index := int(e.Get("output_index").Int())
	switch kind := s.wantText("type", e.Get("type")); kind {
	case "response.output_item.added":
		return s.begin(index, rawOf(e.Get("item")), data)
	case "response.output_item.done":
		return s.endItem(index, e.Get("item"))
	case "response.completed", "response.incomplete", "response.failed":
		return s.Whole(rawOf(e.Get("response")))
	case "error":
		return ServerError(data)
	default:
		return s.piece(kind, index, e, data)
	}
}

// piece emits a piece of an item, or passes on an event that only this API has.
func (s *responsesReader) piece(kind string, index int, e gjson.Result, data []byte) error {
	d, piece := middleware.Delta{}, e.Get("delta")
	switch kind {
	case "response.output_text.delta":
		d.Text, d.LogProbs = s.wantText("delta", piece), chatTokens(e.Get("logprobs"))
	case "response.refusal.delta":
		d.Refusal = s.wantText("delta", piece)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		d.Reasoning = s.wantText("delta", piece)
	case "response.function_call_arguments.delta":
		d.Tool = &middleware.ToolDelta{Index: s.calls[index], Arguments: s.wantText("delta", piece)}
	default:
		if s.special[index] && e.Get("output_index").Exists() {
			s.pass(data)
		}
		return s.mistyped
	}
	if s.mistyped == nil {
		s.Emit(&d)
	}
	return s.mistyped
}

// endItem keeps a completed item, and emits it unless its text and calls were emitted in pieces.
func (s *responsesReader) endItem(index int, v gjson.Result) error {
	item := rawOf(v)
	it, err := readItem(item)
	s.items = append(s.items, item)
	if it.Type == "function_call" && it.Arguments == "" { // no pieces of the arguments arrived
		s.Emit(&middleware.Delta{Tool: &middleware.ToolDelta{Index: s.calls[index], Arguments: "{}"}})
	}
	if err != nil || it.Type == "" || it.Type == "function_call" || it.Type == "message" && knownOfMessageItem.unknownMembers(v) == nil {
		return err
	}
	s.Emit(&middleware.Delta{Raw: new(s.part(&it, item))})
	return nil
}

// begin reads the beginning of an item, and passes on the event if only this API has such items.
func (s *responsesReader) begin(index int, item json.RawMessage, event []byte) error {
	it, err := readItem(item)
	switch {
	case err != nil || it.Type == "":
		return err
	case it.Type == "function_call":
		s.calls[index] = len(s.calls)
		s.Emit(&middleware.Delta{Raw: it.members(item), Tool: &middleware.ToolDelta{Index: s.calls[index], ID: it.CallID, Name: it.Name, Arguments: it.Arguments}})
	case it.Type == "message":
		if members := it.members(item); members != nil {
			s.Emit(&middleware.Delta{Raw: members})
		}
	case sealedMembers[it.Type] == nil:
		s.special[index] = true
		s.pass(event)
	}
	return nil
}

func (s *responsesReader) pass(event []byte) {
	event = bytes.TrimSpace(event)
	p := newMembers(middleware.DialectResponses, eventMembers, event[1:len(event)-1])
	s.Emit(&middleware.Delta{Raw: &p})
}

// part returns an item for a later turn. The ids of messages and reasoning are state of the model.
func (s *responsesReader) part(it *outputItem, raw json.RawMessage) middleware.RawPart {
	p := middleware.RawPart{Dialect: middleware.DialectResponses, Raw: raw}
	switch it.Type {
	case "reasoning", "message", "compaction":
		p.Model = s.Origin
	}
	if it.Type != "reasoning" {
		for _, c := range it.Content {
			p.Text += c.Text + c.Refusal
		}
	}
	if it.CallID != "" && strings.HasSuffix(it.Type, "_call") && !it.isBilled(raw) { // a call that the client must run, like that of a function
		p.Instead = itemCall(gjson.ParseBytes(raw))
	}
	return p
}

// knownOfMessageItem are the members of a message that other events contain too.
var knownOfMessageItem = newKnown("type id status role content.type content.text content.refusal content.logprobs")

// members returns a part with the unknown members of a call, or nil.
func (it *outputItem) members(raw json.RawMessage) *middleware.RawPart {
	rest := knownOfItem.members(gjson.ParseBytes(raw))
	if rest == nil {
		return nil
	}
	return new(newMembers(middleware.DialectResponses, partMembers, appendString(append(rest, `,"call_id":`...), it.CallID)))
}

var errNoItem = errors.New("an item of the answer has neither a type nor a content")

func readItem(raw json.RawMessage) (it outputItem, err error) {
	if err = json.Unmarshal(raw, &it); err == nil && it.Type == "" && it.Content == nil {
		err = errNoItem
	}
	return it, err
}

// isBilled reports whether an item is a use of a hosted tool with a fee. In a web search, opening a page and
// searching within it are free.
func (it *outputItem) isBilled(raw json.RawMessage) bool {
	switch it.Type {
	case "file_search_call", "code_interpreter_call":
		return true
	case "shell_call": // only in a container, not on the client's machine
		environment := gjson.GetBytes(raw, "environment.type").Str
		return environment != "" && environment != "local"
	case "web_search_call":
		action := gjson.GetBytes(raw, "action.type").Str
		return action == "" || action == "search"
	}
	return false
}

// knownOfResponse are the members of answers that are converted, or repeated from the request.
var knownOfResponse = newKnown("id object created_at status background error incomplete_details model output previous_response_id service_tier " +
	"instructions max_output_tokens max_tool_calls parallel_tool_calls reasoning store temperature text tool_choice tools top_p truncation user metadata" + responsesUsage.known("usage"))

// responsesCuts maps the reasons of incomplete answers to langchaingo's stop reasons.
var responsesCuts = map[string]string{"max_output_tokens": "length", "content_filter": "content_filter"}

func (s *responsesReader) Whole(data []byte) error {
	in, err := s.readHead(data)
	if err != nil {
		return err
	}
	s.hasEnded = true
	c := s.choice(0)
	for _, raw := range in.Output {
		it, err := readItem(raw)
		if err != nil {
			return err
		}
		s.addItem(c, &it, raw)
	}
	if in.Error != nil {
		return ServerError(data)
	}
	if len(in.Output) == 0 && in.Incomplete == nil && in.Status != "completed" {
		return middleware.ErrEmptyResponse
	}
	c.isSpecial, c.word = true, "stop"
	switch {
	case in.Incomplete != nil:
		s.Extra.StopReason = in.Incomplete.Reason
		c.word = cmp.Or(responsesCuts[in.Incomplete.Reason], stopError("incomplete "+in.Incomplete.Reason))
	case in.Status != "" && in.Status != "completed":
		c.word = stopError(in.Status)
	case len(c.calls) > 0:
		c.word = "tool_calls"
	}
	return nil
}

func (s *responsesReader) readHead(data []byte) (in *responsesReply, err error) {
	in = &responsesReply{}
	if err := json.Unmarshal(data, in); err != nil { // null leaves it empty
		return nil, err
	}
	s.addUnknown(middleware.DialectResponses, knownOfResponse.unknownMembers(gjson.ParseBytes(data)))
	x := &s.Extra
	x.ID, x.Served, x.ServiceTier, x.StopReason, x.Raw = in.ID, in.Model, in.ServiceTier, in.Status, data
	if n, err := in.CreatedAt.Float64(); err == nil {
		x.Created = int64(n)
	}
	x.Usage = responsesUsage.read(gjson.ParseBytes(in.Usage))
	if len(in.Output) == 0 { // some servers end a stream this way
		in.Output = s.items
	}
	return in, nil
}

func (s *responsesReader) addItem(c *replyChoice, it *outputItem, raw json.RawMessage) {
	if it.isBilled(raw) { // even if the answer failed after it
		s.Extra.Usage.HostedCalls++
		if it.Type == "web_search_call" {
			s.Extra.Usage.Searches++
		}
	}
	if it.Type == "function_call" {
		if p := it.members(raw); p != nil {
			c.parts = append(c.parts, *p)
		}
		c.addCall(newCall(it.CallID, it.Name, cmp.Or(it.Arguments, "{}")))
		return
	}
	for _, one := range it.Summary {
		c.reasoning.WriteString(one.Text)
	}
	for _, one := range it.Content {
		if it.Type == "reasoning" {
			c.reasoning.WriteString(one.Text)
			continue
		}
		c.content.WriteString(one.Text)
		c.refusal.WriteString(one.Refusal)
		c.logProbs = append(c.logProbs, logProbsOf(one.LogProbs)...)
	}
	c.addPart(s.part(it, raw))
}
