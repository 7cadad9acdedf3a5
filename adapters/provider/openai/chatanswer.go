package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// chatUsage is what an answer used.
func chatUsage(u gjson.Result) sdk.Usage {
	broken := false
	count := func(path string) int {
		var n wire.Count
		if v := u.Get(path); v.Exists() {
			_ = n.UnmarshalJSON([]byte(v.Raw)) // it takes everything
		}
		broken = broken || wire.AnyBroken(n)
		return int(n)
	}
	cached := max(count("prompt_tokens_details.cached_tokens"), count("prompt_cache_hit_tokens")) // OpenAI, DeepSeek
	prompt, written, completion, reasoning := count("prompt_tokens"), count("prompt_tokens_details.cache_write_tokens"), count("completion_tokens"), count("completion_tokens_details.reasoning_tokens")
	if broken {
		return wire.BrokenUsage
	}
	out := completion - reasoning
	if reasoning > 0 && count("total_tokens") == prompt+completion+reasoning {
		out = completion // xAI counts reasoning beside the completion
	}
	return sdk.Usage{
		InputTokens: max(0, prompt-cached-written), CachedInputTokens: cached, CacheWriteTokens: written,
		OutputTokens: max(0, out), ReasoningTokens: reasoning,
	}
}

// chatText is a string, or what a list of parts has of text.
func chatText(v gjson.Result) string {
	if !v.IsArray() {
		return v.Str
	}
	var b strings.Builder
	v.ForEach(func(_, part gjson.Result) bool {
		b.WriteString(part.Get("text").Str)
		return true
	})
	return b.String()
}

// chatTokens are the tokens of an answer with their log-probabilities.
func chatTokens(v gjson.Result) []sdk.TokenLogProb {
	var list []wire.Token
	if !v.IsArray() || json.Unmarshal([]byte(v.Raw), &list) != nil {
		return nil // an answer is not lost for what estimates it
	}
	return wire.Tokens(list)
}

// spoken is a choice as it grows.
type spoken struct {
	content, reasoning, refusal strings.Builder
	finish                      string
	calls                       []llms.ToolCall
	moved                       map[int]int // where the call of an index is, if not there
	logProbs                    []sdk.TokenLogProb
	details                     []json.RawMessage
	extras                      []callExtra
	audio                       json.RawMessage
	hasState, stateSent         bool // the message has members that its model wants back
}

// callExtra is what a call has besides, for its model alone.
type callExtra struct {
	ID    string          `json:"id"`
	Extra json.RawMessage `json:"extra_content"`
}

// position returns the index among calls of the one that a piece belongs to. The servers
// that call themselves compatible leave the index out, or give the same to several calls,
// or another id to each piece of one.
func (c *spoken) position(index gjson.Result, id, name string) int {
	known := slices.IndexFunc(c.calls, func(t llms.ToolCall) bool { return id != "" && t.ID == id })
	if index.Type != gjson.Number {
		switch {
		case known >= 0:
			return known
		case id == "" && len(c.calls) > 0:
			return len(c.calls) - 1
		}
		return len(c.calls)
	}
	at := int(index.Num)
	if to, ok := c.moved[at]; ok {
		at = to
	}
	if at < 0 || at >= len(c.calls) || id == "" || name == "" || c.calls[at].ID == "" || c.calls[at].ID == id {
		return at
	}
	if known < 0 { // a call of its own, with the index of another
		known = len(c.calls)
	}
	if c.moved == nil {
		c.moved = map[int]int{}
	}
	c.moved[int(index.Num)] = known
	return known
}

// detail takes in an entry of reasoning_details, of which a stream gives pieces: those of
// one index and type are one.
func (c *spoken) detail(raw json.RawMessage) {
	c.hasState = true
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
			all[name.Str], _ = json.Marshal(gjson.GetBytes(c.details[n], name.Str).Str + v.Str) // a string
		default:
			if v.Type != gjson.Null {
				all[name.Str] = json.RawMessage(v.Raw)
			}
		}
		return true
	})
	c.details[n], _ = json.Marshal(all) // of JSON
}

// state is what the message has for its own model, of which nothing more comes.
func (c *spoken) state(origin string) *middleware.RawPart {
	members := map[string]any{}
	if c.reasoning.Len() > 0 {
		members["reasoning_content"] = c.reasoning.String()
	}
	if c.details != nil {
		members["reasoning_details"] = c.details
	}
	if c.extras != nil {
		members["tool_calls"] = c.extras
	}
	raw, err := json.Marshal(members)
	if err != nil || !c.hasState || len(members) == 0 {
		return nil
	}
	return &middleware.RawPart{Dialect: middleware.DialectChat, Model: origin, Raw: raw}
}

// maxChoices bounds the indexes that a server may name.
const maxChoices = 128

// chatState collects the events of an answer, or all of it at once.
type chatState struct {
	*answer
	head    middleware.Extra
	choices []*spoken
}

func (a *answer) readChat(resp *http.Response, streams bool) (*llms.ContentResponse, error) {
	s := &chatState{answer: a}
	if streams && streamed(resp) {
		done, err := a.events(resp, s.event)
		if err != nil {
			return nil, s.blame(err)
		}
		if !done && !s.finished() {
			return nil, s.blame(a.x.Garbled(provider, errors.New("the stream ended before the answer did")))
		}
		return s.response()
	}
	data, err := a.whole(resp)
	if err != nil {
		return nil, err
	}
	s.head.Raw = data
	if err := s.event(data); err != nil {
		return nil, err
	}
	return s.response()
}

// blame adds what the answer has cost so far to an error.
func (s *chatState) blame(err error) error {
	if e, ok := errors.AsType[*middleware.ProviderError](err); ok {
		e.Usage = s.head.Usage
	}
	return err
}

func (s *chatState) finished() bool {
	for _, c := range s.choices {
		if c.finish == "" {
			return false
		}
	}
	return len(s.choices) > 0
}

var errNotJSON = errors.New("not a JSON object")

// event takes in an answer or an event of its stream, which is a hot path.
func (s *chatState) event(data []byte) (err error) {
	if !json.Valid(data) {
		return s.x.Garbled(provider, errNotJSON)
	}
	in := gjson.Parse(strings.ToValidUTF8(string(data), "\ufffd"))
	if !in.IsObject() {
		return s.x.Garbled(provider, errNotJSON)
	}
	if fault := in.Get("error"); fault.Exists() && fault.Type != gjson.Null {
		return s.x.Told(provider, data)
	}
	h := &s.head
	in.ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "id":
			h.ID = cmp.Or(v.Str, h.ID)
		case "model":
			h.Served = cmp.Or(v.Str, h.Served)
		case "system_fingerprint":
			h.Fingerprint = cmp.Or(v.Str, h.Fingerprint)
		case "service_tier":
			h.ServiceTier = cmp.Or(v.Str, h.ServiceTier)
		case "created":
			h.Created = cmp.Or(int64(v.Float()), h.Created)
		case "usage":
			if v.IsObject() {
				h.Usage = chatUsage(v)
			}
		case "choices":
			v.ForEach(func(_, choice gjson.Result) bool {
				err = s.choice(choice)
				return err == nil
			})
		}
		return err == nil
	})
	return err
}

// choice takes in what an event says of a choice.
func (s *chatState) choice(in gjson.Result) error {
	at := int(in.Get("index").Num)
	if at < 0 || at >= maxChoices {
		return nil
	}
	for len(s.choices) <= at {
		s.choices = append(s.choices, &spoken{})
	}
	c := s.choices[at]
	c.finish = cmp.Or(in.Get("finish_reason").Str, c.finish)
	var probs []sdk.TokenLogProb
	if tokens := in.Get("logprobs"); tokens.IsObject() {
		probs = append(chatTokens(tokens.Get("content")), chatTokens(tokens.Get("refusal"))...)
		c.logProbs = append(c.logProbs, probs...)
	}
	for _, name := range [...]string{"message", "delta"} {
		if piece := in.Get(name); piece.IsObject() {
			if err := s.piece(c, at, piece, probs); err != nil {
				return err
			}
			probs = nil
		}
	}
	return nil
}

// piece takes in a message, or a piece of one.
func (s *chatState) piece(c *spoken, choice int, in gjson.Result, probs []sdk.TokenLogProb) error {
	d := middleware.Delta{Choice: choice, LogProbs: probs}
	var calls gjson.Result
	in.ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "content":
			d.Text = chatText(v)
		case "refusal":
			d.Refusal = v.Str
		case "reasoning_content": // DeepSeek, llama.cpp and others
			if v.Str != "" {
				d.Reasoning, c.hasState = v.Str, true
			}
		case "reasoning": // OpenRouter, vLLM
			d.Reasoning = cmp.Or(d.Reasoning, chatText(v))
		case "reasoning_details": // OpenRouter
			v.ForEach(func(_, one gjson.Result) bool {
				c.detail(json.RawMessage(one.Raw))
				return true
			})
		case "audio":
			c.audio = json.RawMessage(v.Raw)
		case "tool_calls":
			calls = v
		}
		return true
	})
	c.content.WriteString(d.Text)
	c.reasoning.WriteString(d.Reasoning)
	c.refusal.WriteString(d.Refusal)
	if d.Text != "" || d.Reasoning != "" || d.Refusal != "" || len(probs) > 0 {
		if err := s.emit(&d); err != nil {
			return err
		}
	}
	var err error
	calls.ForEach(func(_, call gjson.Result) bool {
		err = s.call(c, choice, call)
		return err == nil
	})
	return err
}

// call takes in a piece of a tool call.
func (s *chatState) call(c *spoken, choice int, in gjson.Result) error {
	id, name, arguments := in.Get("id").Str, in.Get("function.name").Str, in.Get("function.arguments").String()
	at := c.position(in.Get("index"), id, name)
	if at < 0 || at >= maxChoices {
		return nil
	}
	for len(c.calls) <= at {
		c.calls = append(c.calls, llms.ToolCall{Type: "function", FunctionCall: &llms.FunctionCall{}})
	}
	if c.hasState && !c.stateSent { // what the call belongs to comes before it
		c.stateSent = true
		if err := s.emit(&middleware.Delta{Choice: choice, Raw: c.state(s.origin)}); err != nil {
			return err
		}
	}
	call := &c.calls[at]
	piece := middleware.ToolDelta{Index: at, Arguments: arguments}
	if call.ID == "" {
		call.ID, piece.ID = id, id
	}
	if call.FunctionCall.Name == "" {
		call.FunctionCall.Name, piece.Name = name, name
	}
	call.FunctionCall.Arguments += arguments
	if extra := in.Get("extra_content"); extra.IsObject() { // Google's signatures
		c.hasState, c.extras = true, append(c.extras, callExtra{call.ID, json.RawMessage(extra.Raw)})
	}
	return s.emit(&middleware.Delta{Choice: choice, Tool: &piece})
}

func (s *chatState) response() (*llms.ContentResponse, error) {
	if len(s.choices) == 0 {
		return nil, s.blame(s.x.Garbled(provider, middleware.ErrEmptyResponse))
	}
	out := &llms.ContentResponse{}
	s.head.RequestID, s.head.NotSent = s.x.RequestID(), s.notSent
	for _, c := range s.choices {
		x := s.head
		x.StopReason, x.Refusal, x.LogProbs = c.finish, c.refusal.String(), c.logProbs
		if c.finish == "content_filter" {
			x.Blocked = c.finish
		}
		own := &llms.ContentChoice{Content: c.content.String(), ReasoningContent: c.reasoning.String(), StopReason: c.finish, ToolCalls: c.calls}
		x.Parts = c.parts(own, s.origin)
		if len(c.calls) > 0 {
			own.FuncCall = c.calls[0].FunctionCall
		}
		own.GenerationInfo = wire.Info(&x, own.ReasoningContent)
		out.Choices = append(out.Choices, own)
	}
	return out, nil
}

// parts are the answer for a later turn, where its message has members of its own.
func (c *spoken) parts(own *llms.ContentChoice, origin string) (parts []llms.ContentPart) {
	if state := c.state(origin); state != nil {
		parts = append(parts, *state)
	}
	if id := gjson.GetBytes(c.audio, "id").Str; id != "" { // audio goes back by its id
		raw, _ := json.Marshal(map[string]any{"audio": map[string]string{"id": id}}) // of strings
		parts = append(parts, middleware.RawPart{Dialect: middleware.DialectChat, Raw: raw})
	}
	if parts == nil {
		return nil
	}
	if own.Content != "" {
		parts = append(parts, llms.TextContent{Text: own.Content})
	}
	for _, t := range own.ToolCalls {
		parts = append(parts, t)
	}
	return parts
}
