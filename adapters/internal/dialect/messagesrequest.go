package dialect

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

type messages struct{}

func (messages) Read(body gjson.Result, h http.Header) (*Request, *Refusal) {
	a := &Request{Params: middleware.Params{Dialect: middleware.DialectAnthropic}}
	var system []llms.ContentPart
	fault := a.read(body, knownOfMessages, func(name string, f field) {
		if name == "system" {
			system = f.blocks(nil)
			return
		}
		a.messagesParam(name, f)
	})
	switch {
	case fault != nil:
	case len(a.Messages) == 0:
		fault = Invalid("messages", "messages: there are none")
	case a.Params.MaxTokens == nil:
		fault = Invalid("max_tokens", "max_tokens: Field required")
	}
	a.betas(h)
	if len(system) > 0 {
		a.Messages = append([]llms.MessageContent{{Role: llms.ChatMessageTypeSystem, Parts: system}}, a.Messages...)
	}
	return a, fault
}

// The members of parameters, tools, messages and blocks that are read here.
var (
	knownOfMessages     = newKnown("output_config.format.type output_config.format.schema tool_choice.type tool_choice.name tool_choice.disable_parallel_tool_use" + messagesFields.names())
	knownOfMessagesTool = newKnown("type name description input_schema strict")
	knownOfTurn         = newKnown("role content")
	knownOfBlocks       = newKnown("type text citations title context content id name input tool_use_id is_error cache_control.type cache_control.ttl " +
		"source.type source.media_type source.data source.url source.file_id")
)

func (a *Request) messagesParam(name string, f field) {
	p := &a.Params
	switch name {
	case "messages":
		f.each(a.message)
	case "thinking":
		a.thinking(f)
	case "stop_sequences":
		if words := f.words(); len(words) > 0 {
			a.add(llms.WithStopWords(words))
		}
	case "tools":
		a.readTools(middleware.DialectAnthropic, f, knownOfMessagesTool, func(f field) {
			if kind := f.get("type").optional(); kind != "" && kind != "custom" { // one of Anthropic's own tools, for its models only
				rawTool(p, middleware.DialectAnthropic, f)
				return
			}
			a.tool(f, "input_schema")
		})
	case "tool_choice":
		a.messagesChoice(f)
	case "output_format": // the beta's name for output_config.format
		a.outputFormat(f)
		keepExtra(p, middleware.DialectAnthropic, name, f)
	case "thread":
		r := Invalid(name, "thread: this gateway keeps no state: send the conversation without it")
		r.Details = map[string]string{"error_code": "thread_unsupported_request"} // makes the official clients do that
		*f.fault = r
	case "output_config":
		messagesFields.read(p, name, f)
		if format := f.get("format"); format.exists() {
			a.outputFormat(format)
		}
	default:
		if !messagesFields.read(p, name, f) {
			keepExtra(p, middleware.DialectAnthropic, name, f)
		}
	}
}

// betas keeps the header anthropic-beta as the field that replaces it on other platforms.
func (a *Request) betas(h http.Header) {
	var names []string
	for _, line := range h.Values("Anthropic-Beta") {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	keepExtra(&a.Params, middleware.DialectAnthropic, "anthropic_beta", field{value: gjson.ParseBytes(rawJSON(names))})
}

func (a *Request) outputFormat(f field) {
	schema := f.get("schema")
	if f.get("type").optional() != "json_schema" || !schema.value.IsObject() {
		f.refusef("want the type json_schema and a schema")
		return
	}
	a.Params.Schema = &middleware.Schema{Name: "answer", Schema: schema.raw()}
}

// thinking reads the parameter thinking, and keeps it unchanged for Anthropic's own models.
func (a *Request) thinking(f field) {
	kind := f.get("type").text()
	if a.showsThoughts = kind != "disabled"; kind == "enabled" {
		a.Params.ReasoningTokens = f.get("budget_tokens").positive()
	}
	keepExtra(&a.Params, middleware.DialectAnthropic, "thinking", f)
}

func (a *Request) messagesChoice(f field) {
	switch kind := f.get("type").text(); kind {
	case "auto", "none":
		a.add(llms.WithToolChoice(kind))
	case "any":
		a.add(llms.WithToolChoice("required"))
	case "tool":
		a.add(llms.WithToolChoice(llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: f.get("name").text()}}))
	default:
		f.get("type").refusef("is %q: want auto, any, tool or none", kind)
	}
	if one := f.get("disable_parallel_tool_use"); one.exists() {
		a.Params.ParallelToolCalls = new(!one.truth())
	}
}

// message reads a message. Tool results become separate messages.
func (a *Request) message(f field) {
	content := f.get("content")
	first := f.unknown(middleware.DialectAnthropic, messageMembers, knownOfTurn)
	switch role := f.get("role").text(); role {
	case "assistant", "system": // the API accepts system messages within a conversation too
		own, _ := roleOf(llms.ChatMessageType(role))
		a.Messages = append(a.Messages, llms.MessageContent{Role: own, Parts: append(first, content.blocks(nil)...)})
	case "user":
		from := len(a.Messages)
		content.blocks(func(p llms.ContentPart, result bool) {
			kind := llms.ChatMessageTypeHuman
			if result {
				kind = llms.ChatMessageTypeTool
			}
			if last := len(a.Messages) - 1; last < from || a.Messages[last].Role != kind {
				a.Messages = append(a.Messages, llms.MessageContent{Role: kind})
			}
			m := &a.Messages[len(a.Messages)-1]
			m.Parts, first = append(append(m.Parts, first...), p), nil
		})
	default:
		f.get("role").refusef("is %q: want user or assistant", role)
	}
}

// deepestBlocks limits the nesting of blocks, because each block is read once per level of nesting.
const deepestBlocks = 8

// blocks reads content, a string or a list of blocks. It passes the parts to take, or returns them if take is
// nil.
func (f field) blocks(take func(p llms.ContentPart, result bool)) (parts []llms.ContentPart) {
	if take == nil {
		take = func(p llms.ContentPart, _ bool) { parts = append(parts, p) }
	}
	if f.value.Type == gjson.String {
		take(llms.TextContent{Text: f.value.Str}, false)
		return parts
	}
	f.each(func(f field) {
		if strings.Count(f.path, ".content") > deepestBlocks {
			f.refusef("blocks are nested more than %d deep", deepestBlocks)
			return
		}
		p, result := f.block()
		if p == nil {
			return
		}
		if _, isRaw := p.(middleware.RawPart); !isRaw {
			if c := f.get("cache_control"); c.exists() {
				ttl, _ := time.ParseDuration(c.get("ttl").optional()) // 0 if it is not a duration
				p = llms.CachedContent{ContentPart: p, CacheControl: &llms.CacheControl{Type: c.of("type").optional(), Duration: ttl}}
			}
			for _, members := range f.unknown(middleware.DialectAnthropic, partMembers, knownOfBlocks) {
				take(members, result)
			}
		}
		take(p, result)
	})
	return parts
}

// block reads one block of content, or returns nil for one that no later turn needs.
func (f field) block() (p llms.ContentPart, result bool) {
	switch kind := f.get("type").text(); kind {
	case "text":
		if f.get("citations").value.IsArray() {
			p, _ := Open(middleware.DialectAnthropic, f.raw())
			p.Text = f.get("text").text()
			return p, false
		}
		return llms.TextContent{Text: f.get("text").text()}, false
	case "image":
		return f.get("source").source(false), false
	case "document":
		return f.document(), false
	case "search_result":
		return middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: f.raw(), Instead: f.inlineText(f.get("content"), f.get("source").optional())}, false
	case "tool_use":
		input := f.get("input")
		if !input.value.IsObject() {
			input.refusef("want an object")
		}
		return newCall(f.get("id").text(), f.get("name").text(), input.value.Raw), false
	case "tool_result":
		return f.toolResult(), true
	case "thinking", "redacted_thinking":
		if f.get("signature").value.Str+f.get("data").value.Str == "" {
			return nil, false // it comes from a model that does not accept it back
		}
	case "compaction": // a summary of the conversation so far
		p := middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: f.raw()}
		if f.get("encrypted_content").exists() || f.get("signature").exists() {
			p, _ = Open(middleware.DialectAnthropic, f.raw())
		}
		p.Instead = llms.TextContent{Text: f.get("content").optional()}
		return p, false
	case "":
		f.refusef("a block has no type")
		return nil, false
	}
	// A type that is unknown here comes from a model that knows it.
	p, _ = Open(middleware.DialectAnthropic, f.raw())
	return p, false
}

// document reads a file. A file that is cited or consists of blocks keeps its own form, with a replacement for
// other APIs.
func (f field) document() (p llms.ContentPart) {
	source, isCited := f.get("source"), f.get("citations").exists() || f.get("context").exists()
	switch kind := source.get("type").value.Str; kind {
	case "content":
		p, isCited = f.inlineText(source.get("content"), ""), true
	default:
		p = source.source(true)
		if file, ok := p.(middleware.FilePart); ok {
			file.Name = f.get("title").optional()
			p = file
		}
		if isCited && kind == "text" {
			p = f.inlineText(source.get("data"), "")
		}
	}
	if isCited {
		return middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: f.raw(), Instead: p}
	}
	return p
}

// inlineText returns a document or a search result as text for models of other APIs, with its title, context and
// source but without citations. It returns nil if there is more than text.
func (f field) inlineText(content field, source string) llms.ContentPart {
	text, isText := content.texts()
	if !isText {
		return nil // an image cannot be part of a text
	}
	parts := slices.DeleteFunc([]string{f.get("title").optional(), f.get("context").optional(), source}, func(part string) bool { return part == "" })
	return llms.TextContent{Text: strings.Join(append(parts, text), "\n\n")}
}

// texts returns a string, or the joined texts of blocks if all of them are texts.
func (f field) texts() (text string, isText bool) {
	if !f.value.IsArray() {
		return f.text(), true
	}
	var texts []string
	for _, p := range f.blocks(nil) {
		one, isText := p.(llms.TextContent)
		if !isText {
			return "", false
		}
		texts = append(texts, one.Text)
	}
	return strings.Join(texts, "\n\n"), true
}

func (f field) source(document bool) llms.ContentPart {
	mime := f.get("media_type").optional()
	switch kind := f.get("type").text(); kind {
	case "base64":
		_, data := f.get("data").decodeData(mime)
		if !document {
			return llms.BinaryContent{MIMEType: mime, Data: data}
		}
		return middleware.FilePart{MIMEType: mime, Data: data}
	case "text":
		return middleware.FilePart{MIMEType: "text/plain", Data: []byte(f.get("data").text())}
	case "url":
		if !document {
			return f.image(f.get("url").text(), "")
		}
		return middleware.FilePart{URL: f.get("url").text()}
	case "file":
		file := middleware.FilePart{ID: f.get("file_id").text()}
		if !document {
			file.MIMEType = "image/*"
		}
		return file
	default:
		f.get("type").refusef("is %q: want base64, url, text or file", kind)
		return nil
	}
}

func (f field) toolResult() llms.ContentPart {
	var parts []llms.ContentPart
	if content := f.get("content"); content.exists() {
		parts = content.blocks(nil)
	}
	return newResult(llms.ToolCallResponse{ToolCallID: f.get("tool_use_id").text()}, parts, f.get("is_error").truth())
}
