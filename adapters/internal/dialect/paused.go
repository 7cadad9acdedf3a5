package dialect

import (
	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// pausedCall returns the call of a vendor's own tool at the end of a conversation, where its model
// paused, or nil.
// https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons#pause-turn
func pausedCall(messages []llms.MessageContent) *middleware.RawPart {
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

// dropUnansweredCalls returns the messages without calls of a vendor's own tools that lack a result ("tool
// use was found without a corresponding block"), except one at the end, and code that waits for a
// call it made.
func dropUnansweredCalls(messages []llms.MessageContent) []llms.MessageContent {
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
	if last := pausedCall(messages); last != nil {
		delete(isOpen, gjson.GetBytes(last.Raw, "id").Str)
	}
	if len(isOpen) == 0 {
		return messages
	}
	return rewrite(messages, func(p llms.ContentPart) (llms.ContentPart, bool) {
		if raw, _ := p.(middleware.RawPart); isWorkCall(&raw) && isOpen[gjson.GetBytes(raw.Raw, "id").Str] {
			return nil, true
		}
		return p, false
	})
}
