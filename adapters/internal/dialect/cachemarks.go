package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
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
		for _, block := range slices.Backward(list) {
			if o, ok := block.(Object); ok {
				o["cache_control"] = Object{"type": "ephemeral"}
				break
			}
		}
	}
}

// isCacheMarked reports whether a request, or a part of one, has a cache mark.
func isCacheMarked(v any) bool {
	switch v := v.(type) {
	case json.RawMessage:
		return bytes.Contains(v, []byte(`"cache_control"`))
	case []any:
		return slices.ContainsFunc(v, isCacheMarked)
	case []Object:
		return slices.ContainsFunc(v, func(o Object) bool { return isCacheMarked(o) })
	case Object:
		for name, member := range v {
			if name == "cache_control" || isCacheMarked(member) {
				return true
			}
		}
	}
	return false
}
