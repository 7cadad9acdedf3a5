package dialect

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

func newMessage(id, model string, u sdk.Usage) Object {
	return Object{"id": "msg_" + id, "type": "message", "role": "assistant", "model": model, "content": []json.RawMessage{}, "stop_reason": nil, "stop_sequence": nil, "usage": messagesUsage.write(u)}
}

func (messages) Answer(a *Request, o *Answer) any {
	s := messagesSequence(a, noEvents{})
	s.isCut = stopKindOf(o.Choices[0]) == stopLength
	s.finishChoice(o.Choices[0])
	content := []json.RawMessage{}
	for _, b := range s.blocks {
		if raw := messagesBlock(a, b, true); raw != nil {
			content = append(content, raw)
		}
	}
	m := newMessage(o.ID, o.Model, o.Usage)
	m["content"] = content
	m["stop_reason"], m["stop_sequence"] = messagesStop(o.Choices[0])
	if o.Step != nil {
		m["stepfall"] = o.Step
	}
	return messageWithUnknown(m, middleware.ExtraOf(o.Choices[0]))
}

func messageWithUnknown(m Object, x *middleware.Extra) any {
	answer := withUnknown(m, middleware.DialectAnthropic, x)
	if members, ok := answer.(*orderedObject); ok { // it contains the members from the end of a stream
		delta := members.get("delta")
		members.remove("delta")
		return merge(members, delta)
	}
	return answer
}

func messagesSequence(a *Request, to blockWriter) *sequence {
	return &sequence{to: to, dialect: middleware.DialectAnthropic, hidesThoughts: !a.showsThoughts, holdRefusals: true, endsWithText: true, carry: func(p middleware.RawPart, reasoning string) json.RawMessage {
		// A server that sends reasoning_content may require it back with the calls of its turn, even if the client did
		// not request it: "Missing reasoning_content field".
		if !a.showsThoughts && p.Dialect != middleware.DialectChat {
			return nil
		}
		v := map[string]string{"type": "redacted_thinking", "data": Wrap(p)}
		if a.showsThoughts && reasoning != "" {
			v = map[string]string{"type": "thinking", "thinking": reasoning, "signature": Wrap(p)}
		}
		return rawJSON(v)
	}}
}

var messagesStops = map[stopKind]string{stopLength: "max_tokens", stopFilter: "refusal", stopSequence: "stop_sequence", stopEnd: "end_turn"}

// messagesStop returns the stop reason, and the stop sequence or nil.
func messagesStop(choice *llms.ContentChoice) (reason string, sequence any) {
	x, reason := extraOrEmpty(choice), messagesStops[stopKindOf(choice)]
	if reason == "end_turn" && len(choice.ToolCalls) > 0 {
		reason = "tool_use"
	}
	if reason == "end_turn" && x.Refusal != "" {
		reason = "refusal"
	}
	switch x.StopReason {
	case "pause_turn", "compaction", "model_context_window_exceeded", "stop_sequence":
		reason = x.StopReason
	}
	if x.StopSequence != "" {
		sequence = x.StopSequence
	}
	return reason, sequence
}

// messagesBlock writes a block, with its text if whole. It returns nil for a block that the client did not
// request.
func messagesBlock(a *Request, b *block, whole bool) json.RawMessage {
	text := ""
	if whole {
		text = b.text.String()
	}
	var v any
	switch b.kind {
	case blockThought:
		if !a.showsThoughts {
			return nil
		}
		v = Object{"type": "thinking", "thinking": text, "signature": ""}
	case blockTool:
		if b.isCut && !json.Valid([]byte(text)) {
			text = ""
		}
		v = Object{"type": "tool_use", "id": b.tool.ID, "name": b.tool.Name, "input": argumentsObject(text)}
	case blockRaw:
		return b.raw.Raw
	default:
		v = Object{"type": "text", "text": text}
	}
	if whole && b.raw.Raw != nil {
		return b.raw.Raw
	}
	return withMembers(rawJSON(v), b.members)
}

type messagesStream struct {
	*sequence
	a     *Request
	out   *Events
	begun bool
	extra *middleware.Extra // of the answer, as far as it is known
	next  int               // index of the next block shown
	shown map[int]int       // by block
	// around has the unknown members of the model's next event, by type.
	around map[string]json.RawMessage
}

func (s *messagesStream) Delta(d *middleware.Delta) {
	if d.Extra != nil {
		s.extra = d.Extra
	}
	if d.Raw != nil && d.Raw.Dialect == middleware.DialectAnthropic {
		if members := gjson.GetBytes(d.Raw.Raw, eventMembers); members.Exists() {
			s.around[members.Get("type").Str] = json.RawMessage(members.Raw)
			return
		}
	}
	s.sequence.Delta(d)
}

func (messages) Stream(a *Request, out *Events) Stream {
	s := &messagesStream{a: a, out: out, shown: map[int]int{}, around: map[string]json.RawMessage{}}
	s.sequence = messagesSequence(a, s)
	return s
}

func (s *messagesStream) head() {
	if s.begun {
		return
	}
	s.begun = true
	m := newMessage(s.out.ID, s.a.Model, sdk.Usage{InputTokens: s.a.InputTokens()}) // an estimate; the end of the stream has the actual usage
	s.event("message_start", Object{"message": messageWithUnknown(m, s.extra)})
}

func (s *messagesStream) start(b *block) {
	s.head()
	opening := messagesBlock(s.a, b, false)
	if opening == nil {
		clear(s.around)
		return
	}
	if b.kind == blockRaw && gjson.GetBytes(opening, "type").Str == "thinking" { // its text follows in deltas
		opening = withMember(withMember(opening, "thinking", `""`), "signature", `""`)
	}
	s.shown[b.index] = s.next
	s.next++
	s.event("content_block_start", Object{"index": s.shown[b.index], "content_block": opening})
}

func (s *messagesStream) event(kind string, v Object) {
	v["type"] = kind
	if rest := s.around[kind]; rest != nil {
		delete(s.around, kind)
		s.out.event(kind, merge(decode(v), decode(rest)))
		return
	}
	s.out.event(kind, v)
}

// blockDelta writes the event for a piece of a block. It is on the hot path.
func (s *messagesStream) blockDelta(index int, kind, member, text string) {
	if s.around["content_block_delta"] != nil {
		s.event("content_block_delta", Object{"index": index, "delta": Object{"type": kind, member: text}})
		return
	}
	s.out.append(func(buf []byte) []byte {
		buf = append(buf, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
		buf = appendInt(buf, index)
		buf = append(append(append(buf, `,"delta":{"type":"`...), kind...), `","`...)
		buf = appendString(append(append(buf, member...), `":`...), text)
		return append(buf, "}}\n\n"...)
	})
}

func (s *messagesStream) piece(b *block, text string, _ *middleware.Delta) {
	index, ok := s.shown[b.index]
	if !ok {
		return
	}
	switch b.kind {
	case blockThought:
		s.blockDelta(index, "thinking_delta", "thinking", text)
	case blockTool:
		s.blockDelta(index, "input_json_delta", "partial_json", text)
	default:
		s.blockDelta(index, "text_delta", "text", text)
	}
}

func (s *messagesStream) stop(b *block) {
	index, ok := s.shown[b.index]
	if !ok {
		return
	}
	own := gjson.ParseBytes(b.raw.Raw)
	if b.kind == blockRaw && own.Get("type").Str == "thinking" {
		s.blockDelta(index, "thinking_delta", "thinking", own.Get("thinking").Str)
	}
	if b.kind == blockText {
		for _, citation := range own.Get("citations").Array() {
			s.event("content_block_delta", Object{"index": index, "delta": Object{"type": "citations_delta", "citation": json.RawMessage(citation.Raw)}})
		}
	}
	if signature := own.Get("signature").Str; signature != "" {
		s.blockDelta(index, "signature_delta", "signature", signature)
	}
	s.event("content_block_stop", Object{"index": index})
}

func (s *messagesStream) Finish(o *Answer) {
	x := middleware.ExtraOf(o.Choices[0])
	s.extra = x
	s.head()
	s.finishChoice(o.Choices[0])
	reason, sequence := messagesStop(o.Choices[0])
	last := Object{"delta": Object{"stop_reason": reason, "stop_sequence": sequence}, "usage": messagesUsage.write(o.Usage)}
	if o.Step != nil {
		last["stepfall"] = o.Step
	}
	last["type"] = "message_delta"
	s.out.event("message_delta", withUnknown(last, middleware.DialectAnthropic, x))
	s.event("message_stop", Object{})
}

func (s *messagesStream) Fail(r *Refusal) {
	s.out.event("error", messages{}.Error(r, s.out.RequestID))
}

func (messages) Error(r *Refusal, requestID string) any {
	e := Object{"message": r.Message}
	// Coding agents compact the conversation when they read these words of Anthropic's.
	const tooLong = "prompt is too long"
	if r.Code == "context_length_exceeded" && !strings.Contains(strings.ToLower(r.Message), tooLong) {
		e["message"] = tooLong + ": " + r.Message
	}
	if r.Details != nil {
		e["details"] = r.Details
	}
	switch kind, isKnown := messagesErrors[r.Status]; {
	case r.Status == http.StatusTooManyRequests && r.Final:
		e["type"] = "billing_error"
	case isKnown:
		e["type"] = kind
	case r.Status >= 500:
		e["type"] = "api_error"
	default:
		e["type"] = "invalid_request_error"
	}
	return Object{"type": "error", "error": e, "request_id": requestID}
}

var messagesErrors = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusMethodNotAllowed: "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusGatewayTimeout: "timeout_error", http.StatusRequestTimeout: "timeout_error", http.StatusServiceUnavailable: "overloaded_error",
}
