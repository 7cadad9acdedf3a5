package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/tmc/langchaingo/llms"
)

// normalRole maps the names of roles that other libraries use to langchaingo's, because its openai client
// rejects all others.
func normalRole(r llms.ChatMessageType) llms.ChatMessageType {
	switch r {
	case "user":
		return llms.ChatMessageTypeHuman
	case "assistant", "model":
		return llms.ChatMessageTypeAI
	case "developer":
		return llms.ChatMessageTypeSystem
	}
	return r
}

// rewriter converts messages to the form that a provider's client understands.
type rewriter struct {
	kind     kind
	shortIDs bool // call ids must have nine letters and digits
	messages []llms.MessageContent
	names    map[string]string // tool names by call id, built on first use
	calls    int               // calls without an id so far
	results  int
}

// rewrite returns the messages in the form that a provider's client understands. The caller's messages are
// never modified, and are returned unchanged if nothing needs to change.
func rewrite(messages []llms.MessageContent, k kind, shortIDs bool) []llms.MessageContent {
	if k != kindNative {
		messages = plainMessages(messages)
	}
	r := rewriter{kind: k, shortIDs: shortIDs, messages: messages}
	var out []llms.MessageContent
	for i := range messages {
		message, changed := r.message(messages[i])
		split := len(message.Parts) > 1 && r.readsOnePart(message.Role)
		if !changed && !split {
			if out != nil {
				out = append(out, message)
			}
			continue
		}
		if out == nil {
			out = append(make([]llms.MessageContent, 0, len(messages)+4), messages[:i]...)
		}
		if !split {
			out = append(out, message)
			continue
		}
		// The API joins consecutive messages of one role again.
		for _, p := range message.Parts {
			out = append(out, llms.MessageContent{Role: message.Role, Parts: []llms.ContentPart{p}})
		}
	}
	if out == nil {
		return messages
	}
	return out
}

// readsOnePart reports whether the client reads only the first part of messages of that role, or rejects more.
func (r *rewriter) readsOnePart(role llms.ChatMessageType) bool {
	switch role {
	case llms.ChatMessageTypeAI, llms.ChatMessageTypeSystem:
		return r.kind == kindAnthropic
	case llms.ChatMessageTypeTool:
		return r.kind == kindAnthropic || r.kind == kindOpenAI
	}
	return false
}

func (r *rewriter) message(message llms.MessageContent) (llms.MessageContent, bool) {
	role := normalRole(message.Role)
	changed := role != message.Role
	message.Role = role
	copied := false
	for j, p := range message.Parts {
		fresh, same := r.part(p)
		if same {
			continue
		}
		if !copied {
			message.Parts = append([]llms.ContentPart(nil), message.Parts...)
			copied = true
		}
		message.Parts[j] = fresh
	}
	return message, changed || copied
}

// part returns a part in the form that the provider's client needs, and whether that is the part itself.
func (r *rewriter) part(p llms.ContentPart) (llms.ContentPart, bool) {
	k := r.kind
	switch part := p.(type) {
	case llms.CachedContent:
		if k == kindAnthropic || k == kindNative {
			return p, true
		}
		// The openai client silently drops it.
		inner, _ := r.part(unwrap(part))
		return inner, false
	case llms.BinaryContent:
		if k == kindOpenAI || k == kindMistral {
			return llms.ImageURLContent{URL: part.String()}, false
		}
	case llms.ImageURLContent:
		if k == kindAnthropic || k == kindOllama {
			if binary, ok := dataURL(part.URL); ok {
				return binary, false
			}
		}
	case llms.ToolCall:
		id := r.callID(part.ID, &r.calls)
		if fresh, same := rewriteToolCall(part); !same || id != part.ID {
			fresh.ID = id
			return fresh, false
		}
	case llms.ToolCallResponse:
		id, name := r.callID(part.ToolCallID, &r.results), part.Name
		if name == "" && k == kindGoogle {
			name = r.toolName(part.ToolCallID)
		}
		if id != part.ToolCallID || name != part.Name {
			part.ToolCallID, part.Name = id, name
			return part, false
		}
	}
	return p, true
}

// callID returns the provider's form of a call id; equal ids give equal results. Calls and results without an id,
// as produced by langchaingo's googleai client, are matched by their order.
func (r *rewriter) callID(id string, without *int) string {
	if id == "" {
		id = fmt.Sprintf("stepfall_call_%d", *without)
		*without++
	}
	if !r.shortIDs || shortID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}

var (
	shortID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	// mistralName matches the models whose API rejects other ids.
	mistralName = regexp.MustCompile(`(?i)(mis|minis|magis|devs|codes|mix|pix)tral`)
)

func (r *rewriter) toolName(id string) string {
	if r.names == nil {
		r.names = toolNames(r.messages)
	}
	return r.names[id]
}

// rewriteToolCall gives a call in the history the type that openai requires, and
// arguments that are a JSON object: the functions agent stores the bare argument.
func rewriteToolCall(part llms.ToolCall) (llms.ToolCall, bool) {
	same := true
	if part.Type == "" {
		part.Type, same = "function", false
	}
	if f := part.FunctionCall; f != nil && !isJSONObject(f.Arguments) {
		arguments, err := json.Marshal(map[string]string{"__arg1": f.Arguments})
		if f.Arguments == "" {
			arguments = []byte("{}")
		}
		if err == nil {
			part.FunctionCall, same = &llms.FunctionCall{Name: f.Name, Arguments: string(arguments)}, false
		}
	}
	return part, same
}

func isJSONObject(text string) bool {
	for i := range len(text) {
		switch text[i] {
		case ' ', '\t', '\n', '\r':
			continue
		case '{':
			return json.Valid([]byte(text))
		}
		return false
	}
	return false
}

func toolNames(messages []llms.MessageContent) map[string]string {
	names := map[string]string{}
	for i := range messages {
		for _, p := range messages[i].Parts {
			if c, ok := unwrap(p).(llms.ToolCall); ok && c.FunctionCall != nil {
				names[c.ID] = c.FunctionCall.Name
			}
		}
	}
	return names
}
