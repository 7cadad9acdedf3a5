package dialect

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// messagesReply is an answer of Messages, or how it ends.
type messagesReply struct {
	ID           string            `json:"id"`
	Model        string            `json:"model"`
	Content      []json.RawMessage `json:"content"`
	StopReason   string            `json:"stop_reason"`
	StopSequence string            `json:"stop_sequence"`
	StopDetails  struct {
		Category    string `json:"category"`
		Explanation string `json:"explanation"`
	} `json:"stop_details"`
	Usage *messagesReplyUsage `json:"usage"`
	Error json.RawMessage     `json:"error"`
}

type messagesReplyUsage struct {
	messagesUsage
	Tier    string `json:"service_tier"`
	Details struct {
		Thinking Count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// messagesEvent is an event of a stream.
type messagesEvent struct {
	Type         string                     `json:"type"`
	Index        int                        `json:"index"`
	Message      json.RawMessage            `json:"message"`
	ContentBlock map[string]json.RawMessage `json:"content_block"`
	Delta        struct {
		Type        string          `json:"type"`
		Text        string          `json:"text"`
		Thinking    string          `json:"thinking"`
		Signature   string          `json:"signature"`
		PartialJSON string          `json:"partial_json"`
		Citation    json.RawMessage `json:"citation"`
		messagesReply
	} `json:"delta"`
	Usage *messagesReplyUsage `json:"usage"`
}

// blockReply is a content block as it grows.
type blockReply struct {
	kind                              string
	members                           map[string]json.RawMessage
	text, thinking, signature, inputs strings.Builder
	citations                         []json.RawMessage
	call                              int             // its index among the calls of tools
	raw                               json.RawMessage // of a block that came whole
	hasEnded                          bool
}

// messagesReader reads an answer of Messages.
type messagesReader struct {
	*Reply

	blocks   []*blockReply
	calls    int
	hasEnded bool
}

func (messages) Reader(r *Reply) Reader { return &messagesReader{Reply: r} }

func (s *messagesReader) Whole(data []byte) error {
	s.Extra.Raw, s.hasEnded = data, true
	return s.message(data)
}

// message reads an answer, whole or as it begins.
func (s *messagesReader) message(data []byte) error {
	var in messagesReply
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if len(in.Error) > 0 && string(in.Error) != "null" {
		return ServerError(data)
	}
	if in.ID == "" && in.Content == nil {
		return middleware.ErrEmptyResponse
	}
	s.Extra.ID, s.Extra.Served = in.ID, in.Model
	for _, raw := range in.Content {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return err
		}
		if err := s.begin(members); err != nil {
			return err
		}
		b := s.blocks[len(s.blocks)-1]
		b.raw = raw
		if err := s.finish(b); err != nil {
			return err
		}
	}
	s.close(&in)
	return nil
}

// close takes in how an answer ends and what it used.
func (s *messagesReader) close(in *messagesReply) {
	if in.StopReason != "" {
		s.choice(0).stop, s.Extra.StopSequence = in.StopReason, in.StopSequence
		if in.StopReason == "refusal" {
			s.Extra.Blocked = strings.TrimSpace("refusal " + in.StopDetails.Category)
			s.Extra.Refusal = in.StopDetails.Explanation
		}
	}
	u := in.Usage
	if u == nil {
		return
	}
	to := &s.Extra.Usage
	// The numbers of a stream are totals; those that do not change are left out.
	for _, one := range []struct {
		to   *int
		from Count
	}{{&to.InputTokens, u.Input}, {&to.CacheWriteTokens, u.CacheWrite}, {&to.CachedInputTokens, u.CacheRead}} {
		if one.from != 0 {
			*one.to = int(one.from)
		}
	}
	if u.Output != 0 {
		to.ReasoningTokens = int(min(u.Details.Thinking, u.Output))
		to.OutputTokens = int(u.Output) - to.ReasoningTokens
	}
	if u.Tier != "" {
		s.Extra.ServiceTier = u.Tier
	}
}

var errNoBlock = errors.New("a piece of a block that has not begun")

// Event takes in a piece of a stream.
func (s *messagesReader) Event(data []byte) error {
	if len(strings.TrimSpace(string(data))) == 0 {
		return nil
	}
	var e messagesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	switch e.Type {
	case "error":
		return ServerError(data)
	case "message_start":
		return s.message(e.Message)
	case "message_delta":
		e.Delta.Usage = e.Usage
		s.close(&e.Delta.messagesReply)
	case "message_stop":
		s.hasEnded = true
	case "content_block_start":
		if e.Index != len(s.blocks) || e.ContentBlock == nil {
			return errNoBlock
		}
		return s.begin(e.ContentBlock)
	case "content_block_delta", "content_block_stop":
		if e.Index < 0 || e.Index >= len(s.blocks) {
			return errNoBlock
		}
		if e.Type == "content_block_stop" {
			return s.finish(s.blocks[e.Index])
		}
		return s.grow(s.blocks[e.Index], &e)
	}
	return nil
}

// begin takes in a block, whole or as it begins.
func (s *messagesReader) begin(members map[string]json.RawMessage) error {
	b := &blockReply{kind: stringOf(members["type"]), members: members}
	s.blocks = append(s.blocks, b)
	c := s.choice(0)
	c.coverText()
	switch b.kind {
	case "tool_use":
		b.call = s.calls
		s.calls++
		if unknown := b.unknown("name", "input"); unknown != nil && gjson.GetBytes(unknown.Raw, partMembers+".@keys.#").Int() > 1 {
			c.parts, c.isSpecial = append(c.parts, *unknown), true
			if err := s.Emit(&middleware.Delta{Raw: unknown}); err != nil {
				return err
			}
		}
		return s.Emit(&middleware.Delta{Tool: &middleware.ToolDelta{Index: b.call, ID: stringOf(members["id"]), Name: stringOf(members["name"])}})
	case "text", "thinking":
		b.text.WriteString(stringOf(members["text"]))
		b.thinking.WriteString(stringOf(members["thinking"]))
		return s.add(&middleware.Delta{Text: b.text.String(), Reasoning: b.thinking.String()})
	}
	return nil
}

// unknown returns the members of a block beside its type and those that are known, or nil.
func (b *blockReply) unknown(known ...string) *middleware.RawPart {
	rest := Object{}
	for name, v := range b.members {
		if name != "type" && string(v) != "null" {
			rest[name] = v
		}
	}
	for _, name := range known {
		delete(rest, name)
	}
	raw, err := rest.JSON()
	if err != nil || len(rest) == 0 {
		return nil
	}
	return new(newMembers(middleware.DialectAnthropic, partMembers, raw[1:len(raw)-1]))
}

func (s *messagesReader) grow(b *blockReply, e *messagesEvent) error {
	d := middleware.Delta{}
	switch e.Delta.Type {
	case "text_delta":
		b.text.WriteString(e.Delta.Text)
		d.Text = e.Delta.Text
	case "thinking_delta":
		b.thinking.WriteString(e.Delta.Thinking)
		d.Reasoning = e.Delta.Thinking
	case "signature_delta":
		b.signature.WriteString(e.Delta.Signature)
	case "citations_delta":
		b.citations = append(b.citations, e.Delta.Citation)
	case "input_json_delta":
		b.inputs.WriteString(e.Delta.PartialJSON)
		if b.kind == "tool_use" {
			return s.Emit(&middleware.Delta{Tool: &middleware.ToolDelta{Index: b.call, Arguments: e.Delta.PartialJSON}})
		}
	}
	return s.add(&d)
}

// finish makes a part of a block that has come. What only its own form holds is given to
// who receives the stream: thinking with its signature, which a later turn needs, what the
// provider's own tools did, citations. Text and calls have been given as they came.
func (s *messagesReader) finish(b *blockReply) error {
	if b.hasEnded {
		return nil
	}
	b.hasEnded = true
	c := s.choice(0)
	if inputs := b.inputs.String(); json.Valid([]byte(inputs)) {
		b.members["input"] = json.RawMessage(inputs)
	} else if inputs != "" {
		b.members["input"] = json.RawMessage("{}") // a cut at the limit left half of the arguments
	}
	if b.kind == "tool_use" {
		call := llms.ToolCall{ID: stringOf(b.members["id"]), Type: "function", FunctionCall: &llms.FunctionCall{
			Name: stringOf(b.members["name"]), Arguments: string(argumentsObject(string(b.members["input"])))}}
		c.calls, c.parts = append(c.calls, call), append(c.parts, call)
		return nil
	}
	p := middleware.RawPart{Dialect: middleware.DialectAnthropic, TextContent: llms.TextContent{Text: b.text.String()}}
	for name, text := range map[string]string{"text": p.Text, "thinking": b.thinking.String(), "signature": b.signature.String()} {
		if text != "" {
			b.members[name], _ = json.Marshal(text) // a string
		}
	}
	if b.citations != nil {
		list, err := json.Marshal(b.citations)
		if err != nil {
			return err
		}
		b.members["citations"] = list
	}
	switch b.kind {
	case "text":
		if cited := string(b.members["citations"]); cited == "[]" || b.unknown("text") == nil {
			c.coverText()
			return nil
		}
	case "thinking", "redacted_thinking":
		p.Model = s.Origin
	}
	if p.Raw = b.raw; p.Raw == nil {
		raw, err := json.Marshal(b.members)
		if err != nil {
			return err
		}
		p.Raw = raw
	}
	c.addPart(p)
	return s.Emit(&middleware.Delta{Raw: &p})
}

func (s *messagesReader) End(bool) error {
	for _, b := range s.blocks {
		if err := s.finish(b); err != nil {
			return err
		}
	}
	switch {
	case !s.hasEnded:
		return errUnfinished
	case s.Extra.Usage == (sdk.Usage{}) && len(s.blocks) == 0 && (len(s.choices) == 0 || s.choices[0].stop == ""):
		return middleware.ErrEmptyResponse
	}
	s.choice(0)
	return nil
}
