package dialect

import (
	"encoding/json"
	"net/http"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

type chat struct{}

func (chat) Read(body gjson.Result, _ http.Header) (*Request, *Refusal) {
	a := &Request{Params: middleware.Params{Dialect: middleware.DialectChat}}
	fault := a.read(body, knownOfChat, a.chatParam)
	if fault == nil && len(a.Messages) == 0 {
		fault = Invalid("messages", "messages: there are none")
	}
	return a, fault
}

// The members of parameters, tools, messages and calls that are read here.
var (
	knownOfChat = newKnown("stream_options.include_usage response_format.type response_format.json_schema.name response_format.json_schema.description " +
		"response_format.json_schema.schema response_format.json_schema.strict tool_choice.type tool_choice.function.name")
	knownOfChatTool    = newKnown("type function.name function.description function.parameters function.strict")
	knownOfChatMessage = newKnown("role content name refusal tool_calls tool_call_id reasoning reasoning_content reasoning_details function_call provider_specific_fields")
	knownOfChatCall    = newKnown("id type index extra_content provider_specific_fields function.name function.arguments function.provider_specific_fields")
)

func (a *Request) chatParam(name string, f field) {
	p := &a.Params
	switch name {
	case "messages":
		f.each(a.chatMessage)
	case "stream_options":
		a.Usage = f.of("include_usage").truth()
	case "max_completion_tokens":
		p.MaxTokens = f.positive()
	case "max_tokens":
		if n := f.positive(); p.MaxTokens == nil {
			p.MaxTokens = n
		}
	case "stop":
		a.stop(f)
	case "response_format":
		a.format(f, f.get("json_schema"))
	case "tools":
		a.readTools(middleware.DialectChat, f, knownOfChatTool, a.chatTool)
	case "tool_choice":
		a.choice(middleware.DialectChat, f, "function.name")
	case "functions", "function_call":
		f.refusef("deprecated and not supported: send tools")
	case "audio":
		f.refusef("only text output is supported")
	case "modalities":
		for _, m := range f.words() {
			if m != "text" {
				f.refusef("only text output is supported, not %s", m)
			}
		}
	default:
		if name == "random_seed" { // Mistral's name
			name = "seed"
		}
		if isAll := name == "top_k" && f.value.Num < 1; isAll || !samplerFields.read(p, name, f) { // vLLM's value for all tokens
			keepExtra(p, middleware.DialectChat, name, f)
		}
		if a.Labels = p.Metadata; name == "n" && p.N != nil && *p.N > maxChoices {
			f.refusef("is %d: want at most %d", *p.N, maxChoices)
		}
	}
}

func (a *Request) stop(f field) {
	if f.value.Type == gjson.String {
		a.add(llms.WithStopWords([]string{f.value.Str}))
		return
	}
	if words := f.words(); len(words) > 0 {
		a.add(llms.WithStopWords(words))
	}
}

// format reads a response format, whose JSON schema is schema.
func (a *Request) format(f, schema field) {
	switch kind := f.get("type").text(); kind {
	case "", "text":
	case "json_object":
		a.add(llms.WithJSONMode())
	case "json_schema":
		a.schema(schema)
	default:
		f.get("type").refusef("is %q: want text, json_object or json_schema", kind)
	}
}

func (a *Request) schema(f field) {
	s := &middleware.Schema{Name: f.get("name").optional(), Description: f.get("description").optional()}
	schema := f.get("schema")
	if !schema.value.IsObject() {
		schema.refusef("want a JSON schema")
		return
	}
	s.Schema = schema.raw()
	if strict := f.get("strict"); strict.exists() {
		s.Strict = new(strict.truth())
	}
	a.Params.Schema = s
}

func (a *Request) chatTool(f field) {
	switch kind := f.get("type").text(); kind {
	case "function":
		a.tool(f.get("function"), "parameters")
	case "custom":
		rawTool(&a.Params, middleware.DialectChat, f)
	default:
		f.get("type").refusef("is %q: want function or custom", kind)
	}
}

// tool reads a function tool. schema is the name of its member for the parameters.
func (a *Request) tool(f field, schema string) {
	t := llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
		Name: f.get("name").optional(), Description: f.get("description").optional(), Strict: f.get("strict").truth(),
	}}
	if t.Function.Name == "" {
		f.get("name").refusef("a tool has no name")
	}
	if p := f.get(schema); p.exists() {
		if !p.value.IsObject() {
			p.refusef("want a JSON schema")
		}
		t.Function.Parameters = p.raw()
	}
	a.Tools = append(a.Tools, t)
}

// choice reads a tool_choice of OpenAI's APIs. name is the path of the function's name.
func (a *Request) choice(d middleware.Dialect, f field, name string) {
	switch {
	case f.value.Type == gjson.String:
		a.add(llms.WithToolChoice(f.value.Str))
	case f.get("type").text() == "function":
		a.add(llms.WithToolChoice(llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: f.get(name).text()}}))
	default:
		keepExtra(&a.Params, d, "tool_choice", f)
	}
}

func (a *Request) chatMessage(f field) {
	m := llms.MessageContent{}
	if name := f.get("name"); name.exists() && f.get("role").value.Str != "tool" {
		m.Parts = append(m.Parts, middleware.NamePart{Name: name.text()})
	}
	m.Parts = append(m.Parts, f.unknown(middleware.DialectChat, messageMembers, knownOfChatMessage)...)
	content := f.get("content")
	role := f.get("role").text()
	m.Role, _ = roleOf(llms.ChatMessageType(role)) // other roles are rejected below
	switch role {
	case "system", "developer", "user":
		m.Parts = append(m.Parts, chatParts.read(content)...)
	case "assistant":
		m.Parts = append(m.Parts, f.assistantParts(content)...)
	case "tool":
		id := f.get("tool_call_id").optional()
		if id == "" {
			f.get("tool_call_id").refusef("a message of the role tool needs one")
		}
		_, id, _ = Untag(id)
		m.Parts = append(m.Parts, content.chatResult(llms.ToolCallResponse{ToolCallID: id, Name: f.get("name").optional()}))
	default:
		f.get("role").refusef("is %q: want system, developer, user, assistant or tool", role)
	}
	a.Messages = append(a.Messages, m)
}

func (f field) assistantParts(content field) []llms.ContentPart {
	parts, states := f.chatState()
	parts = append(parts, chatParts.read(content)...)
	if r := f.get("refusal"); r.exists() {
		parts = append(parts, middleware.RawPart{TextContent: llms.TextContent{Text: r.text()}, Dialect: middleware.DialectChat, Raw: json.RawMessage(`{"refusal":` + r.value.Raw + `}`)})
	}
	if list := f.get("tool_calls"); list.exists() {
		list.each(func(f field) {
			if f.get("type").value.Str == "custom" {
				parts = append(parts, f.chatCustomCall())
				return
			}
			call := f.chatCall()
			if p, ok := states[call.ID]; ok {
				parts = append(parts, p)
			}
			parts = append(append(parts, f.unknown(middleware.DialectChat, partMembers, knownOfChatCall)...), call)
		})
	}
	return parts
}

// signaturePath is the path of a call's signature in Google's chat completions.
const signaturePath = "extra_content.google.thought_signature"

// getUnknown returns a member that OpenAI's messages do not have. LiteLLM puts it into provider_specific_fields.
func (f field) getUnknown(name string) field {
	if v := f.get(name); v.exists() {
		return v
	}
	return f.get("provider_specific_fields." + name)
}

// messageState is the state that an assistant's message carries for its model.
type messageState struct {
	origin  string
	parts   []llms.ContentPart          // for the beginning of the message
	calls   map[string]llms.ContentPart // to be put before calls, by call id
	details []json.RawMessage
	extras  []json.RawMessage // of calls
}

// chatState reads the state that an assistant's message carries for its model: parts for the beginning of the
// message, and parts to be put before calls.
func (f field) chatState() (parts []llms.ContentPart, calls map[string]llms.ContentPart) {
	s, members := messageState{origin: Unknown}, Object{}
	for _, name := range []string{"reasoning", "reasoning_content"} { // clients may return both
		if r := f.getUnknown(name); r.exists() {
			members[name] = r.raw()
			break
		}
	}
	if list := f.getUnknown("reasoning_details"); list.exists() {
		list.each(s.addDetail)
	}
	f.get("tool_calls").value.ForEach(s.addCall)
	if len(s.parts)+len(s.calls) > 0 { // from a model of another API, whose own form includes the reasoning
		clear(members)
	}
	setList(members, "reasoning_details", s.details)
	setList(members, "tool_calls", s.extras)
	if len(members) > 0 {
		s.parts = append(s.parts, middleware.RawPart{Dialect: middleware.DialectChat, Model: s.origin, Raw: rawJSON(members)})
	}
	return s.parts, s.calls
}

func (s *messageState) addDetail(f field) {
	p, state := Open(middleware.DialectChat, f.raw())
	switch {
	case p.Dialect != middleware.DialectChat:
		s.parts = append(s.parts, p)
		return
	case state && p.Model != Unknown:
		s.origin = p.Model
	}
	s.details = append(s.details, p.Raw)
}

func (s *messageState) addCall(_, call gjson.Result) (goOn bool) {
	of, id, _ := Untag(call.Get("id").Str)
	if of != Unknown {
		s.origin = of
	}
	extra := call.Get("extra_content")
	if !extra.IsObject() {
		return true
	}
	of, signature, wrapped := Untag(call.Get(signaturePath).Str)
	if wrapped != nil {
		setEntry(&s.calls, id, llms.ContentPart(*wrapped))
		return true
	}
	raw := extra.Raw
	if of != Unknown {
		s.origin, raw = of, `{"google":{"thought_signature":`+string(appendString(nil, signature))+`}}`
	}
	s.extras = append(s.extras, json.RawMessage(`{"id":`+string(appendString(nil, id))+`,"extra_content":`+raw+`}`))
	return true
}

func (f field) chatCall() llms.ToolCall {
	if kind := f.get("type").optional(); kind != "" && kind != "function" {
		f.get("type").refusef("is %q: want function or custom", kind)
	}
	fn := f.get("function")
	_, id, _ := Untag(f.get("id").optional())
	return newCall(id, fn.get("name").text(), fn.get("arguments").optional())
}

// chatCustomCall reads a call of a custom tool, with a function call as the replacement for other APIs.
func (f field) chatCustomCall() llms.ContentPart {
	_, id, _ := Untag(f.get("id").text())
	custom := f.get("custom")
	return middleware.RawPart{Dialect: middleware.DialectChat, Raw: withText(f.raw(), "id", id), Instead: customCall(id, custom.get("name").text(), custom.get("input").optional())}
}

// customCall returns a call of a custom tool as a function call.
func customCall(id, name, input string) llms.ToolCall {
	return newCall(id, name, string(append(appendString([]byte(`{"input":`), input), '}')))
}

func isCustomCall(p middleware.RawPart) bool {
	return p.Dialect == middleware.DialectChat && gjson.GetBytes(p.Raw, "type").Str == "custom"
}

// chatResult reads the content of a tool's result, which must be text.
func (f field) chatResult(r llms.ToolCallResponse) llms.ContentPart {
	parts := chatParts.read(f)
	for _, p := range parts {
		switch p.(type) {
		case llms.TextContent, middleware.RawPart:
		default:
			f.refusef("want text only")
		}
	}
	return newResult(r, parts, false)
}
