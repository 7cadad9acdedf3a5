package dialect

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// responses is OpenAI's Responses API without stored state: each request contains the whole conversation.
type responses struct{}

// responsesEcho is what an answer repeats of a request that sets none of these members.
var responsesEcho = Object{
	"instructions": nil, "max_output_tokens": nil, "parallel_tool_calls": true, "reasoning": json.RawMessage(`{"effort":null,"summary":null}`),
	"store": false, "temperature": nil, "text": json.RawMessage(`{"format":{"type":"text"}}`), "tool_choice": "auto",
	"tools": json.RawMessage("[]"), "top_p": nil, "truncation": "disabled", "user": nil, "metadata": json.RawMessage("{}"),
}

// ownItem marks the ids of items that this gateway created, which no provider knows.
const ownItem = "_sf_"

func (responses) Read(body gjson.Result, _ http.Header) (*Request, *Refusal) {
	a := &Request{Params: middleware.Params{Dialect: middleware.DialectResponses}}
	a.echo = maps.Clone(responsesEcho)
	fault := a.read(body, knownOfResponses, func(name string, f field) {
		if _, known := responsesEcho[name]; name == "max_tool_calls" || known && (name != "text" || f.get("format").exists()) {
			a.echo[name] = f.raw()
		}
		a.responsesParam(name, f)
	})
	if fault == nil && len(a.Messages) == 0 {
		fault = Invalid("input", "input: there is none")
	}
	return a, fault
}

// The members of parameters, tools, items and parts that are read here.
var (
	knownOfResponses     = newKnown("text.format.type text.format.name text.format.description text.format.schema text.format.strict tool_choice.type tool_choice.name" + responsesFields.names())
	knownOfResponsesTool = newKnown("type name description parameters") // strict is kept too, since leaving it out has a meaning
	knownOfItem          = newKnown("type id status role content call_id name arguments output")
)

func (a *Request) responsesParam(name string, f field) {
	p := &a.Params
	switch name {
	case "instructions":
		a.Messages = append([]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, f.text())}, a.Messages...)
	case "input":
		if f.value.Type == gjson.String {
			a.Messages = append(a.Messages, llms.TextParts(llms.ChatMessageTypeHuman, f.value.Str))
			return
		}
		f.each(a.item)
	case "stream_options":
	case "tools":
		a.readTools(middleware.DialectResponses, f, knownOfResponsesTool, func(f field) {
			if f.get("type").text() != "function" {
				rawTool(p, middleware.DialectResponses, f)
				return
			}
			a.tool(f, "parameters")
		})
	case "tool_choice":
		a.choice(middleware.DialectResponses, f, "name")
	case "text":
		responsesFields.read(p, name, f)
		if format := f.get("format"); format.exists() {
			a.format(format, format)
		}
	case "include":
		for _, word := range f.words() {
			if word == includeLogProbs {
				p.LogProbs = new(true)
			}
		}
		keepExtra(p, middleware.DialectResponses, name, f)
	case "previous_response_id", "conversation", "prompt":
		f.refusef("this gateway keeps no state: send the conversation as input, as many clients do if they are set to store: false")
	case "background":
		if f.truth() {
			f.refusef("this gateway keeps no state: answers are given at once or streamed")
		}
	default:
		if !responsesFields.read(p, name, f) {
			keepExtra(p, middleware.DialectResponses, name, f)
		}
		a.Labels = p.Metadata
	}
}

// The values of include that the gateway provides for any model: log-probabilities are requested from a model of
// another API in that API's terms, and its signed state is returned as an encrypted item.
const (
	includeLogProbs = "message.output_text.logprobs"
	includeSealed   = "reasoning.encrypted_content"
)

func includesOnlyOwn(list json.RawMessage) bool {
	var words []string
	return json.Unmarshal(list, &words) == nil &&
		!slices.ContainsFunc(words, func(word string) bool { return word != includeLogProbs && word != includeSealed })
}

// extend adds parts to the last message if it has the role: text, reasoning and calls are separate items here,
// but one message to a model.
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
		parts := responsesParts.read(f.get("content"))
		parts = append(f.unknown(middleware.DialectResponses, messageMembers, knownOfItem), parts...)
		switch role := f.get("role").text(); role {
		case "assistant":
			a.extend(llms.ChatMessageTypeAI, parts...)
		case "system", "developer", "user":
			own, _ := roleOf(llms.ChatMessageType(role))
			a.Messages = append(a.Messages, llms.MessageContent{Role: own, Parts: parts})
		default:
			f.get("role").refusef("is %q: want system, developer, user or assistant", role)
		}
	case "function_call":
		a.extend(llms.ChatMessageTypeAI, append(f.unknown(middleware.DialectResponses, partMembers, knownOfItem),
			newCall(f.get("call_id").text(), f.get("name").text(), f.get("arguments").optional()))...)
	case "function_call_output":
		a.extend(llms.ChatMessageTypeTool, append(f.unknown(middleware.DialectResponses, partMembers, knownOfItem), newResult(llms.ToolCallResponse{ToolCallID: f.get("call_id").text()}, responsesParts.read(f.get("output")), false))...)
	case "item_reference":
		f.refusef("this gateway keeps no state: send the item itself")
	case "":
		f.refusef("an item has neither type nor role")
	default:
		a.nativeItem(kind, f)
	}
}

// nativeItem reads an item that only this API has. A call that the client runs, and its output, get a function
// call and its result as replacements for other APIs.
func (a *Request) nativeItem(kind string, f field) {
	p, isState := Open(middleware.DialectResponses, f.raw())
	if id := f.get("id").value.Str; strings.Contains(id, ownItem) && (!isState || p.Model == Unknown) {
		return // created here for the client to read
	}
	role, hasCallID := llms.ChatMessageTypeAI, f.get("call_id").value.Str != ""
	switch {
	case hasCallID && strings.HasSuffix(kind, "_output"):
		role, p.Instead = llms.ChatMessageTypeTool, f.ownOutput()
	case hasCallID:
		p.Instead = itemCall(f.value)
	case strings.HasSuffix(kind, "_response"): // of the user, for example to a question of an MCP server
		role = llms.ChatMessageTypeHuman
	case f.get("role").exists(): // the caller's, such as additional_tools
		role, _ = roleOf(llms.ChatMessageType(f.get("role").text()))
	}
	a.extend(role, p)
}

// knownOfCall are the members of an item that are not arguments of its call.
var knownOfCall = newKnown("type id status call_id name")

// itemCall returns an item as a function call with its other members as arguments.
func itemCall(item gjson.Result) llms.ToolCall {
	name := cmp.Or(item.Get("name").Str, strings.TrimSuffix(item.Get("type").Str, "_call"))
	return newCall(item.Get("call_id").Str, name, "{"+string(knownOfCall.members(item))+"}")
}

// ownOutput returns the output of a call as the result of a function: an image, text or parts of a message, or
// else JSON.
func (f field) ownOutput() llms.ContentPart {
	r := llms.ToolCallResponse{ToolCallID: f.get("call_id").text()}
	output := f.get("output")
	var parts []llms.ContentPart
	var fault *Refusal
	switch image, id := output.get("image_url").value.Str, output.get("file_id").value.Str; {
	case image != "":
		parts = []llms.ContentPart{llms.ImageURLWithDetailPart(image, output.get("detail").value.Str)}
	case id != "":
		parts = []llms.ContentPart{middleware.FilePart{ID: id, MIMEType: "image/*"}}
	case !output.exists():
		r.Content = "{" + string(newKnown("type id call_id").members(f.value)) + "}"
	default:
		parts = responsesParts.read(field{value: output.value, fault: &fault})
	}
	if fault != nil {
		parts, r.Content = nil, output.value.Raw
	}
	return newResult(r, parts, f.get("status").value.Str == "failed")
}
