package dialect

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// chatReply is a choice under construction, with what only chat completions have.
type chatReply struct {
	*replyChoice

	index                int
	places               []callPlace // of the calls
	lists                int         // number of lists of calls read so far
	details              []*blockReply
	extras               []callExtra
	hasState, isStateNew bool   // the message has members that its model needs back, and more of them than were emitted
	thoughts             string // name of the reasoning member
	unknown              Object // unknown members of the message
}

// callExtra is the state of a call, for its model only.
type callExtra struct {
	ID    string          `json:"id"`
	Extra json.RawMessage `json:"extra_content"`
}

// callPlace tells where pieces of a call belong: the index that the server gave it, the last list of calls that
// contained it, and its arguments so far.
type callPlace struct {
	index     float64
	list      int
	arguments *strings.Builder
}

// position returns the index in calls of the call that a piece belongs to. Compatible servers may omit the
// index, give several calls the same index, give each piece another id, or omit ids. But no list has the name
// of a call twice.
func (c *chatReply) position(index gjson.Result, id, name string) int {
	known := slices.IndexFunc(c.calls, func(t llms.ToolCall) bool { return id != "" && t.ID == id })
	at := c.callOfPiece(known, index, id, name)
	if at < 0 || name != "" && c.places[at].list == c.lists {
		if at = len(c.calls); known >= 0 {
			id = ""
		}
		c.calls = append(c.calls, newCall(callID(id), "", ""))
		c.places = append(c.places, callPlace{index: -1, arguments: &strings.Builder{}})
	}
	if c.places[at].list = c.lists; index.Type == gjson.Number {
		c.places[at].index = index.Num
	}
	return at
}

// callOfPiece returns the call that a piece continues, or -1. known is the call with the piece's id.
func (c *chatReply) callOfPiece(known int, index gjson.Result, id, name string) int {
	isPiece := id == "" || name == ""
	switch {
	case index.Type == gjson.Number:
		if last := c.lastWithIndex(index.Num); last < 0 || isPiece || c.calls[last].ID == id {
			return last
		}
	case known < 0 && isPiece:
		return len(c.calls) - 1
	}
	return known
}

// lastWithIndex returns the last call with the server's index, or -1.
func (c *chatReply) lastWithIndex(index float64) int {
	for i, place := range slices.Backward(c.places) {
		if place.index == index {
			return i
		}
	}
	return -1
}

// addDetail reads an entry of reasoning_details, or a piece of one. Pieces of the same entry have the same
// index and type.
func (s *chatReader) addDetail(c *chatReply, now gjson.Result) {
	c.hasState, c.isStateNew = true, true
	kind, n := now.Get("type").Str, len(c.details)-1
	isPiece := n >= 0 && now.Get("index").Exists() && string(c.details[n].members["index"]) == now.Get("index").Raw && c.details[n].kind == kind
	if !isPiece {
		c.details = append(c.details, &blockReply{kind: kind, members: map[string]json.RawMessage{}})
		n++
	}
	entry := c.details[n]
	if entry.raw = nil; !isPiece {
		entry.raw = json.RawMessage(now.Raw)
	}
	now.ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "text", "summary", "data":
			entry.write(name.Str, s.wantText(name.Str, v))
		default:
			if v.Type != gjson.Null {
				entry.members[name.Str] = json.RawMessage(v.Raw)
			}
		}
		return true
	})
}

// state returns the message's state for its own model.
func (c *chatReply) state(origin string) *middleware.RawPart {
	if !c.hasState {
		return nil
	}
	members := Object{}
	members.text(c.thoughts, c.reasoning.String())
	details := make([]json.RawMessage, len(c.details))
	for i, entry := range c.details {
		details[i] = entry.json()
	}
	setList(members, "reasoning_details", details)
	setList(members, "tool_calls", c.extras)
	if len(members) == 0 {
		return nil
	}
	return &middleware.RawPart{Dialect: middleware.DialectChat, Model: origin, Raw: rawJSON(members)}
}
