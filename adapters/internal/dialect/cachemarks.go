package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// markCache marks what the next request of an agent is expected to repeat: the tools and system messages, and the
// conversation. A cache write costs a quarter more than other input and a read a tenth, so it pays if one in four
// requests is followed by another within five minutes. A request that forces its first call is likely a single
// one, and marks of the caller's own stay as they are.
func markCache(b Object) {
	messages, _ := b["messages"].([]Object)
	if b["tools"] == nil || len(messages) == 0 || len(messages) == 1 && isForced(b["tool_choice"]) || isCacheMarked(b) {
		return
	}
	for _, blocks := range []any{cmp.Or(b["system"], b["tools"]), messages[len(messages)-1]["content"]} {
		list, _ := blocks.([]any)
		markLast(list, Object{"type": "ephemeral"})
	}
}

func markLast(list []any, mark any) {
	for _, block := range slices.Backward(list) {
		if o, ok := block.(Object); ok {
			o[cacheMark] = mark
			return
		}
	}
}

// cacheMark is the member of Messages that marks what to cache. OpenRouter and LiteLLM accept it in chat completions
// and Responses too: in the request, its messages and their parts, and in tools and their functions.
// https://openrouter.ai/docs/features/prompt-caching, https://docs.litellm.ai/docs/completion/prompt_caching
const cacheMark = "cache_control"

var (
	knownOfMark     = newKnown(cacheMark)
	knownOfStrict   = newKnown("strict") // which is sent as the function's
	knownOfToolMark = newKnown("strict " + cacheMark + " function." + cacheMark)
)

// adoptMark returns a part with the cache mark among the members of a message or part of another API, for a model of
// Messages, and the names of the members that are lost.
func adoptMark(p *middleware.RawPart, d middleware.Dialect, members []string) (mark llms.ContentPart, lost []string) {
	for _, kind := range []string{partMembers, messageMembers} {
		if v := gjson.GetBytes(p.Raw, kind+"."+cacheMark); v.IsObject() && d == middleware.DialectAnthropic {
			mark = newMembers(d, kind, []byte(`"`+cacheMark+`":`+v.Raw))
			return mark, slices.DeleteFunc(members, func(name string) bool { return name == cacheMark })
		}
	}
	return nil, members
}

// adoptToolMark sets the cache mark of a tool of another API's client.
func (o Object) adoptToolMark(f *llms.FunctionDefinition, p *middleware.Params) {
	tool := gjson.GetBytes(p.Extra["tools"], gjson.Escape(f.Name))
	for _, path := range []string{"function." + cacheMark, cacheMark} {
		if mark := tool.Get(path); mark.IsObject() && p.Dialect != middleware.DialectAnthropic {
			o[cacheMark] = json.RawMessage(mark.Raw)
		}
	}
}

// markLast moves the cache mark of a message, which Messages lacks, to the last of its blocks.
func (w *memberWriter) markLast(blocks []any) {
	if mark := w.message.Get(cacheMark); mark.Exists() {
		markLast(blocks, json.RawMessage(mark.Raw))
		w.message = gjson.Parse("{" + string(knownOfMark.members(w.message)) + "}")
	}
}

// isCacheMarked reports whether a request, or a part of one, has a cache mark.
func isCacheMarked(v any) bool {
	switch v := v.(type) {
	case json.RawMessage:
		return bytes.Contains(v, []byte(`"`+cacheMark+`"`))
	case []any:
		return slices.ContainsFunc(v, isCacheMarked)
	case []Object:
		return slices.ContainsFunc(v, func(o Object) bool { return isCacheMarked(o) })
	case Object:
		for name, member := range v {
			if name == cacheMark || isCacheMarked(member) {
				return true
			}
		}
	}
	return false
}
