package middleware

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

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
	messages = replaceParts(messages, r.part)
	var out []llms.MessageContent
	for i, m := range messages {
		role := normalRole(m.Role)
		split := len(m.Parts) > 1 && r.readsOnePart(role)
		if out == nil {
			if role == m.Role && !split {
				continue
			}
			out = append(make([]llms.MessageContent, 0, len(messages)+4), messages[:i]...)
		}
		if m.Role = role; !split {
			out = append(out, m)
			continue
		}
		// The API joins consecutive messages of one role again.
		for _, p := range m.Parts {
			out = append(out, llms.MessageContent{Role: role, Parts: []llms.ContentPart{p}})
		}
	}
	if out == nil {
		return messages
	}
	return out
}

// replaceParts returns messages with each part replaced by the result of replace, which removes a part by returning
// nil and reports whether it changed it. The caller's messages are not modified, and are returned if nothing changes.
func replaceParts(messages []llms.MessageContent, replace func(p llms.ContentPart) (own llms.ContentPart, isChanged bool)) []llms.MessageContent {
	var list []llms.MessageContent
	for i, m := range messages {
		var parts []llms.ContentPart
		for k, p := range m.Parts {
			own, isChanged := replace(p)
			if isChanged && parts == nil {
				parts = append(make([]llms.ContentPart, 0, len(m.Parts)), m.Parts[:k]...)
			}
			if parts != nil && own != nil {
				parts = append(parts, own)
			}
		}
		if parts != nil {
			if m.Parts = parts; list == nil {
				list = append(make([]llms.MessageContent, 0, len(messages)), messages[:i]...)
			}
		}
		if list != nil && (parts == nil || len(parts) > 0) {
			list = append(list, m)
		}
	}
	if list == nil {
		return messages
	}
	return list
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

// part returns a part in the form that the provider's client needs, and whether that differs from the part itself.
func (r *rewriter) part(p llms.ContentPart) (own llms.ContentPart, isChanged bool) {
	k := r.kind
	switch part := p.(type) {
	case llms.CachedContent:
		if k == kindAnthropic || k == kindNative {
			return p, false
		}
		// The openai client silently drops it.
		inner, _ := r.part(unwrap(part))
		return inner, true
	case llms.BinaryContent:
		if k == kindOpenAI || k == kindMistral {
			return llms.ImageURLContent{URL: part.String()}, true
		}
	case llms.ImageURLContent:
		if k == kindAnthropic || k == kindOllama {
			if binary, ok := dataURL(part.URL); ok {
				return binary, true
			}
		}
	case llms.ToolCall:
		id := r.callID(part.ID, &r.calls)
		if fresh, same := rewriteToolCall(part); !same || id != part.ID {
			fresh.ID = id
			return fresh, true
		}
	case llms.ToolCallResponse:
		id, name := r.callID(part.ToolCallID, &r.results), part.Name
		if name == "" && k == kindGoogle {
			name = r.toolName(part.ToolCallID)
		}
		if id != part.ToolCallID || name != part.Name {
			part.ToolCallID, part.Name = id, name
			return part, true
		}
	}
	return p, false
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
		r.names = map[string]string{}
		for i := range r.messages {
			for _, p := range r.messages[i].Parts {
				if c, ok := unwrap(p).(llms.ToolCall); ok && c.FunctionCall != nil {
					r.names[c.ID] = c.FunctionCall.Name
				}
			}
		}
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
	if f := part.FunctionCall; f != nil && (!strings.HasPrefix(strings.TrimSpace(f.Arguments), "{") || !json.Valid([]byte(f.Arguments))) {
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
