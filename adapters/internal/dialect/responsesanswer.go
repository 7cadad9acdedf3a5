package dialect

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

type incompleteDetails struct {
	Reason string `json:"reason"`
}

func newResponse(a *Request, id string, created int64) Object {
	r := Object{"id": "resp_" + id, "object": "response", "created_at": created, "status": "in_progress", "background": false, "error": nil, "incomplete_details": nil,
		"model": a.Model, "output": []json.RawMessage{}, "previous_response_id": nil, "usage": nil}
	maps.Copy(r, a.echo)
	return r
}

func (responses) Answer(a *Request, o *Answer) any {
	s := responsesSequence(a, o.ID, noEvents{})
	s.isCut = cutReason(o.Choices[0]) != ""
	s.finishChoice(o.Choices[0])
	return withUnknown(responsesWhole(a, o, s), middleware.DialectResponses, middleware.ExtraOf(o.Choices[0]))
}

func responsesSequence(a *Request, id string, to blockWriter) *sequence {
	n := 0
	return &sequence{to: to, dialect: middleware.DialectResponses, holdThoughts: true, carry: func(p middleware.RawPart, reasoning string) json.RawMessage {
		if !bytes.Contains(a.Params.Extra["include"], []byte(`"`+includeSealed+`"`)) {
			return nil
		}
		n++
		summary := []Object{}
		if reasoning != "" {
			summary = append(summary, summaryPart(reasoning))
		}
		return rawJSON(Object{"id": "rs" + ownItem + id + "_s" + strconv.Itoa(n), "type": "reasoning", "summary": summary, "encrypted_content": Wrap(p)})
	}}
}

func responsesWhole(a *Request, o *Answer, s *sequence) Object {
	r := newResponse(a, o.ID, o.Created)
	r["status"], r["model"], r["usage"] = "completed", o.Model, responsesUsage.write(o.Usage)
	if o.Step != nil {
		r["stepfall"] = o.Step
	}
	choice := o.Choices[0]
	x := extraOrEmpty(choice)
	if reason := cutReason(choice); reason != "" {
		r["status"], r["incomplete_details"] = "incomplete", incompleteDetails{reason}
	}
	r.text("service_tier", openAITier(x.ServiceTier))
	output := []json.RawMessage{}
	for _, b := range s.blocks {
		if b.kind == blockText && len(b.logprobs) == 0 && a.Params.LogProbs != nil {
			b.logprobs = chatLogProbList(x.LogProbs)
		}
		item := responsesItem(o.ID, b, true)
		if output = append(output, item); a.OnItem != nil {
			a.OnItem(itemID(o.ID, b), item)
		}
	}
	r["output"] = output
	return r
}

func cutReason(choice *llms.ContentChoice) string {
	refusal := extraOrEmpty(choice).Refusal
	switch kind := stopKindOf(choice); {
	case kind == stopLength:
		return "max_output_tokens"
	case kind == stopFilter && (refusal == "" || choice.Content != "" && choice.Content != refusal):
		return "content_filter"
	}
	return ""
}

// responsesItem writes an item, with its content if whole.
func responsesItem(id string, b *block, whole bool) json.RawMessage {
	if b.raw.Raw != nil {
		return b.raw.Raw
	}
	status, text := "in_progress", ""
	if whole {
		status, text = "completed", b.text.String()
	}
	if b.isCut {
		status = "incomplete"
	}
	var v Object
	switch b.kind {
	case blockThought:
		v = Object{"type": "reasoning", "summary": []Object{}, "status": status}
		if whole {
			v["summary"] = []Object{summaryPart(text)}
		}
	case blockTool:
		v = Object{"type": "function_call", "status": status, "call_id": b.tool.ID, "name": b.tool.Name, "arguments": text}
	default:
		v = Object{"type": "message", "status": status, "role": "assistant", "content": []Object{}}
		if whole {
			v["content"] = []any{contentPart(b, text)}
		}
	}
	v["id"] = itemID(id, b)
	return withMembers(rawJSON(v), b.members)
}

// itemID returns the id of an item: the provider's own, or a new one.
func itemID(id string, b *block) string {
	prefix := "msg"
	switch {
	case b.raw.Raw != nil:
		return gjson.GetBytes(b.raw.Raw, "id").Str
	case b.kind == blockThought:
		prefix = "rs"
	case b.kind == blockTool:
		prefix = "fc"
	}
	return prefix + ownItem + id + "_" + strconv.Itoa(b.index)
}

func summaryPart(text string) Object { return Object{"type": "summary_text", "text": text} }

func contentPart(b *block, text string) any {
	if part := gjson.GetBytes(b.raw.Raw, "content.0").Raw; part != "" {
		return json.RawMessage(part)
	}
	if b.kind == blockRefusal {
		return Object{"type": "refusal", "refusal": text}
	}
	return Object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": b.logprobs}
}

type responsesStream struct {
	*sequence
	a     *Request
	out   *Events
	seq   int
	begun bool
}

func (responses) Stream(a *Request, out *Events) Stream {
	s := &responsesStream{a: a, out: out}
	s.sequence = responsesSequence(a, out.ID, s)
	return s
}

// Delta writes events of items that only this API has unchanged, except for the index of the item.
func (s *responsesStream) Delta(d *middleware.Delta) {
	var event gjson.Result
	if d.Raw != nil && d.Raw.Dialect == middleware.DialectResponses {
		event = gjson.GetBytes(d.Raw.Raw, eventMembers)
	}
	switch item := event.Get("item"); {
	case !event.Exists():
		s.sequence.Delta(d)
	case item.Exists():
		s.begin(&block{kind: blockRaw, raw: middleware.RawPart{Dialect: middleware.DialectResponses, Raw: json.RawMessage(item.Raw)}})
	case s.open != nil && s.open.kind == blockRaw:
		e := Object{}
		e.addMembers(event)
		s.sendFor(s.open, event.Get("type").Str, e)
	}
}

func (s *responsesStream) send(kind string, e Object) {
	e["type"], e["sequence_number"] = kind, s.seq
	s.seq++
	s.out.event(kind, e)
}

func (s *responsesStream) sendFor(b *block, kind string, e Object) {
	e["output_index"], e["item_id"] = b.index, itemID(s.out.ID, b)
	s.send(kind, e)
}

func (s *responsesStream) head() {
	if s.begun {
		return
	}
	s.begun = true
	r := newResponse(s.a, s.out.ID, s.out.Created)
	s.send("response.created", Object{"response": r})
	s.send("response.in_progress", Object{"response": r})
}

func (s *responsesStream) start(b *block) {
	s.head()
	item := responsesItem(s.out.ID, b, false)
	summary := gjson.GetBytes(b.raw.Raw, "summary").Array()
	if len(summary) > 0 { // it is sent in separate events
		item = withMember(item, "summary", "[]")
	}
	s.send("response.output_item.added", Object{"output_index": b.index, "item": item})
	for i, part := range summary {
		text := part.Get("text").Str
		whole := json.RawMessage(part.Raw)
		s.sendFor(b, "response.reasoning_summary_part.added", Object{"summary_index": i, "part": withMember(whole, "text", `""`)})
		s.sendFor(b, "response.reasoning_summary_text.delta", Object{"summary_index": i, "delta": text})
		s.sendFor(b, "response.reasoning_summary_text.done", Object{"summary_index": i, "text": text})
		s.sendFor(b, "response.reasoning_summary_part.done", Object{"summary_index": i, "part": whole})
	}
	switch b.kind {
	case blockThought:
		s.sendFor(b, "response.reasoning_summary_part.added", Object{"summary_index": 0, "part": summaryPart("")})
	case blockText, blockRefusal:
		s.sendFor(b, "response.content_part.added", Object{"content_index": 0, "part": contentPart(b, "")})
	}
}

// piece writes the event for a piece of an item. It is on the hot path.
func (s *responsesStream) piece(b *block, text string, d *middleware.Delta) {
	kind, where := "response.output_text.delta", `,"content_index":0`
	switch b.kind {
	case blockThought:
		kind, where = "response.reasoning_summary_text.delta", `,"summary_index":0`
	case blockRefusal:
		kind = "response.refusal.delta"
	case blockTool:
		kind, where = "response.function_call_arguments.delta", ""
	}
	var probs []byte
	if b.kind == blockText {
		probs = []byte(`,"logprobs":[]`)
		if d != nil && len(d.LogProbs) > 0 {
			list := chatLogProbList(d.LogProbs)
			b.logprobs = append(b.logprobs, list...)
			probs = append([]byte(`,"logprobs":`), rawJSON(list)...)
		}
	}
	seq := s.seq
	s.seq++
	s.out.append(func(buf []byte) []byte {
		buf = append(append(append(buf, "event: "...), kind...), "\ndata: {\"type\":\""...)
		buf = appendInt(append(append(buf, kind...), `","sequence_number":`...), seq)
		buf = appendString(append(buf, `,"item_id":`...), itemID(s.out.ID, b))
		buf = appendInt(append(buf, `,"output_index":`...), b.index)
		buf = append(append(buf, where...), probs...)
		return append(appendString(append(buf, `,"delta":`...), text), "}\n\n"...)
	})
}

func (s *responsesStream) stop(b *block) {
	text := b.text.String()
	if b.raw.Raw != nil && (b.kind == blockText || b.kind == blockRefusal) { // the item keeps the id that it began with
		b.raw.Raw = withText(b.raw.Raw, "id", itemID(s.out.ID, &block{kind: b.kind, index: b.index}))
	}
	switch b.kind {
	case blockThought:
		s.sendFor(b, "response.reasoning_summary_text.done", Object{"summary_index": 0, "text": text})
		s.sendFor(b, "response.reasoning_summary_part.done", Object{"summary_index": 0, "part": summaryPart(text)})
	case blockText:
		for i, annotation := range gjson.GetBytes(b.raw.Raw, "content.0.annotations").Array() {
			s.sendFor(b, "response.output_text.annotation.added", Object{"content_index": 0, "annotation_index": i, "annotation": json.RawMessage(annotation.Raw)})
		}
		s.sendFor(b, "response.output_text.done", Object{"content_index": 0, "text": text, "logprobs": b.logprobs})
		s.sendFor(b, "response.content_part.done", Object{"content_index": 0, "part": contentPart(b, text)})
	case blockRefusal:
		s.sendFor(b, "response.refusal.done", Object{"content_index": 0, "refusal": text})
		s.sendFor(b, "response.content_part.done", Object{"content_index": 0, "part": contentPart(b, text)})
	case blockTool:
		s.sendFor(b, "response.function_call_arguments.done", Object{"name": b.tool.Name, "arguments": text})
	}
	s.send("response.output_item.done", Object{"output_index": b.index, "item": responsesItem(s.out.ID, b, true)})
}

func (s *responsesStream) Finish(o *Answer) {
	s.head()
	s.isCut = cutReason(o.Choices[0]) != ""
	s.finishChoice(o.Choices[0])
	r := responsesWhole(s.a, o, s.sequence)
	status, _ := r["status"].(string)
	s.send("response."+status, Object{"response": withUnknown(r, middleware.DialectResponses, middleware.ExtraOf(o.Choices[0]))})
}

func (s *responsesStream) Fail(r *Refusal) {
	s.head()
	failed := newResponse(s.a, s.out.ID, s.out.Created)
	failed["status"], failed["error"] = "failed", Object{"code": failCode(r), "message": r.Message}
	s.send("response.failed", Object{"response": failed})
	e := openAIError(r)
	s.send("error", Object{"code": r.Code, "message": r.Message, "param": e["param"], "error": e})
}

// failCode returns the code of a failed response. It only uses the API's own codes, because Codex retries after
// any other.
func failCode(r *Refusal) string {
	switch {
	case r.Code == "context_length_exceeded", r.Code == "insufficient_quota", r.Code == "rate_limit_exceeded":
		return r.Code
	case r.Status >= http.StatusInternalServerError && !r.Final:
		return "server_error"
	}
	return "invalid_prompt"
}

func (responses) Error(r *Refusal, id string) any { return chat{}.Error(r, id) }

func appendInt(buf []byte, n int) []byte { return strconv.AppendInt(buf, int64(n), 10) }
