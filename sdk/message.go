package sdk

// Role says who wrote a message.
type Role string

// The roles of a conversation.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// PartKind says which fields of a Part are set.
type PartKind string

// The kinds of Part.
const (
	PartText       PartKind = "text"        // Text
	PartImageURL   PartKind = "image_url"   // URL
	PartBinary     PartKind = "binary"      // MIMEType, Data
	PartToolCall   PartKind = "tool_call"   // ToolCall
	PartToolResult PartKind = "tool_result" // ToolResult
)

// Part is a piece of a message. Kind says which of the other fields are set.
type Part struct {
	Kind       PartKind    `json:"kind"`
	Text       string      `json:"text,omitempty"`
	URL        string      `json:"url,omitempty"`
	MIMEType   string      `json:"mime_type,omitempty"`
	Data       []byte      `json:"data,omitempty"`
	ToolCall   *ToolCall   `json:"tool_call,omitempty"`
	ToolResult *ToolResult `json:"tool_result,omitempty"`
}

// TextPart returns a Part that holds text.
func TextPart(text string) Part { return Part{Kind: PartText, Text: text} }

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Arguments is the text that the model wrote. It should be JSON but need not be.
	Arguments string `json:"arguments"`
}

// ToolResult is what a tool returned.
type ToolResult struct {
	CallID  string `json:"call_id,omitempty"`
	Name    string `json:"name,omitempty"`
	Content string `json:"content"`
	// IsError is true if the tool reported that it failed.
	IsError bool `json:"is_error,omitempty"`
}

// Tool is a tool that a query offers.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Parameters is the JSON schema of the arguments; empty when unknown.
	Parameters []byte `json:"parameters,omitempty"`
}
