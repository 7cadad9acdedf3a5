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

type chatLogProb struct {
	chatTopLogProb
	Top []chatTopLogProb `json:"top_logprobs"`
}

type chatTopLogProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// Answer writes the JSON by hand, because encoding/json takes several times as long.
func (chat) Answer(a *Request, o *Answer) any {
	buf := append(make([]byte, 0, 1<<10), `{"id":`...)
	buf = appendString(buf, "chatcmpl-"+o.ID)
	buf = strconv.AppendInt(append(buf, `,"object":"chat.completion","created":`...), o.Created, 10)
	buf = append(appendString(append(buf, `,"model":`...), o.Model), `,"choices":[`...)
	for i, choice := range o.Choices {
		state := chatStateOf(extraOrEmpty(choice))
		buf = strconv.AppendInt(append(appendComma(buf), `{"index":`...), int64(i), 10)
		buf = appendChatMessage(append(buf, `,"message":`...), choice, &state)
		if x := middleware.ExtraOf(choice); x != nil && deref(a.Params.LogProbs) {
			buf = appendLogProbs(buf, x.LogProbs)
		} else {
			buf = append(buf, `,"logprobs":null`...)
		}
		buf = append(append(append(buf, `,"finish_reason":"`...), chatFinish(choice, len(state.customs))...), `"}`...)
	}
	buf = append(append(buf, `],"usage":`...), chatUsage.write(o.Usage)...)
	buf = append(buf, chatServer(extraOrEmpty(o.Choices[len(o.Choices)-1]))...)
	if o.Step != nil {
		buf = append(append(buf, `,"stepfall":`...), rawJSON(o.Step)...)
	}
	return withUnknown(json.RawMessage(append(buf, '}')), middleware.DialectChat, middleware.ExtraOf(o.Choices[0]))
}

func appendChatMessage(buf []byte, choice *llms.ContentChoice, state *chatState) []byte {
	refusal := extraOrEmpty(choice).Refusal
	var calls []any
	for _, call := range choice.ToolCalls {
		if call.FunctionCall == nil {
			continue
		}
		id := callID(call.ID)
		one := Object{"id": tag(state.origin, id), "type": "function", "function": Object{"name": call.FunctionCall.Name, "arguments": call.FunctionCall.Arguments}}
		if extra := state.extras[id]; len(extra) > 0 {
			one["extra_content"] = extra
		}
		calls = append(calls, one)
	}
	for _, call := range state.customs {
		calls = append(calls, call)
	}
	buf = append(buf, `{"role":"assistant","content":`...)
	if choice.Content != "" && choice.Content != refusal || len(calls) == 0 && refusal == "" {
		buf = appendString(buf, choice.Content)
	} else {
		buf = append(buf, "null"...)
	}
	buf = appendNullable(append(buf, `,"refusal":`...), refusal)
	if choice.ReasoningContent != "" {
		buf = append(append(append(buf, `,"`...), state.thoughts...), `":`...)
		buf = appendString(buf, choice.ReasoningContent)
	}
	if len(state.details) > 0 {
		buf = append(append(buf, `,"reasoning_details":`...), rawJSON(state.details)...)
	}
	if len(calls) > 0 {
		buf = append(append(buf, `,"tool_calls":`...), rawJSON(calls)...)
	}
	return withMembers(append(buf, '}'), state.members)
}

// chatState is the state that a message carries for the model that returned it.
type chatState struct {
	origin   string // tagged on the calls, because no other text of the message can carry it
	details  []json.RawMessage
	thoughts string                     // name of the reasoning member
	extras   map[string]json.RawMessage // by call id
	members  []byte                     // members that are not state
	customs  []json.RawMessage          // calls of custom tools
}

func chatStateOf(x *middleware.Extra) (s chatState) {
	s.thoughts = thoughtMember(nil)
	// Details are placed before the text and the calls. The state of a model that thought between these would
	// come back in another order, which the model rejects.
	begins := true
	for i, p := range x.Parts {
		own, _ := p.(middleware.RawPart)
		isState := isState(&own)
		begins = begins && isState
		switch {
		case own.Dialect == middleware.DialectChat:
			s.addOwn(&own, isState)
		case !isState:
		case own.Dialect == middleware.DialectGemini:
			s.addSignature(own, x.Parts[i+1:])
		case !begins:
			s.details = nil
			return s
		default:
			s.addDetail(own)
		}
	}
	return s
}

func (s *chatState) addOwn(p *middleware.RawPart, isState bool) {
	if !isState && isCustomCall(*p) {
		s.customs = append(s.customs, p.Raw)
		return
	}
	if !isState {
		s.members = membersIn(*p, messageMembers)
		return
	}
	s.origin, s.thoughts = p.Model, thoughtMember(p)
	for _, d := range gjson.GetBytes(p.Raw, "reasoning_details").Array() {
		s.details = append(s.details, Seal(p.Model, json.RawMessage(d.Raw)))
	}
	for _, call := range gjson.GetBytes(p.Raw, "tool_calls").Array() {
		extra := json.RawMessage(call.Get("extra_content").Raw)
		if signature := call.Get(signaturePath).Str; signature != "" {
			extra = json.RawMessage(`{"google":{"thought_signature":` + string(appendString(nil, tag(p.Model, signature))) + `}}`)
		}
		setEntry(&s.extras, call.Get("id").Str, extra)
	}
}

// addSignature adds the signature of the call that comes next, or else of another part.
func (s *chatState) addSignature(p middleware.RawPart, next []llms.ContentPart) {
	if len(next) > 0 {
		if call, ok := next[0].(llms.ToolCall); ok {
			s.origin = p.Model
			setEntry(&s.extras, call.ID, json.RawMessage(`{"google":{"thought_signature":"`+Wrap(p)+`"}}`))
			return
		}
	}
	s.addDetail(p)
}

func (s *chatState) addDetail(p middleware.RawPart) {
	s.origin = p.Model
	s.details = append(s.details, json.RawMessage(`{"type":"reasoning.encrypted","data":"`+Wrap(p)+`","id":null,"format":"unknown","index":`+strconv.Itoa(len(s.details))+`}`))
}

// thoughtMember returns the name of the reasoning member of the model that a part comes from.
func thoughtMember(p *middleware.RawPart) string {
	if p != nil && p.Dialect == middleware.DialectChat && gjson.GetBytes(p.Raw, "reasoning").Exists() {
		return "reasoning"
	}
	return "reasoning_content"
}

func callID(id string) string {
	if id == "" {
		return "call_" + rand.Text()
	}
	return id
}

func appendLogProbs(buf []byte, list []sdk.TokenLogProb) []byte {
	return append(append(append(buf, `,"logprobs":{"content":`...), rawJSON(chatLogProbList(list))...), `,"refusal":null}`...)
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

func chatFinish(choice *llms.ContentChoice, customs int) string {
	switch stopKindOf(choice) {
	case stopLength:
		return "length"
	case stopFilter:
		return "content_filter"
	}
	if len(choice.ToolCalls)+customs > 0 {
		return "tool_calls"
	}
	return "stop"
}

// openAITier translates Anthropic's service tiers to OpenAI's:
// https://platform.claude.com/docs/en/api/service-tiers.
func openAITier(tier string) string {
	switch tier {
	case "standard":
		return "default"
	case "batch":
		return ""
	}
	return tier
}

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
