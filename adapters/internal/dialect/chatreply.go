package dialect

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// chatReply is a choice as it grows, with what only chat completions have.
type chatReply struct {
	*replyChoice

	index                int
	places               []callPlace // of the calls
	lists                int         // how many lists of calls have come
	details              []json.RawMessage
	extras               []callExtra
	hasState, isStateNew bool   // the message has members that its model wants back, and of them more than was given on
	thoughts             string // the member in which it thinks
	unknown              Object // members of the message
}

// callExtra is what a call has besides, for its model alone.
type callExtra struct {
	ID    string          `json:"id"`
	Extra json.RawMessage `json:"extra_content"`
}

// callPlace is where pieces of a call stand: at the index that its server gave it, last in that
// list of calls.
type callPlace struct {
	index float64
	list  int
}

// position returns the index among calls of the one that a piece belongs to. The servers
// that call themselves compatible leave the index out, or give the same to several calls,
// or another id to each piece of one, or no id to any: a list has no call's name twice.
func (c *chatReply) position(index gjson.Result, id, name string) int {
	known, last := slices.IndexFunc(c.calls, func(t llms.ToolCall) bool { return id != "" && t.ID == id }), len(c.calls)-1
	at := known
	if index.Type != gjson.Number {
		if at < 0 && (id == "" || name == "") {
			at = last
		}
	} else {
		for last >= 0 && c.places[last].index != index.Num {
			last--
		}
		if last < 0 || id == "" || name == "" || c.calls[last].ID == id {
			at = last
		}
	}
	if at < 0 || name != "" && c.places[at].list == c.lists {
		if at = len(c.calls); known >= 0 {
			id = ""
		}
		c.calls = append(c.calls, llms.ToolCall{ID: callID(id), Type: "function", FunctionCall: &llms.FunctionCall{}})
		c.places = append(c.places, callPlace{index: -1})
	}
	if c.places[at].list = c.lists; index.Type == gjson.Number {
		c.places[at].index = index.Num
	}
	return at
}

// detail takes in an entry of reasoning_details, of which a stream gives pieces: those of
// one index and type are one.
func (c *chatReply) detail(raw json.RawMessage) {
	c.hasState, c.isStateNew = true, true
	n := len(c.details) - 1
	now := gjson.ParseBytes(raw)
	if index := now.Get("index"); n < 0 || !index.Exists() || gjson.GetBytes(c.details[n], "index").Raw != index.Raw || gjson.GetBytes(c.details[n], "type").Str != now.Get("type").Str {
		c.details = append(c.details, raw)
		return
	}
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(c.details[n], &all) // it has been read before
	now.ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "text", "summary", "data":
			all[name.Str] = rawJSON(gjson.GetBytes(c.details[n], name.Str).Str + v.Str)
		default:
			if v.Type != gjson.Null {
				all[name.Str] = json.RawMessage(v.Raw)
			}
		}
		return true
	})
	c.details[n] = rawJSON(all)
}

// state is what the message has for its own model, of which nothing more comes.
func (c *chatReply) state(origin string) *middleware.RawPart {
	if !c.hasState {
		return nil
	}
	members := map[string]any{}
	if c.reasoning.Len() > 0 {
		members[c.thoughts] = c.reasoning.String()
	}
	if c.details != nil {
		members["reasoning_details"] = c.details
	}
	if c.extras != nil {
		members["tool_calls"] = c.extras
	}
	if len(members) == 0 {
		return nil
	}
	return &middleware.RawPart{Dialect: middleware.DialectChat, Model: origin, Raw: rawJSON(members)}
}
