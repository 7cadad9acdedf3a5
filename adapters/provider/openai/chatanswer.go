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

// completion is an answer of chat completions, or one event of its stream.
type completion struct {
	ID          string          `json:"id"`
	Model       string          `json:"model"`
	Created     json.Number     `json:"created"`
	Fingerprint string          `json:"system_fingerprint"`
	ServiceTier string          `json:"service_tier"`
	Choices     []choice        `json:"choices"`
	Usage       *usage          `json:"usage"`
	Error       json.RawMessage `json:"error"`
}

type choice struct {
	Index        int    `json:"index"`
	FinishReason string `json:"finish_reason"`
	Message      piece  `json:"message"`
	Delta        piece  `json:"delta"`
	LogProbs     *struct {
		Content []wire.Token `json:"content"`
		Refusal []wire.Token `json:"refusal"`
	} `json:"logprobs"`
}

// piece is a message, or a piece of one.
type piece struct {
	Content          text              `json:"content"`
	Refusal          string            `json:"refusal"`
	ReasoningContent string            `json:"reasoning_content"` // DeepSeek, llama.cpp and others
	Reasoning        text              `json:"reasoning"`         // OpenRouter, vLLM
	ReasoningDetails []json.RawMessage `json:"reasoning_details"` // OpenRouter
	Audio            json.RawMessage   `json:"audio"`
	ToolCalls        []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
		Extra json.RawMessage `json:"extra_content"` // Google's signatures
	} `json:"tool_calls"`
}

// text is a string, or a list of parts of which those with text count.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(data, &parts); err != nil {
			return err
		}
		for _, p := range parts {
			*t += text(p.Text)
		}
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

type usage struct {
	Prompt        wire.Count `json:"prompt_tokens"`
	Completion    wire.Count `json:"completion_tokens"`
	Total         wire.Count `json:"total_tokens"`
	PromptDetails struct {
		Cached     wire.Count `json:"cached_tokens"`
		CacheWrite wire.Count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning wire.Count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit wire.Count `json:"prompt_cache_hit_tokens"` // DeepSeek
}

func (u *usage) sdk() sdk.Usage {
	if wire.AnyBroken(u.Prompt, u.Completion, u.PromptDetails.Cached, u.PromptDetails.CacheWrite, u.CompletionDetails.Reasoning, u.CacheHit) {
		return wire.BrokenUsage
	}
	cached, reasoning := int(max(u.PromptDetails.Cached, u.CacheHit)), int(u.CompletionDetails.Reasoning)
	prompt, written, out := int(u.Prompt), int(u.PromptDetails.CacheWrite), int(u.Completion)-reasoning
	if reasoning > 0 && int(u.Total) == prompt+int(u.Completion)+reasoning {
		out = int(u.Completion) // xAI counts reasoning beside the completion
	}
	return sdk.Usage{
		InputTokens: max(0, prompt-cached-written), CachedInputTokens: cached, CacheWriteTokens: written,
		OutputTokens: max(0, out), ReasoningTokens: reasoning,
	}
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
func (c *spoken) position(index *int, id, name string) int {
	known := slices.IndexFunc(c.calls, func(t llms.ToolCall) bool { return id != "" && t.ID == id })
	if index == nil {
		switch {
		case known >= 0:
			return known
		case id == "" && len(c.calls) > 0:
			return len(c.calls) - 1
		}
		return len(c.calls)
	}
	at := *index
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
	c.moved[*index] = known
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
	again   pattern
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
	if err := s.decode(data); err != nil {
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

// event takes in a piece of the answer.
func (s *chatState) event(data []byte) error {
	if said, ok := s.again.read(data); ok {
		return s.say(s.again.choice, said)
	}
	if in, ok := s.quick(data); ok {
		return s.add(data, in)
	}
	return s.decode(data)
}

// decode takes in an event or an answer of any form.
func (s *chatState) decode(data []byte) error {
	var in completion
	if err := json.Unmarshal(data, &in); err != nil {
		return s.x.Garbled(provider, err)
	}
	return s.add(data, &in)
}

// add takes in what an event says.
func (s *chatState) add(data []byte, in *completion) error {
	if len(in.Error) > 0 && string(in.Error) != "null" {
		return s.x.Told(provider, data)
	}
	h := &s.head
	if in.ID != "" {
		h.ID = in.ID
	}
	if in.Model != "" {
		h.Served = in.Model
	}
	if in.Fingerprint != "" {
		h.Fingerprint = in.Fingerprint
	}
	if in.ServiceTier != "" {
		h.ServiceTier = in.ServiceTier
	}
	if n, err := in.Created.Float64(); err == nil {
		h.Created = int64(n)
	}
	if in.Usage != nil {
		h.Usage = in.Usage.sdk()
	}
	for i := range in.Choices {
		if at := in.Choices[i].Index; at < 0 || at >= maxChoices {
			continue
		}
		for len(s.choices) <= in.Choices[i].Index {
			s.choices = append(s.choices, &spoken{})
		}
		if err := s.take(&in.Choices[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *chatState) take(in *choice) error {
	c := s.choices[in.Index]
	if in.FinishReason != "" {
		c.finish = in.FinishReason
	}
	for _, p := range []*piece{&in.Message, &in.Delta} {
		reasoning := cmp.Or(p.ReasoningContent, string(p.Reasoning))
		var probs []sdk.TokenLogProb
		if p == &in.Delta && in.LogProbs != nil {
			probs = append(wire.Tokens(in.LogProbs.Content), wire.Tokens(in.LogProbs.Refusal)...)
			c.logProbs = append(c.logProbs, probs...)
		}
		c.content.WriteString(string(p.Content))
		c.reasoning.WriteString(reasoning)
		c.refusal.WriteString(p.Refusal)
		for _, raw := range p.ReasoningDetails {
			c.detail(raw)
		}
		if p.Audio != nil {
			c.audio = p.Audio
		}
		c.hasState = c.hasState || p.ReasoningContent != ""
		if p.Content != "" || reasoning != "" || p.Refusal != "" || len(probs) > 0 {
			d := &middleware.Delta{Choice: in.Index, Text: string(p.Content), Reasoning: reasoning, Refusal: p.Refusal, LogProbs: probs}
			if err := s.emit(d); err != nil {
				return err
			}
		}
		for _, t := range p.ToolCalls {
			at := c.position(t.Index, t.ID, t.Function.Name)
			if at < 0 || at >= maxChoices {
				continue
			}
			for len(c.calls) <= at {
				c.calls = append(c.calls, llms.ToolCall{Type: "function", FunctionCall: &llms.FunctionCall{}})
			}
			if c.hasState && !c.stateSent { // what the call belongs to comes before it
				c.stateSent = true
				if err := s.emit(&middleware.Delta{Choice: in.Index, Raw: c.state(s.origin)}); err != nil {
					return err
				}
			}
			call := &c.calls[at]
			piece := middleware.ToolDelta{Index: at, Arguments: t.Function.Arguments}
			if call.ID == "" {
				call.ID, piece.ID = t.ID, t.ID
			}
			if call.FunctionCall.Name == "" {
				call.FunctionCall.Name, piece.Name = t.Function.Name, t.Function.Name
			}
			call.FunctionCall.Arguments += t.Function.Arguments
			if len(t.Extra) > 0 && string(t.Extra) != "null" {
				c.hasState, c.extras = true, append(c.extras, callExtra{call.ID, t.Extra})
			}
			if err := s.emit(&middleware.Delta{Choice: in.Index, Tool: &piece}); err != nil {
				return err
			}
		}
	}
	return nil
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
