package dialect

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

type ollama struct{}

var ollamaFields = newParamFields(
	"options.temperature", "Temperature", "options.top_p", "TopP", "options.top_k", "TopK", "options.seed", "Seed", "options.num_predict", "MaxTokens", "options.repeat_penalty", "RepetitionPenalty",
	"options.frequency_penalty", "FrequencyPenalty", "options.presence_penalty", "PresencePenalty", "logprobs", "LogProbs", "top_logprobs", "TopLogProbs",
)

func (ollama) Dialect() middleware.Dialect { return middleware.DialectOllama }

func (ollama) Write(c *Call) (Object, error) {
	o, p := c.Options, c.Params
	b := Object{"model": c.Model, "truncate": false}
	ollamaFields.write(b, p)
	setList(b, "options.stop", o.StopWords)
	if c.ContextTokens > 0 {
		b.setPath("options.num_ctx", c.ContextTokens)
	}
	switch {
	case p.Schema != nil:
		b["format"] = p.Schema.Schema
	case isJSON(o):
		b["format"] = "json"
	}
	if b.text("think", p.ReasoningEffort); p.ReasoningEffort == "none" {
		b["think"] = false
	}
	b.tools(c, middleware.DialectOllama, func(f *llms.FunctionDefinition) Object {
		function := c.functionObject(f, "parameters", Object{"type": "object", "properties": Object{}})
		delete(function, "strict")
		return Object{"type": "function", "function": function}
	})
	c.NotSent = append(c.NotSent, ollamaFields.missing(p, middleware.DialectOllama, "Schema", "ReasoningEffort")...)
	if mode, function, other := middleware.ToolChoice(o); mode == "none" {
		delete(b, "tools")
	} else {
		c.omit(mode == "required" || function != "" || other != nil, "ToolChoice")
	}
	t := ollamaWriter{names: map[string]string{}}
	if err := eachMessage(c.Messages, t.add); err != nil {
		return nil, err
	}
	b["messages"] = t.list
	b.addExtra(p, middleware.DialectOllama)
	if own, ok := p.Extra["options"]; ok && p.Dialect == middleware.DialectOllama {
		var more map[string]any
		if err := json.Unmarshal(own, &more); err != nil {
			return nil, refuseCall("options is not a JSON object: %s", err)
		}
		for name, v := range more {
			b.setPath("options."+name, v)
		}
	}
	b["stream"] = c.Stream
	return b, nil
}

type ollamaWriter struct {
	list  []Object
	names map[string]string // tool names by call id

	// The message under construction. A tool result is a message of its own.
	message Object
	text    string
	between string // separator of its texts
	hasText bool   // even if the text is empty
	images  []string
	calls   []any
}

func (t *ollamaWriter) add(role llms.ChatMessageType, parts []llms.ContentPart) error {
	t.message, t.text, t.between, t.hasText, t.images, t.calls = Object{"role": roleName(role)}, "", separatorAfter(role), false, nil, nil
	if err := eachPart(parts, t.part); err != nil {
		return err
	}
	if !t.hasText && t.images == nil && t.calls == nil && len(t.message) == 1 {
		return nil
	}
	t.message["content"] = t.text
	setList(t.message, "images", t.images)
	setList(t.message, "tool_calls", t.calls)
	t.list = append(t.list, t.message)
	return nil
}

func (t *ollamaWriter) part(p llms.ContentPart, _ *llms.CacheControl) error {
	switch p := p.(type) {
	case middleware.NamePart: // the API has no names
	case llms.TextContent:
		if t.text != "" && p.Text != "" {
			t.text += t.between
		}
		t.text, t.hasText = t.text+p.Text, true
	case llms.ImageURLContent:
		return t.image(imageFile(p))
	case middleware.FilePart:
		return t.image(p)
	case llms.ToolCall:
		t.names[p.ID] = p.FunctionCall.Name
		t.calls = append(t.calls, Object{"id": p.ID, "function": Object{"name": p.FunctionCall.Name, "arguments": argumentsObject(p.FunctionCall.Arguments)}})
	case middleware.ResultPart:
		text, _ := textOf(p.Parts, "\n")
		o := Object{"role": "tool", "content": cmp.Or(p.Content, text)}
		o.text("tool_name", cmp.Or(p.Name, t.names[p.ToolCallID]))
		o.text("tool_call_id", p.ToolCallID)
		t.list = append(t.list, o)
		head := resultHead(p)
		return eachPart(p.Parts, func(inner llms.ContentPart, cache *llms.CacheControl) error {
			if _, isText := inner.(llms.TextContent); isText {
				return nil // contained in the result's content
			}
			_ = t.part(head, nil) // cannot fail for a text
			head.Text = ""
			return t.part(inner, cache)
		})
	case middleware.RawPart: // members of the message
		t.message.addMembers(gjson.ParseBytes(p.Raw))
		t.text, t.hasText = t.text+p.Text, t.hasText || p.Text != ""
	default:
		return refusePart(p)
	}
	return nil
}

func (t *ollamaWriter) image(p middleware.FilePart) error {
	switch {
	case p.Data == nil:
		return refuseCall("the API rejects files by URL or name: %s", cmp.Or(p.URL, p.ID))
	case !strings.HasPrefix(p.MIMEType, "image/"):
		return refuseCall("the API accepts images, not %s", p.MIMEType)
	}
	t.images = append(t.images, base64.StdEncoding.EncodeToString(p.Data))
	return nil
}

type ollamaLine struct {
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
	Message   struct {
		Content   string `json:"content"`
		Thinking  string `json:"thinking"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done       bool             `json:"done"`
	DoneReason string           `json:"done_reason"`
	LogProbs   []chatLogProb    `json:"logprobs"`
	Error      *json.RawMessage `json:"error"`
}

type ollamaReader struct {
	*Reply

	hasEnded bool
}

func (ollama) Reader(r *Reply) Reader { return &ollamaReader{Reply: r} }

func (s *ollamaReader) Whole(data []byte) error { return s.Event(data) }

// Event reads one line of the stream.
func (s *ollamaReader) Event(data []byte) error {
	var in ollamaLine
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.Error != nil {
		return ServerError(data)
	}
	x := &s.Extra
	x.Served, x.Created = in.Model, in.CreatedAt.Unix()
	c := s.choice(0)
	s.add(&middleware.Delta{Text: in.Message.Content, Reasoning: in.Message.Thinking, LogProbs: logProbsOf(in.LogProbs)})
	if len(in.Message.ToolCalls) > 0 && len(c.calls) == 0 { // the state must precede the calls that it belongs to
		if state := s.state(); state != nil {
			s.Emit(&middleware.Delta{Raw: state})
		}
	}
	for _, t := range in.Message.ToolCalls {
		s.addCall(0, callID(t.ID), t.Function.Name, s.wantArguments(t.Function.Arguments))
	}
	if in.Done {
		s.hasEnded, c.stop = true, cmp.Or(in.DoneReason, "stop")
		c.markErrorStop()
		x.Usage = ollamaUsage.read(gjson.ParseBytes(data))
	}
	return s.mistyped
}

// HasEnded implements [Reader].
func (s *ollamaReader) HasEnded() bool { return s.hasEnded }

func (s *ollamaReader) End(bool) error {
	if !s.hasEnded {
		return errUnfinished
	}
	if state := s.state(); state != nil {
		c := s.choice(0)
		c.coverText()
		c.isSpecial, c.parts = true, append([]llms.ContentPart{*state}, c.parts...)
	}
	return nil
}

// state returns the model's reasoning, to be sent back to it.
func (s *ollamaReader) state() *middleware.RawPart {
	thinking := s.choice(0).reasoning.String()
	if thinking == "" {
		return nil
	}
	return &middleware.RawPart{Dialect: middleware.DialectOllama, Model: s.Origin, Raw: rawJSON(map[string]string{"thinking": thinking})}
}
