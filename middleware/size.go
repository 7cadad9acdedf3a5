package middleware

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// imageTokens is the expected length of an image in tokens.
const imageTokens = 1000

type size struct {
	bytes, images, parts, calls int
	// data is the length of content that does not count in the expected tokens: audio, documents, and fields
	// that only one API has.
	data int
	// unknownFiles counts files whose tokens only the server can count.
	unknownFiles int
	// hourly is set if the request caches something for an hour.
	hourly bool
}

// add counts an image or another file. Audio has fewer tokens than bytes. A document can have more,
// because its bytes do not limit its number of pages.
func (s *size) add(mimeType string, data []byte) {
	s.images++
	switch kind, _, _ := strings.Cut(mimeType, "/"); {
	case kind == "audio" && len(data) > 0:
		s.data += len(data)
	case kind == "text":
		s.bytes += len(data)
		s.unknownFiles++
	case kind != "image":
		s.data += len(data)
		s.unknownFiles++
	}
}

// inlineTypes are suffixes of the types of raw parts, and inlineMembers are members of messages and parts,
// that contain all their content and refer to nothing outside, such as a file.
var (
	inlineTypes   = []string{"_call", "_output", "_result", "_use", "reasoning", "refusal", "text", "thinking"}
	inlineMembers = []string{"annotations", "args", "cache_control", "call_id", "caller", "citations", "code", "detail", "extra_content", "id", "index", "language", "logprobs", "metadata", "name", "namespace", "outcome", "output", "phase",
		"provider_metadata", "reasoning", "reasoning_content", "reasoning_details", "refusal", "response", "signature", "status", "text", "thoughtSignature", "thought_signature", "title", "tool_calls", "type"}
)

// addRaw counts a part in an API's own form, including the files that it refers to.
func (s *size) addRaw(p RawPart) {
	if file, _ := p.Instead.(FilePart); len(file.Data) > 0 && !strings.HasPrefix(file.MIMEType, "text/") {
		s.images++
		s.data += len(p.Raw)
	} else {
		s.bytes += max(len(p.Text), len(p.Raw))
	}
	s.hourly = s.hourly || hasLongTTL(p.Raw)
	if p.Model != "" { // the provider's own state
		return
	}
	var own map[string]json.RawMessage // a map, because its names are matched exactly
	if bytes.Contains(p.Raw, []byte("image")) || bytes.IndexByte(p.Raw, '\\') >= 0 {
		s.images += bytes.Count(canonicalJSON(p.Raw), []byte(`"image`))
	}
	_ = json.Unmarshal(p.Raw, &own) // a value that is not an object has no type
	kind := jsonText(own["type"])
	_, isText := p.Instead.(llms.TextContent)
	switch {
	case kind == "":
		for _, of := range own {
			var members map[string]json.RawMessage
			_ = json.Unmarshal(of, &members) // a single value refers to no file
			s.addMembers(members)
		}
	case !isInlineType(kind) && !isText:
		s.unknownFiles++
	default:
		s.addParts(own, maxPartDepth)
	}
}

// maxPartDepth is how deeply the parts of a tool's result can be nested.
const maxPartDepth = 3

// addParts counts the files among the parts of a tool's result, or of one of its parts.
func (s *size) addParts(own map[string]json.RawMessage, depth int) {
	for _, name := range [...]string{"content", "output"} {
		var parts []map[string]json.RawMessage
		if json.Unmarshal(own[name], &parts) != nil {
			parts = make([]map[string]json.RawMessage, 1)
			_ = json.Unmarshal(own[name], &parts[0]) // a text has no parts
		}
		for _, part := range parts {
			switch kind := jsonText(part["type"]); {
			case kind == "" || strings.Contains(kind, "image"):
			case !isInlineType(kind) || depth == 0:
				s.unknownFiles++
			case strings.HasSuffix(kind, "text"):
				s.addMembers(part)
			default:
				s.addParts(part, depth-1)
			}
		}
	}
}

func isInlineType(kind string) bool {
	return slices.ContainsFunc(inlineTypes, func(end string) bool { return strings.HasSuffix(kind, end) })
}

// addMembers counts the unknown members of messages and parts, each of which can refer to a file.
func (s *size) addMembers(members map[string]json.RawMessage) {
	for name, value := range members {
		if bytes.ContainsAny(value[:1], `"[{`) && !slices.Contains(inlineMembers, name) {
			s.unknownFiles++
		}
	}
}

func (s *size) count(messages []llms.MessageContent) {
	for i := range messages {
		s.parts += len(messages[i].Parts)
		for _, p := range messages[i].Parts {
			if cached, ok := p.(llms.CachedContent); ok && cached.CacheControl != nil && cached.CacheControl.Duration >= time.Hour {
				s.hourly = true
			}
			switch unwrap(p).(type) {
			case llms.ToolCall, llms.ToolCallResponse, ResultPart:
				s.calls++
			}
		}
	}
}

// addResult counts the parts of a tool's result and returns its files.
func (s *size) addResult(r ResultPart) (files []sdk.Part) {
	text := 0 // repeated in the content, if that is set
	for _, p := range r.Parts {
		switch p := unwrap(p).(type) {
		case llms.TextContent:
			text += len(p.Text)
		case RawPart:
			s.addRaw(p)
		case llms.ImageURLContent, llms.BinaryContent, FilePart:
			files = append(files, s.addFile(p))
		}
	}
	s.bytes += max(text, len(r.Content))
	return files
}

func (s *size) addFile(p llms.ContentPart) sdk.Part {
	switch p := p.(type) {
	case llms.BinaryContent:
		s.add(p.MIMEType, p.Data)
		return sdk.Part{Kind: sdk.PartBinary, MIMEType: p.MIMEType, Data: p.Data}
	case FilePart:
		s.add(p.MIMEType, p.Data)
		return sdk.Part{Kind: sdk.PartBinary, MIMEType: p.MIMEType, URL: p.URL, Data: p.Data}
	case llms.ImageURLContent:
		s.images++
		return sdk.Part{Kind: sdk.PartImageURL, URL: p.URL}
	}
	return sdk.Part{}
}

// addRequest counts everything in a request but its messages.
func (s *size) addRequest(q *sdk.Query, p *Params) {
	s.addTools(q.Tools)
	if len(q.Format.Schema) > 0 {
		s.bytes += len(q.Format.Schema) + len(schemaInstruction)
	}
	for _, raw := range p.RawTools {
		s.bytes += len(raw)
	}
	for _, raw := range p.Extra {
		s.data += len(raw)
	}
}

func (s *size) addTools(tools []sdk.Tool) {
	for i := range tools {
		s.bytes += len(tools[i].Name) + len(tools[i].Description) + len(tools[i].Parameters) + 16
	}
}

func (s *size) tokens() int { return (s.bytes+3)/4 + s.images*imageTokens }

// EstimateTokens returns the expected length of a prompt in tokens, as caps count it: one token for four
// bytes, and 1,000 for an image or another file.
func EstimateTokens(messages []llms.MessageContent, tools []llms.Tool) int {
	var s size
	queryMessages(messages, &s)
	s.addTools(queryTools(tools))
	return s.tokens()
}
