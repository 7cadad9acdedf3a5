package middleware

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"
)

// normalRole maps the names of roles that other libraries use to langchaingo's;
// its openai client refuses all others.
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

// rewrite returns the messages in the form that a provider's client understands. The caller's are
// never modified, and returned as they are if nothing needs to change.
func rewrite(messages []llms.MessageContent, k kind) []llms.MessageContent {
	if k != kindNative {
		messages = plainMessages(messages)
	}
	names := map[string]string(nil) // tool by call id, made when first needed
	var out []llms.MessageContent
	for i := range messages {
		message, changed := rewriteMessage(messages, i, k, &names)
		split := k == kindAnthropic && len(message.Parts) > 1 &&
			(message.Role == llms.ChatMessageTypeAI || message.Role == llms.ChatMessageTypeSystem)
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
		// The client reads the first part of such messages only; it joins
		// messages of one role again.
		for _, p := range message.Parts {
			out = append(out, llms.MessageContent{Role: message.Role, Parts: []llms.ContentPart{p}})
		}
	}
	if out == nil {
		return messages
	}
	return out
}

func rewriteMessage(messages []llms.MessageContent, i int, k kind, names *map[string]string) (llms.MessageContent, bool) {
	message := messages[i]
	role := normalRole(message.Role)
	changed := role != message.Role
	message.Role = role
	copied := false
	for j, p := range message.Parts {
		fresh, same := rewritePart(p, k, messages, names)
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

// rewritePart returns a part as the provider's client wants it, and whether that
// is the part itself.
func rewritePart(p llms.ContentPart, k kind, messages []llms.MessageContent, names *map[string]string) (llms.ContentPart, bool) {
	switch part := p.(type) {
	case llms.CachedContent:
		if k == kindAnthropic || k == kindNative {
			return p, true
		}
		// The openai client drops it without a word.
		inner, _ := rewritePart(unwrap(part), k, messages, names)
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
		return rewriteToolCall(part)
	case llms.ToolCallResponse:
		if part.Name == "" && k == kindGoogle {
			if *names == nil {
				*names = toolNames(messages)
			}
			if name := (*names)[part.ToolCallID]; name != "" {
				part.Name = name
				return part, false
			}
		}
	}
	return p, true
}

// rewriteToolCall gives a call of the history the type that openai wants, and
// arguments that are a JSON object: the functions agent keeps the bare argument.
func rewriteToolCall(part llms.ToolCall) (llms.ContentPart, bool) {
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
