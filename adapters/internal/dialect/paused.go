package dialect

import (
	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// openWork returns the call of a vendor's own tool that a conversation ends with, or nil: its model
// paused there and goes on with it.
// https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons#pause-turn
func openWork(messages []llms.MessageContent) *middleware.RawPart {
	n := len(messages) - 1
	if n < 0 || !isRole(messages[n], llms.ChatMessageTypeAI) || len(messages[n].Parts) == 0 {
		return nil
	}
	last, ok := messages[n].Parts[len(messages[n].Parts)-1].(middleware.RawPart)
	if !ok || !isWorkCall(&last) {
		return nil
	}
	return &last
}

func isWorkCall(p *middleware.RawPart) bool {
	return p.Dialect == middleware.DialectAnthropic && gjson.GetBytes(p.Raw, "type").Str == "server_tool_use"
}

// dropOpenWork returns the messages without calls of a vendor's own tools that have no result,
// unless the conversation ends with one or it waits for what it has called itself: "tool use was found
// without a corresponding block" is said of others.
func dropOpenWork(messages []llms.MessageContent) []llms.MessageContent {
	isOpen := map[string]bool{}
	for _, m := range messages {
		walk(m.Parts, func(p llms.ContentPart) {
			raw, ok := p.(middleware.RawPart)
			switch {
			case !ok:
			case isWorkCall(&raw):
				isOpen[gjson.GetBytes(raw.Raw, "id").Str] = true
			default:
				delete(isOpen, gjson.GetBytes(raw.Raw, "tool_use_id").Str)
				delete(isOpen, gjson.GetBytes(raw.Raw, callerPath).Str)
			}
		})
	}
	if last := openWork(messages); last != nil {
		delete(isOpen, gjson.GetBytes(last.Raw, "id").Str)
	}
	if len(isOpen) == 0 {
		return messages
	}
	return rewrite(messages, func(p llms.ContentPart) (llms.ContentPart, bool) {
		if raw, ok := p.(middleware.RawPart); ok && isWorkCall(&raw) && isOpen[gjson.GetBytes(raw.Raw, "id").Str] {
			return nil, true
		}
		return p, false
	})
}
