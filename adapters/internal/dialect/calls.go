package dialect

import (
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// pairCalls returns the messages with the results of each turn's calls directly after the turn and, with
// isUnique, no call id in two turns. The caller's messages are not modified, and are returned if they need no
// change.
func pairCalls(messages []llms.MessageContent, isUnique bool) []llms.MessageContent {
	if isPaired(messages, isUnique) {
		return messages
	}
	rest := slices.Clone(messages) // parts that have not been moved
	for i := range rest {
		rest[i].Parts = slices.Clone(rest[i].Parts)
	}
	var own []llms.MessageContent
	used := map[string]int{}
	for i := range rest {
		m := rest[i]
		if len(m.Parts) == 0 && len(messages[i].Parts) > 0 {
			continue // all parts have been moved
		}
		own = append(own, m)
		if !isRole(m, llms.ChatMessageTypeAI) {
			continue
		}
		if results := takeResults(m.Parts, rest[i+1:], used, isUnique); len(results) > 0 {
			own = append(own, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: results})
		}
	}
	return own
}

// takeResults removes the results of a turn's calls from the messages after it, and returns them. used counts
// the calls by id: with isUnique, those after the first get another id.
func takeResults(turn []llms.ContentPart, rest []llms.MessageContent, used map[string]int, isUnique bool) (results []llms.ContentPart) {
	for j, p := range turn {
		call, ok := callOf(p)
		if !ok {
			continue
		}
		id := call.ID
		if used[id]++; isUnique && used[id] > 1 {
			call.ID += "_" + strconv.Itoa(used[id])
			turn[j], _ = rewritePart(p, func(llms.ContentPart) (llms.ContentPart, bool) { return call, true })
		}
		results = append(results, takeResult(rest, id, call.ID)...)
	}
	return results
}

func isPaired(messages []llms.MessageContent, isUnique bool) bool {
	calls, other := map[string]int{}, -1 // message index of each call, and of the last message that is not a tool's
	for i, m := range messages {
		for _, p := range m.Parts {
			if call, ok := callOf(p); ok && isRole(m, llms.ChatMessageTypeAI) {
				if _, isUsed := calls[call.ID]; isUsed && isUnique {
					return false
				}
				calls[call.ID] = i
			} else if result, ok := resultOf(p); ok {
				if at, isCalled := calls[result.ToolCallID]; isCalled && at < i {
					if at < other {
						return false
					}
					calls[result.ToolCallID] = len(messages) // further results of the call stay in place
				}
			}
		}
		if !isRole(m, llms.ChatMessageTypeTool) {
			other = i
		}
	}
	return true
}

// takeResult removes the first result of a call, and the part before it with its members, from the messages
// after the call, and returns it under the id name.
func takeResult(messages []llms.MessageContent, id, name string) (parts []llms.ContentPart) {
	for i := range messages {
		m := &messages[i]
		at := slices.IndexFunc(m.Parts, func(p llms.ContentPart) bool { return isResultOf(p, id) })
		if at < 0 {
			continue
		}
		from := at
		if raw, _ := m.Parts[max(at-1, 0)].(middleware.RawPart); membersIn(raw, partMembers) != nil {
			from--
		}
		parts = slices.Clone(m.Parts[from : at+1])
		last := len(parts) - 1
		parts[last], _ = rewritePart(parts[last], func(p llms.ContentPart) (llms.ContentPart, bool) { return nameResult(p, name), true })
		m.Parts = slices.Delete(m.Parts, from, at+1)
		return parts
	}
	return nil
}

func isRole(m llms.MessageContent, role llms.ChatMessageType) bool {
	own, err := roleOf(m.Role)
	return err == nil && own == role
}

func callOf(p llms.ContentPart) (call llms.ToolCall, ok bool) {
	p, _ = unwrap(p)
	call, ok = p.(llms.ToolCall)
	return call, ok
}

func isResultOf(p llms.ContentPart, id string) bool {
	of, ok := resultOf(p)
	return ok && of.ToolCallID == id
}

func resultOf(p llms.ContentPart) (result middleware.ResultPart, ok bool) {
	p, _ = unwrap(p)
	if plain, isPlain := p.(llms.ToolCallResponse); isPlain {
		return middleware.ResultPart{ToolCallResponse: plain}, true
	}
	result, ok = p.(middleware.ResultPart)
	return result, ok
}

// nameResult returns a result with another id, and any other part unchanged, such as one within a result.
func nameResult(p llms.ContentPart, id string) llms.ContentPart {
	switch p := p.(type) {
	case llms.ToolCallResponse:
		p.ToolCallID = id
		return p
	case middleware.ResultPart:
		p.ToolCallID = id
		return p
	}
	return p
}

// pausedCall returns the call of a vendor's own tool at the end of a conversation that the model paused, or
// nil.
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

// dropUnansweredCalls returns the messages without calls of a vendor's own tools that have no result ("tool use
// was found without a corresponding block"), except a call at the end, and code that waits for a call that it
// made.
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
