package dialect

import (
	"crypto/rand"
	"encoding/json"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// chatCompletion is a response of chat completions.
type chatCompletion struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Choices     []chatChoice `json:"choices"`
	Usage       *chatUsage   `json:"usage,omitempty"`
	ServiceTier string       `json:"service_tier,omitempty"`
	Fingerprint string       `json:"system_fingerprint,omitempty"`
	Step        any          `json:"stepfall,omitempty"`
}

type chatChoice struct {
	Index        int             `json:"index"`
	Message      json.RawMessage `json:"message"`
	LogProbs     *chatLogProbs   `json:"logprobs"`
	FinishReason string          `json:"finish_reason"`
}

type chatMessage struct {
	Role      string            `json:"role"`
	Content   *string           `json:"content"`
	Refusal   *string           `json:"refusal"`
	Reasoning string            `json:"reasoning_content,omitempty"`
	Details   []json.RawMessage `json:"reasoning_details,omitempty"`
	ToolCalls []chatToolCall    `json:"tool_calls,omitempty"`
}

type chatToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content,omitempty"`
}

type chatUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	PromptDetails    struct {
		Cached int `json:"cached_tokens"`
		Audio  int `json:"audio_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
		Audio     int `json:"audio_tokens"`
		Accepted  int `json:"accepted_prediction_tokens"`
		Rejected  int `json:"rejected_prediction_tokens"`
	} `json:"completion_tokens_details"`
}

type chatLogProbs struct {
	Content []chatLogProb `json:"content"`
	Refusal []chatLogProb `json:"refusal"`
}

type chatLogProb struct {
	chatTopLogProb
	Top []chatTopLogProb `json:"top_logprobs"`
}

type chatTopLogProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func (chat) Answer(a *Request, o *Answer) any {
	c := chatCompletion{ID: "chatcmpl-" + o.ID, Object: "chat.completion", Created: o.Created, Model: o.Model, Usage: chatUsageOf(o.Usage), Step: o.Step,
		Choices: make([]chatChoice, len(o.Choices))}
	for i, choice := range o.Choices {
		c.Choices[i] = chatChoice{Index: i, Message: chatSpoken(choice), LogProbs: chatLogProbsOf(a, choice), FinishReason: chatFinish(choice)}
		if x := middleware.ExtraOf(choice); x != nil {
			c.ServiceTier, c.Fingerprint = x.ServiceTier, x.Fingerprint
		}
	}
	return c
}

// chatSpoken writes the message of a choice, with what the provider's own has besides.
func chatSpoken(choice *llms.ContentChoice) json.RawMessage {
	x := middleware.ExtraOf(choice)
	state := chatStateOf(x)
	m := chatMessage{Role: "assistant", Reasoning: choice.ReasoningContent, Details: state.details, ToolCalls: chatCallsOf(choice)}
	for i := range m.ToolCalls {
		m.ToolCalls[i].ID, m.ToolCalls[i].Extra = Tag(state.origin, m.ToolCalls[i].ID), state.extras[m.ToolCalls[i].ID]
	}
	refused := x != nil && x.Refusal != ""
	if refused {
		m.Refusal = &x.Refusal
	}
	if choice.Content != "" && (!refused || choice.Content != x.Refusal) || len(m.ToolCalls) == 0 && !refused {
		m.Content = &choice.Content
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil // our own plain structs cannot fail
	}
	return withMembers(raw, state.members)
}

// chatState is what a message carries for the model that gave it.
type chatState struct {
	origin  string // tagged on the calls, since other texts of the message have no place for it
	details []json.RawMessage
	extras  map[string]json.RawMessage // by call
	members []byte                     // that are nobody's state
}

func chatStateOf(x *middleware.Extra) (s chatState) {
	if x == nil {
		return s
	}
	s.extras = map[string]json.RawMessage{}
	for i, p := range x.Parts {
		own, ok := p.(middleware.RawPart)
		if !ok || own.Model == "" || own.Text != "" {
			if own.Dialect == middleware.DialectChat {
				s.members = membersIn(own, messageMembers)
			}
			continue
		}
		if own.Dialect == middleware.DialectChat {
			s.origin = own.Model
			for _, d := range gjson.GetBytes(own.Raw, "reasoning_details").Array() {
				s.details = append(s.details, Seal(own.Model, json.RawMessage(d.Raw)))
			}
			for _, call := range gjson.GetBytes(own.Raw, "tool_calls").Array() {
				s.extras[call.Get("id").Str] = chatExtra(own.Model, call)
			}
			continue
		}
		if call, ok := next(x.Parts, i).(llms.ToolCall); ok && own.Dialect == middleware.DialectGemini {
			s.extras[call.ID] = json.RawMessage(`{"google":{"thought_signature":"` + Wrap(own) + `"}}`)
			continue
		}
		s.details = append(s.details, json.RawMessage(`{"type":"reasoning.encrypted","data":"`+Wrap(own)+`","id":null,"format":"unknown","index":`+strconv.Itoa(len(s.details))+`}`))
	}
	return s
}

func next(parts []llms.ContentPart, i int) llms.ContentPart {
	if i+1 < len(parts) {
		return parts[i+1]
	}
	return nil
}

// chatExtra tags the signature of a call.
func chatExtra(origin string, call gjson.Result) json.RawMessage {
	if signature := call.Get(signaturePath).Str; signature != "" {
		return json.RawMessage(`{"google":{"thought_signature":` + string(appendString(nil, Tag(origin, signature))) + `}}`)
	}
	return json.RawMessage(call.Get("extra_content").Raw)
}

func chatCallsOf(choice *llms.ContentChoice) []chatToolCall {
	var out []chatToolCall
	for _, call := range choice.ToolCalls {
		if call.FunctionCall == nil {
			continue
		}
		w := chatToolCall{ID: callID(call.ID), Type: "function"}
		w.Function.Name, w.Function.Arguments = call.FunctionCall.Name, call.FunctionCall.Arguments
		out = append(out, w)
	}
	return out
}

func callID(id string) string {
	if id == "" {
		return "call_" + rand.Text()
	}
	return id
}

func chatUsageOf(u sdk.Usage) *chatUsage {
	out := &chatUsage{
		PromptTokens:     u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens,
		CompletionTokens: u.OutputTokens + u.ReasoningTokens,
	}
	out.TotalTokens = out.PromptTokens + out.CompletionTokens
	out.PromptDetails.Cached, out.CompletionDetails.Reasoning = u.CachedInputTokens, u.ReasoningTokens
	return out
}

// chatLogProbsOf returns the log-probabilities of a choice where they were asked for.
func chatLogProbsOf(a *Request, choice *llms.ContentChoice) *chatLogProbs {
	x := middleware.ExtraOf(choice)
	if x == nil || a.Params.LogProbs == nil || !*a.Params.LogProbs {
		return nil
	}
	return &chatLogProbs{Content: chatLogProbList(x.LogProbs)}
}

func chatLogProbList(list []sdk.TokenLogProb) []chatLogProb {
	out := make([]chatLogProb, len(list))
	for i, t := range list {
		out[i] = chatLogProb{chatTopLogProb{Token: t.Token, LogProb: t.LogProb, Bytes: byteList(t.Token)}, make([]chatTopLogProb, len(t.Top))}
		for k, top := range t.Top {
			out[i].Top[k] = chatTopLogProb{Token: top.Token, LogProb: top.LogProb, Bytes: byteList(top.Token)}
		}
	}
	return out
}

func byteList(s string) []int {
	list := make([]int, len(s))
	for i := range len(s) {
		list[i] = int(s[i])
	}
	return list
}

// chatFinish returns why the model stopped, in OpenAI's words.
func chatFinish(choice *llms.ContentChoice) string {
	switch stopped(choice) {
	case stopLength:
		return "length"
	case stopFilter:
		return "content_filter"
	}
	if len(choice.ToolCalls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// chatStream writes the events of chat completions.
type chatStream struct {
	a    *Request
	out  *Events
	head []byte // of each chunk, up to the index of its choice
	tail []byte
	said []chatSaid // by choice
}

// chatSaid is what has been written of a choice.
type chatSaid struct {
	role, text, thought, refusal, members bool
	origin                                string // whose state came before the calls
	calls                                 []bool // by index: begun
}

func (chat) Stream(a *Request, out *Events) Stream {
	s := &chatStream{a: a, out: out, tail: []byte("}")}
	if a.Usage {
		s.tail = []byte(`,"usage":null}`)
	}
	return s
}

// begin makes the head, once it is known which model answers.
func (s *chatStream) begin() {
	out := s.out
	s.head = append(s.head, `data: {"id":`...)
	s.head = appendString(s.head, "chatcmpl-"+out.ID)
	s.head = append(s.head, `,"object":"chat.completion.chunk","created":`...)
	s.head = strconv.AppendInt(s.head, out.Created, 10)
	s.head = append(s.head, `,"model":`...)
	s.head = appendString(s.head, s.a.Model)
	s.head = append(s.head, `,"choices":[{"index":`...)
}

func (s *chatStream) saidOf(i int) *chatSaid {
	for len(s.said) <= i {
		s.said = append(s.said, chatSaid{})
	}
	return &s.said[i]
}

// chunk appends one event with what delta appends to the opening brace of its delta,
// and rest after the brace that closes it.
func (s *chatStream) chunk(choice int, delta func(buf []byte) []byte, rest func(buf []byte) []byte) {
	said := s.saidOf(choice)
	if s.head == nil {
		s.begin()
	}
	s.out.append(func(buf []byte) []byte {
		buf = append(strconv.AppendInt(append(buf, s.head...), int64(choice), 10), `,"delta":{`...)
		if !said.role {
			said.role = true
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
		return append(append(buf, s.tail...), "\n\n"...)
	})
}

func (s *chatStream) member(choice int, name, text string, rest func([]byte) []byte) {
	s.chunk(choice, func(buf []byte) []byte {
		return appendString(append(append(append(buf, '"'), name...), `":`...), text)
	}, rest)
}

func (s *chatStream) Delta(d *middleware.Delta) {
	said := s.saidOf(d.Choice)
	if d.Reasoning != "" {
		said.thought = true
		s.member(d.Choice, "reasoning_content", d.Reasoning, nil)
	}
	if d.Text != "" || len(d.LogProbs) > 0 {
		said.text = said.text || d.Text != ""
		var rest func([]byte) []byte
		if len(d.LogProbs) > 0 {
			rest = func(buf []byte) []byte {
				probs, err := json.Marshal(chatLogProbs{Content: chatLogProbList(d.LogProbs)})
				if err != nil {
					probs = []byte("null")
				}
				return append(append(append(buf, `,"logprobs":`...), probs...), `,"finish_reason":null}]`...)
			}
		}
		s.member(d.Choice, "content", d.Text, rest)
	}
	if d.Refusal != "" {
		said.refusal = true
		s.member(d.Choice, "refusal", d.Refusal, nil)
	}
	if d.Raw != nil && d.Raw.Dialect == middleware.DialectChat {
		if members := membersIn(*d.Raw, messageMembers); members != nil {
			said.members = true
			s.chunk(d.Choice, func(buf []byte) []byte { return append(buf, members...) }, nil)
		} else {
			said.origin = d.Raw.Model
		}
	}
	if d.Tool != nil {
		s.call(d.Choice, d.Tool)
	}
}

func (s *chatStream) call(choice int, t *middleware.ToolDelta) {
	said := s.saidOf(choice)
	for len(said.calls) <= t.Index {
		said.calls = append(said.calls, false)
	}
	begun := said.calls[t.Index]
	said.calls[t.Index] = true
	s.chunk(choice, func(buf []byte) []byte {
		buf = append(buf, `"tool_calls":[{"index":`...)
		buf = strconv.AppendInt(buf, int64(t.Index), 10)
		if !begun {
			buf = appendString(append(buf, `,"id":`...), Tag(said.origin, callID(t.ID)))
			buf = append(buf, `,"type":"function","function":{"name":`...)
			buf = append(appendString(buf, t.Name), `,"arguments":`...)
		} else {
			buf = append(buf, `,"function":{"arguments":`...)
		}
		return append(appendString(buf, t.Arguments), "}}]"...)
	}, nil)
}

func (s *chatStream) Finish(o *Answer) {
	for i, choice := range o.Choices {
		said := *s.saidOf(i)
		whole := &middleware.Delta{Choice: i}
		if !said.thought {
			whole.Reasoning = choice.ReasoningContent
		}
		x := middleware.ExtraOf(choice)
		if !said.text && (x == nil || x.Refusal != choice.Content) {
			whole.Text = choice.Content
		}
		if x != nil && !said.refusal {
			whole.Refusal = x.Refusal
		}
		s.Delta(whole)
		if len(said.calls) == 0 {
			for k, call := range choice.ToolCalls {
				if call.FunctionCall != nil {
					s.call(i, &middleware.ToolDelta{Index: k, ID: call.ID, Name: call.FunctionCall.Name, Arguments: call.FunctionCall.Arguments})
				}
			}
		}
		state := chatStateOf(x)
		if state.members != nil && !said.members {
			s.chunk(i, func(buf []byte) []byte { return append(buf, state.members...) }, nil)
		}
		s.state(i, choice, state)
		last := i == len(o.Choices)-1
		s.chunk(i, nil, func(buf []byte) []byte {
			buf = append(append(append(buf, `,"finish_reason":"`...), chatFinish(choice)...), `"}]`...)
			if last && o.Step != nil {
				// It goes with the end of an answer: naive readers want a choice in each chunk.
				if info, err := json.Marshal(o.Step); err == nil {
					buf = append(append(buf, `,"stepfall":`...), info...)
				}
			}
			return buf
		})
	}
	s.out.append(func(buf []byte) []byte {
		if s.a.Usage {
			if usage, err := json.Marshal(chatUsageOf(o.Usage)); err == nil {
				head := s.head[:len(s.head)-len(`{"index":`)]
				buf = append(append(append(append(buf, head...), `],"usage":`...), usage...), "}\n\n"...)
			}
		}
		return append(buf, "data: [DONE]\n\n"...)
	})
}

// state writes what the client sends back for the model, once all is said.
func (s *chatStream) state(i int, choice *llms.ContentChoice, state chatState) {
	v := struct {
		Details []json.RawMessage   `json:"reasoning_details,omitempty"`
		Calls   []chatStreamedExtra `json:"tool_calls,omitempty"`
	}{Details: state.details}
	for k, call := range choice.ToolCalls {
		if extra := state.extras[call.ID]; extra != nil {
			v.Calls = append(v.Calls, chatStreamedExtra{k, extra})
		}
	}
	if raw, err := json.Marshal(v); err == nil && len(raw) > len("{}") {
		s.chunk(i, func(buf []byte) []byte { return append(buf, raw[1:len(raw)-1]...) }, nil)
	}
}

type chatStreamedExtra struct {
	Index int             `json:"index"`
	Extra json.RawMessage `json:"extra_content"`
}

func (s *chatStream) Fail(r *Refusal) { s.out.data(chat{}.Error(r, s.out.RequestID)) }

func (chat) Error(r *Refusal, _ string) any { return Object{"error": openAIError(r)} }

func openAIError(r *Refusal) Object {
	e := Object{"message": r.Message, "code": r.Code, "type": r.Code, "param": nil}
	switch {
	case r.Status >= 500:
		e["type"] = "server_error"
	case r.Status == 429 && r.Code != "insufficient_quota":
		e["type"] = "rate_limit_error"
	case r.Status != 429:
		e["type"] = "invalid_request_error"
	}
	if r.Param != "" {
		e["param"] = r.Param
	}
	return e
}
