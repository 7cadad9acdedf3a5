package middleware

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"
)

// Message parts that langchaingo has no form for. A [NativeModel] reads them; models that
// are none are given what is said at each.

// RawPart is a piece of a message in one API's own form: reasoning with its signature,
// a result of the provider's own tools, a citation. It goes to models of its dialect;
// others are given Instead or the Text, or nothing when there is neither.
type RawPart struct {
	llms.TextContent
	Dialect Dialect
	// Model says whose state the part is, as that model's provider names itself: what
	// it signed, encrypted or thought. It goes back to that model alone. Empty is
	// nobody's: the part goes to every model of the dialect.
	Model string
	// Raw is the content block (anthropic), the item of the output (openai.responses),
	// the part (gemini), or members of the message (openai.chat, ollama).
	Raw json.RawMessage
	// Instead is what models of other dialects are given; nil is the Text.
	Instead llms.ContentPart
}

// FilePart is a file that is sent along: in full, by its address, or by the name under
// which the provider has it. Files in full may be llms.BinaryContent as well. Models
// that are no NativeModel are given Data as llms.BinaryContent.
type FilePart struct {
	llms.TextContent
	Name, MIMEType string
	Data           []byte
	URL, ID        string
}

// ResultPart is the result of a tool that has more than text, or that failed. Models
// that are no NativeModel are given the text.
type ResultPart struct {
	llms.ToolCallResponse
	Failed bool
	Parts  []llms.ContentPart
}

// NamePart names who speaks in its message, where a conversation has several users.
// Models that are no NativeModel are not told.
type NamePart struct {
	llms.TextContent
	Name string
}
