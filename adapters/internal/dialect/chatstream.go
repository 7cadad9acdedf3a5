package dialect

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

type chatStream struct {
	a        *Request
	out      *Events
	head     []byte // beginning of each chunk, up to the index of its choice
	server   []byte // members of chunks about the model's server
	tail     []byte
	progress []choiceProgress // by choice
}

type choiceProgress struct {
	role, text, thought, refusal, members bool
	thoughts                              string // name of the reasoning member
	origin                                string // origin of the state before the calls
	calls                                 []int  // by index: number of the call in the stream, from 1; 0 if it has not begun
	written, customs                      int    // number of calls begun, and how many of them are of custom tools
}

func (chat) Stream(a *Request, out *Events) Stream {
	s := &chatStream{a: a, out: out, tail: []byte("}")}
	if a.Usage {
		s.tail = []byte(`,"usage":null}`)
	}
	return s
}

func (s *chatStream) progressOf(i int) *choiceProgress {
	for len(s.progress) <= i {
		s.progress = append(s.progress, choiceProgress{thoughts: thoughtMember(nil)})
	}
	return &s.progress[i]
}

// chunk appends one event: delta appends the members of its delta, without the opening brace, and rest
// whatever follows the closing brace.
func (s *chatStream) chunk(choice int, delta func(buf []byte) []byte, rest func(buf []byte) []byte) {
	progress := s.progressOf(choice)
	if s.head == nil { // now it is known which model answers
		s.head = appendString(append(s.head, `data: {"id":`...), "chatcmpl-"+s.out.ID)
		s.head = strconv.AppendInt(append(s.head, `,"object":"chat.completion.chunk","created":`...), s.out.Created, 10)
		s.head = appendString(append(s.head, `,"model":`...), s.a.Model)
		s.head = append(s.head, `,"choices":[{"index":`...)
	}
	s.out.append(func(buf []byte) []byte {
		buf = append(strconv.AppendInt(append(buf, s.head...), int64(choice), 10), `,"delta":{`...)
		if !progress.role {
			progress.role = true
			buf = append(buf, `"role":"assistant"`...)
			if delta == nil {
				buf = append(buf, `,"content":""`...)
			} else {
				buf = append(buf, ',')
			}
		}
		if delta != nil {
			buf = delta(buf)
		}
		buf = append(buf, '}')
		if rest != nil {
			buf = rest(buf)
		} else {
			buf = append(buf, `,"finish_reason":null}]`...)
		}
		return append(append(append(buf, s.server...), s.tail...), "\n\n"...)
	})
}

func (s *chatStream) member(choice int, name, text string, rest func([]byte) []byte) {
	s.chunk(choice, func(buf []byte) []byte {
		return appendString(append(append(append(buf, '"'), name...), `":`...), text)
	}, rest)
}

func (s *chatStream) Delta(d *middleware.Delta) {
	if d.Extra != nil {
		s.server = chatServer(d.Extra)
	}
	progress := s.progressOf(d.Choice)
	if name := thoughtMember(d.Raw); name == "reasoning" {
		progress.thoughts = name
	}
	if d.Reasoning != "" {
		progress.thought = true
		s.member(d.Choice, progress.thoughts, d.Reasoning, nil)
	}
	if d.Text != "" || len(d.LogProbs) > 0 {
		progress.text = progress.text || d.Text != ""
		var rest func([]byte) []byte
		if len(d.LogProbs) > 0 {
			rest = func(buf []byte) []byte { return append(appendLogProbs(buf, d.LogProbs), `,"finish_reason":null}]`...) }
		}
		s.member(d.Choice, "content", d.Text, rest)
	}
	if d.Refusal != "" {
		progress.refusal = true
		s.member(d.Choice, "refusal", d.Refusal, nil)
	}
	if d.Raw != nil {
		s.raw(progress, d.Choice, d.Raw)
	}
	s.call(d.Choice, d.Tool)
}

// raw streams a part of this dialect: unknown members or a custom call. Of another dialect's state, which precedes
// calls, it only keeps the origin.
func (s *chatStream) raw(progress *choiceProgress, choice int, p *middleware.RawPart) {
	switch members := membersIn(*p, messageMembers); {
	case p.Dialect != middleware.DialectChat:
		if isState(p) {
			progress.origin = p.Model
		}
	case members != nil:
		progress.members = true
		s.chunk(choice, func(buf []byte) []byte { return append(buf, members...) }, nil)
	case isCustomCall(*p):
		s.customCall(choice, p.Raw)
	default:
		progress.origin = cmp.Or(p.Model, progress.origin)
	}
}

// call streams a piece of a call; nil is ignored.
func (s *chatStream) call(choice int, t *middleware.ToolDelta) {
	if t == nil {
		return
	}
	progress := s.progressOf(choice)
	for len(progress.calls) <= t.Index {
		progress.calls = append(progress.calls, 0)
	}
	begun := progress.calls[t.Index] > 0
	if !begun {
		progress.written++
		progress.calls[t.Index] = progress.written
	}
	s.chunk(choice, func(buf []byte) []byte {
		buf = append(buf, `"tool_calls":[{"index":`...)
		buf = strconv.AppendInt(buf, int64(progress.calls[t.Index]-1), 10)
		if !begun {
			buf = appendString(append(buf, `,"id":`...), tag(progress.origin, callID(t.ID)))
			buf = append(buf, `,"type":"function","function":{"name":`...)
			buf = append(appendString(buf, t.Name), `,"arguments":`...)
		} else {
			buf = append(buf, `,"function":{"arguments":`...)
		}
		return append(appendString(buf, t.Arguments), "}}]"...)
	}, nil)
}

func (s *chatStream) customCall(choice int, call json.RawMessage) {
	progress := s.progressOf(choice)
	s.chunk(choice, func(buf []byte) []byte {
		buf = strconv.AppendInt(append(buf, `"tool_calls":[{"index":`...), int64(progress.written), 10)
		return append(append(append(buf, ','), call[1:]...), ']')
	}, nil)
	progress.written++
	progress.customs++
}

func (s *chatStream) Finish(o *Answer) {
	s.server = chatServer(extraOrEmpty(o.Choices[0]))
	customs := make([]int, len(o.Choices))
	for i, choice := range o.Choices {
		customs[i] = s.finishChoice(i, choice)
	}
	usage := append([]byte(`,"usage":`), rawJSON(merge(s.unknownUsage(o), decode(chatUsage.write(o.Usage))))...)
	for i, choice := range o.Choices {
		s.chunk(i, nil, func(buf []byte) []byte {
			buf = append(append(append(buf, `,"finish_reason":"`...), chatFinish(choice, customs[i])...), `"}]`...)
			if i == len(o.Choices)-1 && !s.a.Usage { // Mistral's way, whose clients do not request the usage
				buf = append(buf, usage...)
			}
			if i == len(o.Choices)-1 && o.Step != nil {
				// It is sent with the end of an answer, because naive readers expect a choice in each chunk.
				buf = append(append(buf, `,"stepfall":`...), rawJSON(o.Step)...)
			}
			return buf
		})
	}
	s.out.append(func(buf []byte) []byte {
		if s.a.Usage {
			head := s.head[:len(s.head)-len(`{"index":`)]
			buf = append(append(append(buf, head...), `]`...), s.server...)
			buf = append(append(buf, usage...), "}\n\n"...)
		}
		return append(buf, "data: [DONE]\n\n"...)
	})
}

// finishChoice writes the part of a choice that was not streamed, and counts its calls of custom tools.
func (s *chatStream) finishChoice(i int, choice *llms.ContentChoice) (customs int) {
	x := extraOrEmpty(choice)
	state := chatStateOf(x)
	s.progressOf(i).thoughts = state.thoughts
	progress := *s.progressOf(i)
	whole := &middleware.Delta{Choice: i}
	if !progress.thought {
		whole.Reasoning = choice.ReasoningContent
	}
	if !progress.text && x.Refusal != choice.Content {
		whole.Text = choice.Content
	}
	if !progress.refusal {
		whole.Refusal = x.Refusal
	}
	s.Delta(whole)
	if len(progress.calls) == 0 {
		for k := range choice.ToolCalls {
			s.call(i, wholeCall(k, &choice.ToolCalls[k]))
		}
	}
	for _, call := range state.customs[min(progress.customs, len(state.customs)):] {
		s.customCall(i, call)
	}
	if state.members != nil && !progress.members {
		s.chunk(i, func(buf []byte) []byte { return append(buf, state.members...) }, nil)
	}
	s.state(i, choice, state)
	return len(state.customs)
}

func chatServer(x *middleware.Extra) (buf []byte) {
	if tier := openAITier(x.ServiceTier); tier != "" {
		buf = appendString(append(buf, `,"service_tier":`...), tier)
	}
	if x.Fingerprint != "" {
		buf = appendString(append(buf, `,"system_fingerprint":`...), x.Fingerprint)
	}
	return buf
}

// unknownUsage writes the unknown members of the model's answer in one event, and returns those of its usage.
func (s *chatStream) unknownUsage(o *Answer) (usage any) {
	x := extraOrEmpty(o.Choices[0])
	if x.Unknown.Dialect != middleware.DialectChat || x.Unknown.Raw == nil {
		return nil
	}
	rest, isObject := decode(x.Unknown.Raw).(*orderedObject)
	usage = rest.get("usage")
	if rest.remove("usage"); !isObject || len(rest.names) == 0 {
		return usage
	}
	event := Object{"id": "chatcmpl-" + s.out.ID, "object": "chat.completion.chunk", "created": s.out.Created, "model": s.a.Model}
	event.text("service_tier", openAITier(x.ServiceTier))
	event.text("system_fingerprint", x.Fingerprint)
	var choices []Object
	for i := range o.Choices {
		choices = append(choices, Object{"index": i, "delta": Object{}, "finish_reason": nil})
	}
	event["choices"] = choices
	own, _ := rest.get("choices").([]any)
	for i := range own {
		s.indexCalls(i, own[i])
	}
	s.out.data(merge(decode(event), rest))
	return usage
}

// indexCalls converts the unknown members of a choice to those of a chunk: calls get their index and the function
// that clients require.
func (s *chatStream) indexCalls(i int, choice any) {
	members, _ := choice.(*orderedObject)
	if members.has("message") {
		members.rename("message", "delta")
	}
	delta := members.object("delta")
	calls, _ := delta.get("tool_calls").([]any)
	indexes := s.progressOf(i).calls
	var pieces []any
	for k, call := range calls {
		if call != nil && k < len(indexes) && indexes[k] > 0 {
			pieces = append(pieces, merge(decode(Object{"index": indexes[k] - 1, "function": Object{"arguments": ""}}), call))
		}
	}
	if delta.remove("tool_calls"); pieces != nil {
		delta.set("tool_calls", pieces)
	}
}

// state writes the state that the client sends back to the model, after the rest of the choice.
func (s *chatStream) state(i int, choice *llms.ContentChoice, state chatState) {
	members := Object{}
	setList(members, "reasoning_details", state.details)
	var calls []json.RawMessage // openai-python requires a function in each piece of a call
	for k, call := range choice.ToolCalls {
		if extra := state.extras[call.ID]; len(extra) > 0 {
			calls = append(calls, json.RawMessage(`{"index":`+strconv.Itoa(k)+`,"function":{"arguments":""},"extra_content":`+string(extra)+`}`))
		}
	}
	setList(members, "tool_calls", calls)
	if len(members) > 0 {
		s.chunk(i, func(buf []byte) []byte { return append(buf, members.inner()...) }, nil)
	}
}

func (s *chatStream) Fail(r *Refusal) { s.out.data(chat{}.Error(r, s.out.RequestID)) }
