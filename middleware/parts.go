package middleware

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"
)

// Message parts that langchaingo has no types for. A [NativeModel] reads them; what other models get
// instead is stated at each type.

// RawPart is a piece of a message in one API's own form: reasoning with its signature, a result of the
// provider's own tools, a citation. It is sent to models of its dialect. Others get Instead or the Text,
// or nothing if there is neither.
type RawPart struct {
	llms.TextContent
	Dialect Dialect
	// Model is the provider's name of the model that signed, encrypted or generated the part, which is sent
	// back only to that model. If empty, the part is sent to every model of the dialect.
	Model string
	// Raw is the content block (anthropic), the item of the output (openai.responses),
	// the part (gemini), or members of the message (openai.chat, ollama).
	Raw json.RawMessage
	// Instead is sent to models of other dialects; nil means the Text.
	Instead llms.ContentPart
}

// FilePart is an attached file: its data, its URL, or the provider's ID for it. Complete files can also be
// llms.BinaryContent. Models that are not a NativeModel get Data as llms.BinaryContent.
type FilePart struct {
	llms.TextContent
	Name, MIMEType string
	Data           []byte
	URL, ID        string
}

// ResultPart is the result of a tool that failed or that returned more than text. Models that are not a
// NativeModel get the text.
type ResultPart struct {
	llms.ToolCallResponse
	Failed bool
	Parts  []llms.ContentPart
}

// NamePart names the author of its message, in a conversation with several users. Models that are not a
// NativeModel do not get it.
type NamePart struct {
	llms.TextContent
	Name string
}
