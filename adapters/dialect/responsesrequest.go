package dialect

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// responses is OpenAI's Responses, without its state: a conversation comes whole with
// each request.
type responses struct{}

// responsesEcho is what an answer repeats of its request, as it was written there.
type responsesEcho struct {
	Instructions json.RawMessage `json:"instructions"`
	MaxOutput    json.RawMessage `json:"max_output_tokens"`
	MaxToolCalls json.RawMessage `json:"max_tool_calls,omitempty"`
	Parallel     json.RawMessage `json:"parallel_tool_calls"`
	Reasoning    json.RawMessage `json:"reasoning"`
	Store        json.RawMessage `json:"store"`
	Temperature  json.RawMessage `json:"temperature"`
	Text         json.RawMessage `json:"text"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Tools        json.RawMessage `json:"tools"`
	TopP         json.RawMessage `json:"top_p"`
	Truncation   json.RawMessage `json:"truncation"`
	User         json.RawMessage `json:"user"`
	Metadata     json.RawMessage `json:"metadata"`
}

// ownItem begins the ids of items that this gateway made, which no provider knows.
const ownItem = "_sf_"

func (responses) Read(body gjson.Result, _ http.Header) (*Request, *Refusal) {
	a := &Request{}
	null := json.RawMessage("null")
	echo := &responsesEcho{
		Instructions: null, MaxOutput: null, Parallel: json.RawMessage("true"), Reasoning: json.RawMessage(`{"effort":null,"summary":null}`),
		Store: json.RawMessage("false"), Temperature: null, Text: json.RawMessage(`{"format":{"type":"text"}}`), ToolChoice: json.RawMessage(`"auto"`),
		Tools: json.RawMessage("[]"), TopP: null, Truncation: json.RawMessage(`"disabled"`), User: null, Metadata: json.RawMessage("{}"),
	}
	a.echo = echo
	var fault *Refusal
	members(body, "", &fault, func(name string, f field) {
		if name == "instructions" {
			echo.Instructions = f.raw()
			a.Messages = append([]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, f.text())}, a.Messages...)
			return
		}
		a.responsesParam(name, f, echo)
	})
	if fault == nil && len(a.Messages) == 0 {
		fault = Invalid("input", "input: there is none")
	}
	return a, fault
}

func (a *Request) responsesParam(name string, f field, echo *responsesEcho) {
	p := &a.Params
	switch name {
	case "model":
		a.Model = f.text()
	case "input":
		a.input(f)
	case "stream":
		a.Stream = f.truth()
	case "stream_options":
	case "tools":
		echo.Tools = f.raw()
		f.each(func(f field) { a.responsesTool(f) })
	case "tool_choice":
		echo.ToolChoice = f.raw()
		a.responsesChoice(f)
	case "text":
		echo.Text = a.responsesText(f)
	case "reasoning":
		echo.Reasoning = f.raw()
		if e := f.get("effort"); e.exists() {
			p.ReasoningEffort = e.text()
		}
		if s := f.get("summary"); s.exists() {
			p.ReasoningSummary = s.text()
		}
	case "include":
		for _, word := range f.words() {
			if word == "message.output_text.logprobs" {
				p.LogProbs = new(true)
			}
		}
		extra(p, middleware.DialectResponses, name, f)
	case "max_tool_calls":
		echo.MaxToolCalls = f.raw()
		extra(p, middleware.DialectResponses, name, f)
	case "truncation":
		echo.Truncation = f.raw()
		extra(p, middleware.DialectResponses, name, f)
	case "previous_response_id", "conversation", "prompt":
		f.refusef("this gateway keeps no state: send the conversation as input")
	case "background":
		if f.truth() {
			f.refusef("this gateway keeps no state: answers are given at once or streamed")
		}
	default:
		if !responsesFields.read(p, name, f) {
			extra(p, middleware.DialectResponses, name, f)
			return
		}
		a.Labels = p.Metadata
		for field, to := range map[string]*json.RawMessage{
			"temperature": &echo.Temperature, "top_p": &echo.TopP, "parallel_tool_calls": &echo.Parallel, "user": &echo.User, "store": &echo.Store,
			"max_output_tokens": &echo.MaxOutput, "metadata": &echo.Metadata,
		} {
			if name == field {
				*to = f.raw()
			}
		}
	}
}

// responsesText reads what the answer must look like, and returns how it is repeated.
func (a *Request) responsesText(f field) json.RawMessage {
	if v := f.get("verbosity"); v.exists() {
		a.Params.Verbosity = v.text()
	}
	format := f.get("format")
	if !format.exists() {
		return json.RawMessage(`{"format":{"type":"text"}}`)
	}
	switch kind := format.get("type").text(); kind {
	case "text":
	case "json_object":
		a.add(llms.WithJSONMode())
	case "json_schema":
		a.schema(format)
	default:
		format.get("type").refusef("is %q: want text, json_object or json_schema", kind)
	}
	return f.raw()
}

func (a *Request) responsesTool(f field) {
	if f.get("type").text() == "function" {
		a.tool(f)
		return
	}
	rawTool(&a.Params, middleware.DialectResponses, f)
}

func (a *Request) responsesChoice(f field) {
	switch {
	case f.value.Type == gjson.String:
		a.add(llms.WithToolChoice(f.value.Str))
	case f.get("type").text() == "function":
		a.add(llms.WithToolChoice(llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: f.get("name").text()}}))
	default:
		extra(&a.Params, middleware.DialectResponses, "tool_choice", f)
	}
}

// input reads a conversation: a text of the user, or items.
func (a *Request) input(f field) {
	if f.value.Type == gjson.String {
		a.Messages = append(a.Messages, llms.TextParts(llms.ChatMessageTypeHuman, f.value.Str))
		return
	}
	f.each(func(f field) { a.item(f) })
}

// addAssistant adds parts to what the assistant says: its text, reasoning and calls are
// items of their own here, and one message to a model.
func (a *Request) addAssistant(parts ...llms.ContentPart) {
	a.extend(llms.ChatMessageTypeAI, parts...)
}

func (a *Request) extend(role llms.ChatMessageType, parts ...llms.ContentPart) {
	if last := len(a.Messages) - 1; last < 0 || a.Messages[last].Role != role {
		a.Messages = append(a.Messages, llms.MessageContent{Role: role})
	}
	m := &a.Messages[len(a.Messages)-1]
	m.Parts = append(m.Parts, parts...)
}

func (a *Request) item(f field) {
	kind := f.get("type").optional()
	if kind == "" && f.get("role").exists() {
		kind = "message"
	}
	switch kind {
	case "message":
		a.itemMessage(f)
	case "function_call":
		if p, ok := f.unknown(middleware.DialectResponses, partMembers, "type id status call_id name arguments"); ok {
			a.addAssistant(p)
		}
		a.addAssistant(llms.ToolCall{ID: f.get("call_id").text(), Type: "function", FunctionCall: &llms.FunctionCall{
			Name: f.get("name").text(), Arguments: f.get("arguments").optional(),
		}})
	case "function_call_output":
		if p, ok := f.unknown(middleware.DialectResponses, partMembers, "type id status call_id output"); ok {
			a.extend(llms.ChatMessageTypeTool, p)
		}
		a.extend(llms.ChatMessageTypeTool, f.callOutput())
	case "item_reference":
		f.refusef("this gateway keeps no state: send the item itself")
	case "":
		f.refusef("an item has neither type nor role")
	default:
		p, state := Open(middleware.DialectResponses, f.raw())
		if id := f.get("id").value.Str; strings.Contains(id, ownItem) && (!state || p.Model == Unknown) {
			return // made here for the client to read
		}
		a.addAssistant(p)
	}
}

func (a *Request) itemMessage(f field) {
	parts := f.get("content").inputParts()
	if p, ok := f.unknown(middleware.DialectResponses, messageMembers, "type id status role content"); ok {
		parts = append([]llms.ContentPart{p}, parts...)
	}
	switch role := f.get("role").text(); role {
	case "assistant":
		a.addAssistant(parts...)
	case "system", "developer":
		a.Messages = append(a.Messages, llms.MessageContent{Role: llms.ChatMessageTypeSystem, Parts: parts})
	case "user":
		a.Messages = append(a.Messages, llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: parts})
	default:
		f.get("role").refusef("is %q: want system, developer, user or assistant", role)
	}
}

func (f field) callOutput() llms.ContentPart {
	r := llms.ToolCallResponse{ToolCallID: f.get("call_id").text()}
	output := f.get("output")
	if !output.value.IsArray() {
		r.Content = output.optional()
		return r
	}
	parts := output.inputParts()
	var onlyText bool
	if r.Content, onlyText = textOf(parts); onlyText {
		return r
	}
	return middleware.ResultPart{ToolCallResponse: r, Parts: parts}
}

// inputParts reads the content of an item.
func (f field) inputParts() (parts []llms.ContentPart) {
	f.content(&parts, func(f field) {
		if p, ok := f.unknown(middleware.DialectResponses, partMembers, "type text logprobs refusal detail image_url filename file_data file_id file_url"); ok {
			parts = append(parts, p)
		}
		switch kind := f.get("type").text(); kind {
		case "input_text", "output_text", "text":
			parts = append(parts, llms.TextContent{Text: f.get("text").text()})
		case "refusal":
			parts = append(parts, refusalPart(f.get("refusal")))
		case "input_image":
			if id := f.get("file_id"); id.exists() {
				parts = append(parts, middleware.FilePart{ID: id.text(), MIMEType: "image/*"})
				return
			}
			url := f.get("image_url")
			parts = append(parts, url.image(url.optional(), f.get("detail").optional()))
		case "input_file":
			parts = append(parts, f.file("filename", "file_data", "file_id", "file_url"))
		default:
			f.get("type").refusef("is %q: want input_text, input_image or input_file", kind)
		}
	})
	return parts
}
