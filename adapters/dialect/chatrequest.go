package dialect

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// chat is OpenAI's chat completions.
type chat struct{}

func (chat) Read(body gjson.Result, _ http.Header) (*Request, *Refusal) {
	a := &Request{}
	var fault *Refusal
	said := false
	members(body, "", &fault, func(name string, f field) {
		if name == "messages" {
			said = true
			f.each(func(f field) { a.chatMessage(f) })
			return
		}
		a.chatParam(name, f)
	})
	if fault == nil && (!said || len(a.Messages) == 0) {
		fault = Invalid("messages", "messages: there are none")
	}
	return a, fault
}

// chatParam reads one parameter of a request.
func (a *Request) chatParam(name string, f field) {
	p := &a.Params
	switch name {
	case "model":
		a.Model = f.text()
	case "stream":
		a.Stream = f.truth()
	case "stream_options":
		a.Usage = f.get("include_usage").value.Bool()
	case "max_completion_tokens":
		p.MaxTokens = f.positive()
	case "max_tokens":
		if n := f.positive(); p.MaxTokens == nil {
			p.MaxTokens = n
		}
	case "stop":
		a.stop(f)
	case "response_format":
		a.chatFormat(f)
	case "tools":
		f.each(func(f field) { a.chatTool(f) })
	case "tool_choice":
		a.chatChoice(f)
	case "functions", "function_call":
		f.refusef("deprecated and not read here: send tools")
	case "audio":
		f.refusef("only text is answered")
	case "modalities":
		for _, m := range f.words() {
			if m != "text" {
				f.refusef("only text is answered, not %s", m)
			}
		}
	default:
		if !chatFields.read(p, name, f) {
			extra(p, middleware.DialectChat, name, f)
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

func (a *Request) chatFormat(f field) {
	switch kind := f.get("type").text(); kind {
	case "", "text":
	case "json_object":
		a.add(llms.WithJSONMode())
	case "json_schema":
		a.schema(f.get("json_schema"))
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
		a.tool(f.get("function"))
	case "custom":
		rawTool(&a.Params, middleware.DialectChat, f)
	default:
		f.get("type").refusef("is %q: want function or custom", kind)
	}
}

// tool reads a function that models may call.
func (a *Request) tool(f field) {
	t := llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
		Name: f.get("name").optional(), Description: f.get("description").optional(), Strict: f.get("strict").value.Bool(),
	}}
	if t.Function.Name == "" {
		f.get("name").refusef("a tool has no name")
	}
	if p := f.get("parameters"); p.exists() {
		if !p.value.IsObject() {
			p.refusef("want a JSON schema")
		}
		t.Function.Parameters = p.raw()
	}
	a.Tools = append(a.Tools, t)
}

func (a *Request) chatChoice(f field) {
	if f.value.Type == gjson.String {
		a.add(llms.WithToolChoice(f.value.Str))
		return
	}
	if f.get("type").text() == "function" {
		a.add(llms.WithToolChoice(llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: f.get("function").get("name").text()}}))
		return
	}
	extra(&a.Params, middleware.DialectChat, "tool_choice", f)
}

// chatMessage reads one message.
func (a *Request) chatMessage(f field) {
	m := llms.MessageContent{}
	if name := f.get("name"); name.exists() && f.get("role").value.Str != "tool" {
		m.Parts = append(m.Parts, middleware.NamePart{Name: name.text()})
	}
	if p, ok := f.unknown(middleware.DialectChat, messageMembers, "role content name refusal tool_calls tool_call_id reasoning_content reasoning_details function_call"); ok {
		m.Parts = append(m.Parts, p)
	}
	content := f.get("content")
	switch role := f.get("role").text(); role {
	case "system", "developer":
		m.Role = llms.ChatMessageTypeSystem
		m.Parts = append(m.Parts, content.chatParts()...)
	case "user":
		m.Role = llms.ChatMessageTypeHuman
		m.Parts = append(m.Parts, content.chatParts()...)
	case "assistant":
		m.Role = llms.ChatMessageTypeAI
		state, calls := f.chatState()
		m.Parts = append(m.Parts, state...)
		m.Parts = append(m.Parts, content.chatParts()...)
		if r := f.get("refusal"); r.exists() {
			m.Parts = append(m.Parts, refusalPart(r))
		}
		if list := f.get("tool_calls"); list.exists() {
			list.each(func(f field) {
				call := f.chatCall()
				if p, ok := calls[call.ID]; ok {
					m.Parts = append(m.Parts, p)
				}
				if p, ok := f.unknown(middleware.DialectChat, partMembers, "id type index extra_content function.name function.arguments"); ok {
					m.Parts = append(m.Parts, p)
				}
				m.Parts = append(m.Parts, call)
			})
		}
	case "tool":
		m.Role = llms.ChatMessageTypeTool
		id := f.get("tool_call_id").optional()
		if id == "" {
			f.get("tool_call_id").refusef("a message of the role tool needs one")
		}
		_, id, _ = Untag(id)
		m.Parts = append(m.Parts, llms.ToolCallResponse{ToolCallID: id, Name: f.get("name").optional(), Content: content.onlyText()})
	default:
		f.get("role").refusef("is %q: want system, developer, user, assistant or tool", role)
	}
	a.Messages = append(a.Messages, m)
}

// member returns an object of one member.
func member(name string, f field) []byte {
	raw := appendString(append(make([]byte, 0, len(name)+len(f.value.Raw)+8), '{'), name)
	return append(append(append(raw, ':'), f.value.Raw...), '}')
}

// refusalPart is what a model said when it declined: text to models of other APIs.
func refusalPart(f field) llms.ContentPart {
	return middleware.RawPart{TextContent: llms.TextContent{Text: f.text()}, Dialect: middleware.DialectChat, Raw: member("refusal", f)}
}

// signaturePath is where Google's chat completions have the signature of a call.
const signaturePath = "extra_content.google.thought_signature"

// chatState reads what a message of an assistant has for the model that gave it: parts
// that come before it, and those that come before a call.
func (f field) chatState() (parts []llms.ContentPart, calls map[string]llms.ContentPart) {
	origin, members := Unknown, map[string]any{}
	if r := f.get("reasoning_content"); r.exists() {
		members["reasoning_content"] = r.raw()
	}
	var details, extras []json.RawMessage
	if list := f.get("reasoning_details"); list.exists() {
		list.each(func(f field) {
			p, state := Open(middleware.DialectChat, f.raw())
			switch {
			case p.Dialect != middleware.DialectChat:
				parts = append(parts, p)
				return
			case state && p.Model != Unknown:
				origin = p.Model
			}
			details = append(details, p.Raw)
		})
	}
	f.get("tool_calls").value.ForEach(func(_, call gjson.Result) bool {
		of, id, _ := Untag(call.Get("id").Str)
		if of != Unknown {
			origin = of
		}
		extra := call.Get("extra_content")
		if !extra.IsObject() {
			return true
		}
		of, signature, wrapped := Untag(call.Get(signaturePath).Str)
		if wrapped != nil {
			if calls == nil {
				calls = map[string]llms.ContentPart{}
			}
			calls[id] = *wrapped
			return true
		}
		raw := extra.Raw
		if of != Unknown {
			origin, raw = of, `{"google":{"thought_signature":`+string(appendString(nil, signature))+`}}`
		}
		extras = append(extras, json.RawMessage(`{"id":`+string(appendString(nil, id))+`,"extra_content":`+raw+`}`))
		return true
	})
	if details != nil {
		members["reasoning_details"] = details
	}
	if extras != nil {
		members["tool_calls"] = extras
	}
	if raw, err := json.Marshal(members); err == nil && len(members) > 0 {
		parts = append(parts, middleware.RawPart{Dialect: middleware.DialectChat, Model: origin, Raw: raw})
	}
	return parts, calls
}

func (f field) chatCall() llms.ToolCall {
	if kind := f.get("type").optional(); kind != "" && kind != "function" {
		f.get("type").refusef("is %q: want function", kind)
	}
	fn := f.get("function")
	_, id, _ := Untag(f.get("id").optional())
	return llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{
		Name: fn.get("name").text(), Arguments: fn.get("arguments").optional(),
	}}
}

// onlyText reads the content of a message that holds nothing but text.
func (f field) onlyText() string {
	var text strings.Builder
	for _, p := range f.chatParts() {
		switch p := p.(type) {
		case llms.TextContent:
			text.WriteString(p.Text)
		case middleware.RawPart: // members of a text, which is one with the others
		default:
			f.refusef("want text only")
		}
	}
	return text.String()
}

// chatParts reads a message's content: a string, a list of parts, or nothing.
func (f field) chatParts() (parts []llms.ContentPart) {
	f.content(&parts, func(f field) {
		if p, ok := f.unknown(middleware.DialectChat, partMembers, "type text refusal image_url.url image_url.detail file.filename file.file_data file.file_id"); ok {
			parts = append(parts, p)
		}
		switch kind := f.get("type").text(); kind {
		case "text":
			parts = append(parts, llms.TextContent{Text: f.get("text").text()})
		case "refusal":
			parts = append(parts, refusalPart(f.get("refusal")))
		case "image_url":
			url := f.get("image_url").get("url")
			parts = append(parts, url.image(url.optional(), f.get("image_url").get("detail").optional()))
		case "file":
			parts = append(parts, f.get("file").file("filename", "file_data", "file_id", ""))
		default:
			f.get("type").refusef("is %q: want text, image_url or file", kind)
		}
	})
	return parts
}

// file reads a file that is sent along, whose members have these names.
func (f field) file(name, data, id, url string) llms.ContentPart {
	p := middleware.FilePart{Name: f.get(name).optional(), ID: f.get(id).optional()}
	if url != "" {
		p.URL = f.get(url).optional()
	}
	if d := f.get(data); d.exists() {
		p.MIMEType, p.Data = d.decoded("application/pdf")
	}
	if p.Data == nil && p.ID == "" && p.URL == "" {
		f.refusef("a file without its content")
	}
	return p
}
