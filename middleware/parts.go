package middleware

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"
)

// Message parts that langchaingo has no form for. A [NativeModel] reads them; models that
// are none are given what is said at each.

// RawPart is a piece of a message in one API's own form: reasoning with its signature, a result of the
// provider's own tools, a citation. It goes to models of its dialect; others get Instead or the Text,
// or nothing if there is neither.
type RawPart struct {
	llms.TextContent
	Dialect Dialect
	// Model is the model that signed, encrypted or generated the part, by its provider's name for itself.
	// The part goes back only to that model. If empty, it goes to every model of the dialect.
	Model string
	// Raw is the content block (anthropic), the item of the output (openai.responses),
	// the part (gemini), or members of the message (openai.chat, ollama).
	Raw json.RawMessage
	// Instead is what models of other dialects get; nil is the Text.
	Instead llms.ContentPart
}

// FilePart is an attached file: its data, its address, or the provider's name for it. Complete files
// may be llms.BinaryContent as well. Models that are no NativeModel get Data as llms.BinaryContent.
type FilePart struct {
	llms.TextContent
	Name, MIMEType string
	Data           []byte
	URL, ID        string
}

// ResultPart is the result of a tool that has more than text, or that failed. Models that are no
// NativeModel get the text.
type ResultPart struct {
	llms.ToolCallResponse
	Failed bool
	Parts  []llms.ContentPart
}

// NamePart names the author of its message, in a conversation with several users. Models that are no
// NativeModel do not get it.
type NamePart struct {
	llms.TextContent
	Name string
}
