package sdk

import (
	"cmp"
	"slices"
)

// Query is the input of one agent step.
//
// The zero value is an empty conversation without an origin. Estimators must accept any empty field
// and must not modify the query.
type Query struct {
	// ID names the query within its run or outcome table.
	ID string `json:"id,omitempty"`
	// Group is where the query comes from: a benchmark, a repository, a kind of task.
	Group string `json:"group,omitempty"`

	Messages []Message `json:"messages,omitempty"`
	Tools    []Tool    `json:"tools,omitempty"`
	// Format is the format that the caller requested for the answer.
	Format ResponseFormat `json:"format,omitzero"`
	// ToolChoice is the name of the tool that the answer must call, or [AnyTool]; empty when the model decides.
	ToolChoice string `json:"tool_choice,omitempty"`
	// MaxOutputTokens is the caller's limit on one answer; 0 means none.
	MaxOutputTokens int `json:"max_output_tokens,omitempty"`
	// InputTokens is the estimated length of the prompt in tokens.
	InputTokens int `json:"input_tokens,omitempty"`

	// Run, Session and Tenant name the budgets and the conversation that the step belongs to.
	Run     string `json:"run,omitempty"`
	Session string `json:"session,omitempty"`
	Tenant  string `json:"tenant,omitempty"`
	// Conversation groups queries that have neither Run nor Session: a digest of the beginning of their
	// conversation.
	Conversation string `json:"conversation,omitempty"`

	Labels map[string]string `json:"labels,omitempty"`
	// Features are numbers known before any model runs, by name, such as the turn of the conversation, the
	// number of tools offered, or repeated calls.
	Features map[string]float64 `json:"features,omitempty"`

	// WorkDir is the source tree that the query is about, if there is one. Verifiers work on a copy of it
	// and never write to it.
	WorkDir string `json:"work_dir,omitempty"`
	// Checks are the tests that decide about an answer, if they are known.
	Checks Checks `json:"checks,omitzero"`
}

// AnyTool is the ToolChoice of a query whose answer must call a tool, no matter which. Among the Tools it stands for
// tools on offer whose names only the provider knows.
const AnyTool = "*"

// Tool returns the tool on offer with a name, or nil if it is not offered. Where the query offers [AnyTool], every name is.
func (q *Query) Tool(name string) (found *Tool) {
	for i := range q.Tools {
		switch q.Tools[i].Name {
		case name:
			return &q.Tools[i]
		case AnyTool:
			found = &q.Tools[i]
		}
	}
	return found
}

// ResponseFormat is the format that a caller requested for an answer.
type ResponseFormat struct {
	// JSON is true when the answer must be one JSON value.
	JSON bool `json:"json,omitempty"`
	// Schema is the JSON schema that the answer must satisfy; empty when none.
	Schema []byte `json:"schema,omitempty"`
}

// Checks names the tests that decide about an answer to a query.
type Checks struct {
	// FailToPass fail on the untouched tree and must pass with the answer.
	FailToPass []string `json:"fail_to_pass,omitempty"`
	// PassToPass pass on the untouched tree and must still pass with the answer.
	PassToPass []string `json:"pass_to_pass,omitempty"`
}

// RunName returns the name under which a cap on one run counts the query: Run, or else Session. It is
// empty if neither is set: Conversation does not count, since unrelated conversations can begin alike.
func (q *Query) RunName() string { return cmp.Or(q.Run, q.Session) }

// LastUserText returns the text of the user's last message, or "".
func (q *Query) LastUserText() string {
	for _, m := range slices.Backward(q.Messages) {
		if m.Role == RoleUser {
			return m.Text()
		}
	}
	return ""
}

// Text returns the text parts of m, joined by newlines.
func (m Message) Text() string {
	text, several := "", false
	for _, p := range m.Parts {
		if p.Kind != PartText {
			continue
		}
		if several {
			text += "\n"
		}
		text, several = text+p.Text, true
	}
	return text
}
