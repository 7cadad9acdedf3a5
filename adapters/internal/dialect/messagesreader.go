package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

type messagesReply struct {
	ID      string            `json:"id"`
	Model   string            `json:"model"`
	Content []json.RawMessage `json:"content"`
	Error   *json.RawMessage  `json:"error"`
	messagesEnd
}

type messagesEnd struct {
	StopReason   string `json:"stop_reason"`
	StopSequence string `json:"stop_sequence"`
	StopDetails  struct {
		Category    string `json:"category"`
		Explanation string `json:"explanation"`
	} `json:"stop_details"`
	Usage json.RawMessage `json:"usage"`
}

// blockReply is a content block under construction.
type blockReply struct {
	kind      string
	members   map[string]json.RawMessage
	texts     map[string]*strings.Builder // members that arrive in pieces
	citations []json.RawMessage
	call      int             // its index among the tool calls
	raw       json.RawMessage // set for a block that arrived in one piece
	unknown   []byte          // members, as JSON without braces; nil for none
	hasEnded  bool
}

func (b *blockReply) write(name, text string) {
	if text == "" {
		return
	}
	if b.texts[name] == nil {
		setEntry(&b.texts, name, &strings.Builder{})
	}
	b.texts[name].WriteString(text)
}

func (b *blockReply) text(name string) string {
	if b.texts[name] == nil {
		return ""
	}
	return b.texts[name].String()
}

func (b *blockReply) json() json.RawMessage {
	if b.raw != nil {
		return b.raw
	}
	for name, text := range b.texts {
		b.members[name] = appendString(nil, text.String())
	}
	return rawJSON(b.members)
}

type messagesReader struct {
	*Reply

	blocks   []*blockReply
	last     textPiece // of the last block
	calls    int
	ran      int // number of times that the provider ran code
	hasEnded bool
}

func (messages) Reader(r *Reply) Reader { return &messagesReader{Reply: r} }

func (s *messagesReader) Whole(data []byte) error {
	s.Extra.Raw, s.hasEnded = data, true
	return s.message(data)
}

// knownOfMessage are the members of answers that are read here. Clients of the API get the others unchanged.
var knownOfMessage = newKnown("id type role model content stop_reason stop_sequence error" + messagesUsage.known("usage"))

// knownOfMessageDelta are the members of the event at the end of a stream.
var knownOfMessageDelta = memberSet{middleware.MemberSet{"type": nil, "delta": knownOfMessage.MemberSet, "usage": knownOfMessage.MemberSet["usage"]}}

var knownOfReplyBlock = newKnown("type text thinking signature data citations id name input")

// knownOfEvent are the members of the other events. Their unknown members belong to the event, not to the
// answer.
var knownOfEvent = newKnown("type index message content_block delta.type delta.text delta.thinking delta.signature delta.partial_json delta.citation")

// pieces are the types of deltas that are passed to clients one by one. Others belong to blocks that are sent
// in one piece.
var pieces = []string{"", "text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"}

// emitUnknown emits the unknown members of an event, and reports whether there are any.
func (s *messagesReader) emitUnknown(event gjson.Result) (hasAny bool) {
	if !slices.Contains(pieces, event.Get("delta.type").Str) {
		return false
	}
	rest := knownOfEvent.members(event)
	if rest == nil {
		return false
	}
	p := newMembers(middleware.DialectAnthropic, eventMembers, append(append(rest, `,"type":`...), event.Get("type").Raw...))
	s.Emit(&middleware.Delta{Raw: &p})
	return true
}

// message reads an answer, or its beginning in a stream.
func (s *messagesReader) message(data []byte) error {
	var in messagesReply
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.Error != nil {
		return ServerError(data)
	}
	if in.ID == "" && in.Content == nil {
		return middleware.ErrEmptyResponse
	}
	s.Extra.ID, s.Extra.Served = in.ID, in.Model
	s.addUnknown(middleware.DialectAnthropic, knownOfMessage.unknownMembers(gjson.ParseBytes(data)))
	for _, raw := range in.Content {
		if err := s.begin(raw); err != nil {
			return err
		}
		b := s.blocks[len(s.blocks)-1]
		b.raw = raw
		s.finish(b)
	}
	s.readEnd(&in.messagesEnd)
	return s.mistyped
}

func (s *messagesReader) readEnd(in *messagesEnd) {
	if in.StopReason != "" {
		s.choice(0).stop, s.Extra.StopSequence = in.StopReason, in.StopSequence
		if in.StopReason == "refusal" {
			s.Extra.Blocked = strings.TrimSpace("refusal " + in.StopDetails.Category)
			s.Extra.Refusal = in.StopDetails.Explanation
		}
	}
	v := gjson.ParseBytes(in.Usage)
	u, before, isOld := messagesUsage.read(v), s.Extra.Usage, s.isUsageOld
	u.HostedCalls += s.ran
	s.setUsage(u)
	// In a stream, counts that do not change are left out.
	to := &s.Extra.Usage
	to.InputTokens, to.CacheWriteTokens, to.CachedInputTokens = cmp.Or(u.InputTokens, before.InputTokens), cmp.Or(u.CacheWriteTokens, before.CacheWriteTokens), cmp.Or(u.CachedInputTokens, before.CachedInputTokens)
	s.isUsageOld = isOld && u.OutputTokens+u.ReasoningTokens == 0
	if hours := v.Get("cache_creation.ephemeral_1h_input_tokens"); hours.Exists() {
		s.Extra.HourWriteTokens = new(max(0, tokensOf(hours)))
	}
	s.Extra.ServiceTier = cmp.Or(v.Get("service_tier").Str, s.Extra.ServiceTier)
	s.Extra.Speed = cmp.Or(v.Get("speed").Str, s.Extra.Speed)
	s.Extra.Geo = cmp.Or(v.Get("inference_geo").Str, s.Extra.Geo)
}

var errNoBlock = errors.New("an invalid content block, or a delta before its block's start")

// Event reads an event of a stream.
func (s *messagesReader) Event(data []byte) error {
	if d := s.last.match(data); d != nil {
		s.addText(s.blocks[len(s.blocks)-1], d)
		return nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	e, err := parseEvent(data)
	if err != nil {
		return err
	}
	kind := s.wantText("type", e.Get("type"))
	switch kind {
	case "error":
		return ServerError(data)
	case "message_delta":
		s.addUnknown(middleware.DialectAnthropic, knownOfMessageDelta.unknownMembers(e))
		var end messagesEnd
		if err := json.Unmarshal(rawOf(e.Get("delta")), &end); err != nil {
			return err
		}
		end.Usage = rawOf(e.Get("usage"))
		s.readEnd(&end)
		return nil
	case "message_start":
		s.addUnknown(middleware.DialectAnthropic, knownOfEvent.unknownMembers(e))
		err := s.message(rawOf(e.Get("message")))
		s.isUsageOld = true // the final usage is reported at the end
		return err
	case "message_stop", "content_block_start", "content_block_delta", "content_block_stop":
	default:
		return s.mistyped // "we may add new event types"; https://platform.claude.com/docs/en/build-with-claude/streaming
	}
	hasUnknown := s.emitUnknown(e)
	if kind == "message_stop" {
		s.hasEnded = true
		return nil
	}
	return s.blockEvent(kind, e, data, hasUnknown)
}

func (s *messagesReader) blockEvent(kind string, e gjson.Result, data []byte, hasUnknown bool) error {
	at := e.Get("index")
	index := int(at.Int())
	switch {
	case at.Type != gjson.Number:
		return errNoBlock
	case kind == "content_block_start":
		if index != len(s.blocks) || !e.Get("content_block").Exists() {
			return errNoBlock
		}
		return s.begin(rawOf(e.Get("content_block")))
	case index < 0 || index >= len(s.blocks):
		return errNoBlock
	case kind == "content_block_stop":
		s.finish(s.blocks[index])
		return nil
	}
	b, piece := s.blocks[index], e.Get("delta")
	d := s.addPiece(b, piece)
	if s.mistyped != nil {
		return s.mistyped
	}
	if part := piece.Get("partial_json"); part.Exists() && b.kind == "tool_use" {
		s.Emit(&middleware.Delta{Tool: &middleware.ToolDelta{Index: b.call, Arguments: part.Str}})
	}
	if text := piece.Get("text").Raw + piece.Get("thinking").Raw; text != "" && !hasUnknown && index == len(s.blocks)-1 {
		s.last.keep(data, text, &d)
	}
	s.addText(b, &d)
	return nil
}

// rawOf returns a copy of a value's JSON, or null for a missing value.
func rawOf(v gjson.Result) json.RawMessage { return json.RawMessage(cmp.Or(v.Raw, "null")) }

func (s *messagesReader) addText(b *blockReply, d *middleware.Delta) {
	b.write("text", d.Text)
	b.write("thinking", d.Reasoning)
	s.add(d)
}

// begin reads a block, or its beginning in a stream.
func (s *messagesReader) begin(raw json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	b := &blockReply{members: members}
	b.kind = s.textOf(b, "type")
	first := middleware.Delta{Text: s.textOf(b, "text"), Reasoning: s.textOf(b, "thinking")}
	if s.textOf(b, "id"); s.mistyped != nil || b.kind == "" {
		return cmp.Or(s.mistyped, errNoBlock)
	}
	b.unknown = knownOfReplyBlock.members(gjson.ParseBytes(raw))
	s.blocks, s.last, s.isUsageOld = append(s.blocks, b), textPiece{}, true
	s.choice(0).coverText()
	switch b.kind {
	case "server_tool_use": // searches are counted in the usage, and fetching is free
		if strings.HasSuffix(s.textOf(b, "name"), "code_execution") {
			s.ran++
		}
	case "tool_use":
		s.beginCall(b)
	case "text", "thinking":
		if n := len(s.blocks); b.unknown != nil || b.kind == "text" && n > 1 && s.blocks[n-2].kind == "text" { // a part without members also begins a new block
			p := newMembers(middleware.DialectAnthropic, partMembers, b.unknown)
			s.Emit(&middleware.Delta{Raw: &p})
		}
		s.addText(b, &first)
	}
	return s.mistyped
}

func (s *messagesReader) textOf(b *blockReply, name string) string {
	return s.wantText(name, gjson.ParseBytes(b.members[name]))
}

// beginCall begins a tool call, after a part with its unknown members.
func (s *messagesReader) beginCall(b *blockReply) {
	b.call = s.calls
	s.calls++
	id, name := s.textOf(b, "id"), s.textOf(b, "name")
	if b.unknown != nil {
		c := s.choice(0)
		p := newMembers(middleware.DialectAnthropic, partMembers, appendString(append(b.unknown, `,"id":`...), id))
		if sealedPaths(p.Raw) != nil {
			p.Model = s.Origin
		}
		c.parts, c.isSpecial = append(c.parts, p), true
		s.Emit(&middleware.Delta{Raw: &p})
	}
	s.Emit(&middleware.Delta{Tool: &middleware.ToolDelta{Index: b.call, ID: id, Name: name}})
}

// addPiece adds a piece to a block, except its text, which it returns.
func (s *messagesReader) addPiece(b *blockReply, piece gjson.Result) (d middleware.Delta) {
	if !piece.IsObject() {
		s.noteType("delta", "an object")
		return d
	}
	piece.ForEach(func(name, v gjson.Result) bool {
		switch {
		case name.Str == "type":
		case name.Str == "text":
			d.Text = s.wantText(name.Str, v)
		case name.Str == "thinking":
			d.Reasoning = s.wantText(name.Str, v)
		case name.Str == "signature", name.Str == "partial_json":
			b.write(name.Str, s.wantText(name.Str, v))
		case name.Str == "citation":
			b.citations = append(b.citations, json.RawMessage(v.Raw))
		case v.Type == gjson.String:
			b.write(name.Str, v.Str)
		case v.Type != gjson.Null:
			b.members[name.Str] = json.RawMessage(v.Raw)
		}
		return true
	})
	return d
}

// finish makes a completed block a part of the answer. It emits the part unless it is plain text or a call, which
// were emitted in pieces: it is then signed thinking, which a later turn needs, a result of the provider's own
// tools, or cited text.
func (s *messagesReader) finish(b *blockReply) {
	if b.hasEnded {
		return
	}
	b.hasEnded = true
	c := s.choice(0)
	inputs := b.text("partial_json")
	if json.Valid([]byte(inputs)) {
		b.members["input"] = json.RawMessage(inputs)
	} else if inputs != "" {
		b.members["input"] = json.RawMessage("{}") // the arguments were truncated at the limit
	}
	delete(b.texts, "partial_json")
	if b.citations != nil {
		b.members["citations"] = rawJSON(b.citations)
	}
	switch cited := string(b.members["citations"]); {
	case b.kind == "tool_use":
		call := newCall(s.textOf(b, "id"), s.textOf(b, "name"), s.wantArguments(b.members["input"]))
		c.addCall(call)
		if inputs == "" { // a call without arguments has no pieces, or an empty one
			s.Emit(&middleware.Delta{Tool: &middleware.ToolDelta{Index: b.call, Arguments: call.FunctionCall.Arguments}})
		}
	case b.kind == "text" && slices.Contains([]string{"", "[]", "null"}, cited):
		if b.unknown != nil {
			c.parts, c.isSpecial = append(c.parts, newMembers(middleware.DialectAnthropic, partMembers, b.unknown)), true
		}
		c.coverText()
	default:
		p := middleware.RawPart{Dialect: middleware.DialectAnthropic, TextContent: llms.TextContent{Text: b.text("text")}, Raw: b.json()}
		isText := b.kind == "compaction" && b.members["encrypted_content"] == nil && b.members["signature"] == nil // only a summary
		if sealedPaths(p.Raw) != nil && !isText {
			p.Model = s.Origin
		}
		c.addPart(p)
		s.Emit(&middleware.Delta{Raw: &p})
	}
}

// HasEnded implements [Reader].
func (s *messagesReader) HasEnded() bool { return s.hasEnded }

func (s *messagesReader) End(bool) error {
	s.dropOldUsage()
	for _, b := range s.blocks {
		s.finish(b)
	}
	hasStop := s.choice(0).stop != ""
	switch {
	case s.hasEnded && s.Extra.Usage == (sdk.Usage{}) && len(s.blocks) == 0 && !hasStop:
		return middleware.ErrEmptyResponse
	case !s.hasEnded, !hasStop && s.Extra.Raw == nil:
		return errUnfinished
	}
	s.choice(0).markErrorStop()
	return nil
}
