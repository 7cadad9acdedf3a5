package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// message is an answer of the Messages API.
type message struct {
	ID           string            `json:"id"`
	Model        string            `json:"model"`
	Content      []json.RawMessage `json:"content"`
	StopReason   string            `json:"stop_reason"`
	StopSequence string            `json:"stop_sequence"`
	StopDetails  struct {
		Category    string `json:"category"`
		Explanation string `json:"explanation"`
	} `json:"stop_details"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type usage struct {
	Input      wire.Count `json:"input_tokens"`
	CacheWrite wire.Count `json:"cache_creation_input_tokens"`
	CacheRead  wire.Count `json:"cache_read_input_tokens"`
	Output     wire.Count `json:"output_tokens"`
	Tier       string     `json:"service_tier"`
	Details    struct {
		Thinking wire.Count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// streamed is an event of a stream.
type streamed struct {
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
		message
	} `json:"delta"`
	Usage *usage `json:"usage"`
}

// growing is a content block that is being streamed.
type growing struct {
	members                           map[string]json.RawMessage
	text, thinking, signature, inputs strings.Builder
	citations                         []json.RawMessage
}

// answer is one on its way.
type answer struct {
	x      *wire.Exchange
	emit   wire.Emit
	origin string
	extra  middleware.Extra
	stop   string
	ended  bool

	content   []json.RawMessage
	blocks    []*growing
	toolIndex map[int]int
}

// message reads an answer, whole or as it begins.
func (a *answer) message(data []byte) error {
	var in message
	if err := json.Unmarshal(data, &in); err != nil {
		return a.x.Garbled(provider, err)
	}
	if len(in.Error) > 0 && string(in.Error) != "null" {
		return a.x.Told(provider, data)
	}
	if in.ID == "" && in.Content == nil {
		return a.x.Garbled(provider, middleware.ErrEmptyResponse)
	}
	a.extra.ID, a.extra.Served, a.content = in.ID, in.Model, in.Content
	a.end(&in)
	return nil
}

// end takes in how an answer ends and what it used.
func (a *answer) end(in *message) {
	if in.StopReason != "" {
		a.stop, a.extra.StopReason, a.extra.StopSequence = in.StopReason, in.StopReason, in.StopSequence
		if in.StopReason == "refusal" {
			a.extra.Blocked = strings.TrimSpace("refusal " + in.StopDetails.Category)
			a.extra.Refusal = in.StopDetails.Explanation
		}
	}
	a.used(in.Usage)
}

func (a *answer) used(u *usage) {
	if u == nil {
		return
	}
	to := &a.extra.Usage
	// The numbers of a stream are totals; those that do not change are left out.
	for _, one := range []struct {
		to   *int
		from wire.Count
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
		a.extra.ServiceTier = u.Tier
	}
}

// event takes in a piece of a stream.
func (a *answer) event(data []byte) error {
	var e streamed
	if len(strings.TrimSpace(string(data))) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return a.x.Garbled(provider, err)
	}
	switch e.Type {
	case "error":
		return a.x.Told(provider, data)
	case "message_start":
		return a.message(e.Message)
	case "message_delta":
		e.Delta.Usage = e.Usage
		a.end(&e.Delta.message)
	case "message_stop":
		a.ended = true
	case "content_block_start":
		if e.Index != len(a.blocks) || e.ContentBlock == nil {
			return a.x.Garbled(provider, middleware.ErrTruncatedStream)
		}
		g := &growing{members: e.ContentBlock}
		a.blocks = append(a.blocks, g)
		switch wordOf(g.members["type"]) {
		case "text":
			g.text.WriteString(wordOf(g.members["text"]))
		case "tool_use":
			if a.toolIndex == nil {
				a.toolIndex = map[int]int{}
			}
			a.toolIndex[e.Index] = len(a.toolIndex)
			return a.emit(&middleware.Delta{Tool: &middleware.ToolDelta{Index: a.toolIndex[e.Index], ID: wordOf(g.members["id"]), Name: wordOf(g.members["name"])}})
		}
	case "content_block_delta":
		if e.Index < 0 || e.Index >= len(a.blocks) {
			return a.x.Garbled(provider, middleware.ErrTruncatedStream)
		}
		return a.grow(a.blocks[e.Index], &e)
	case "content_block_stop":
		if e.Index >= 0 && e.Index < len(a.blocks) {
			return a.grown(a.blocks[e.Index])
		}
	}
	return nil
}

func (a *answer) grow(g *growing, e *streamed) error {
	d := middleware.Delta{}
	switch e.Delta.Type {
	case "text_delta":
		g.text.WriteString(e.Delta.Text)
		d.Text = e.Delta.Text
	case "thinking_delta":
		g.thinking.WriteString(e.Delta.Thinking)
		d.Reasoning = e.Delta.Thinking
	case "signature_delta":
		g.signature.WriteString(e.Delta.Signature)
		return nil
	case "citations_delta":
		g.citations = append(g.citations, e.Delta.Citation)
		return nil
	case "input_json_delta":
		g.inputs.WriteString(e.Delta.PartialJSON)
		index, ours := a.toolIndex[e.Index]
		if !ours {
			return nil // a tool of the provider's own
		}
		d.Tool = &middleware.ToolDelta{Index: index, Arguments: e.Delta.PartialJSON}
	default:
		return nil
	}
	return a.emit(&d)
}

// grown gives the caller a block that only its own form holds: thinking with its
// signature, which a later turn needs, or what the provider's own tools did. Text and
// calls have been given as they came.
func (a *answer) grown(g *growing) error {
	switch wordOf(g.members["type"]) {
	case "text", "tool_use":
		return nil
	}
	raw, err := g.whole()
	if err != nil {
		return a.x.Garbled(provider, err)
	}
	return a.emit(&middleware.Delta{Raw: &middleware.RawPart{Dialect: middleware.DialectAnthropic, Model: a.owner(wordOf(g.members["type"])), Raw: raw}})
}

// owner is whose state a block of the type is.
func (a *answer) owner(kind string) string {
	if kind == "thinking" || kind == "redacted_thinking" {
		return a.origin
	}
	return ""
}

// whole is the block as an answer that is not streamed has it.
func (g *growing) whole() (json.RawMessage, error) {
	set := func(name, text string) {
		if text != "" {
			g.members[name], _ = json.Marshal(text) // a string
		}
	}
	set("text", g.text.String())
	set("thinking", g.thinking.String())
	set("signature", g.signature.String())
	if g.inputs.Len() > 0 {
		g.members["input"] = json.RawMessage(g.inputs.String())
	}
	if g.citations != nil {
		list, err := json.Marshal(g.citations)
		if err != nil {
			return nil, err
		}
		g.members["citations"] = list
	}
	return json.Marshal(g.members)
}

func wordOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text) // what is no text is none
	return text
}

func (a *answer) response() (*llms.ContentResponse, error) {
	for _, g := range a.blocks {
		raw, err := g.whole()
		if err != nil {
			// A cut at the limit may leave half of a tool's arguments.
			g.members["input"] = json.RawMessage("{}")
			if raw, err = json.Marshal(g.members); err != nil {
				return nil, a.x.Garbled(provider, err)
			}
		}
		a.content = append(a.content, raw)
	}
	x := &a.extra
	own := &llms.ContentChoice{StopReason: a.stop}
	var text, thinking strings.Builder
	plain := true
	for _, raw := range a.content {
		var b struct {
			Type, Text, Thinking, ID, Name string
			Input                          json.RawMessage
			Citations                      json.RawMessage
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			return nil, a.x.Garbled(provider, err)
		}
		switch {
		case b.Type == "text" && (len(b.Citations) == 0 || string(b.Citations) == "null" || string(b.Citations) == "[]"):
			text.WriteString(b.Text)
			x.Parts = append(x.Parts, llms.TextContent{Text: b.Text})
			continue
		case b.Type == "tool_use":
			call := llms.ToolCall{ID: b.ID, Type: "function", FunctionCall: &llms.FunctionCall{Name: b.Name, Arguments: string(wire.Arguments(string(b.Input)))}}
			own.ToolCalls = append(own.ToolCalls, call)
			x.Parts = append(x.Parts, call)
			continue
		}
		plain = false
		text.WriteString(b.Text)
		thinking.WriteString(b.Thinking)
		x.Parts = append(x.Parts, middleware.RawPart{TextContent: llms.TextContent{Text: b.Text}, Dialect: middleware.DialectAnthropic, Model: a.owner(b.Type), Raw: raw})
	}
	if plain {
		x.Parts = nil
	}
	if x.Usage == (sdk.Usage{}) && len(a.content) == 0 && a.stop == "" {
		return nil, a.x.Garbled(provider, middleware.ErrEmptyResponse)
	}
	own.Content, own.ReasoningContent = text.String(), thinking.String()
	if len(own.ToolCalls) > 0 {
		own.FuncCall = own.ToolCalls[0].FunctionCall
	}
	own.GenerationInfo = wire.Info(x, own.ReasoningContent)
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{own}}, nil
}
