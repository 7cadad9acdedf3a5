package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk/redact"
)

// streamState watches the stream of one call.
type streamState struct {
	call *call
	from string // the candidate
	// native: the model streams by Params.OnDelta.
	native bool
	// live: chunks are passed to the caller. shown: some have been.
	live, shown bool
	bytes       int
	// hold: nothing is shown while head, the text so far, may be the beginning of a refusal, which a
	// check will reject, or while the draft is undecided. held are the pieces that wait.
	hold bool
	head string
	held []Delta
	// refused is the error by which the caller's function ended the stream.
	refused error
	// stops and secrets cut stop words and secrets out of what is shown, by choice; emit shows at the end
	// what they hold back.
	stops   map[int]*stopper
	secrets map[secretKey]*redact.Stream
	emit    func(context.Context, *Delta) error
	// draft looks for a reason to end the call; nil does not look.
	draft *draft
}

// install sets the streaming functions of one call: the caller's if it is live, otherwise none.
func (s *streamState) install(o *llms.CallOptions, p *Params) {
	content, reasoning, delta := s.call.resolved.StreamingFunc, s.call.resolved.StreamingReasoningFunc, s.call.params.OnDelta
	o.StreamingFunc, o.StreamingReasoningFunc, p.OnDelta = nil, nil, nil
	if s.draft != nil {
		p.OnDelta = func(ctx context.Context, d *Delta) error {
			if !s.shown && s.draft.isHopeless(d) {
				return errHopelessDraft
			}
			if !s.live {
				return nil
			}
			s.call.toolsShown = s.call.toolsShown || d.Tool != nil
			return s.show(ctx, d, s.call.emit)
		}
		return
	}
	if !s.live {
		return
	}
	if s.native {
		emit := s.call.emit // bound once: this is a hot path
		p.OnDelta = func(ctx context.Context, d *Delta) error {
			s.call.toolsShown = s.call.toolsShown || d.Tool != nil
			return s.show(ctx, d, emit)
		}
		return
	}
	// Some clients stream only with StreamingFunc set, or fail without it.
	o.StreamingFunc = func(ctx context.Context, chunk []byte) error {
		return s.show(ctx, &Delta{Text: string(chunk)}, func(ctx context.Context, d *Delta) error {
			switch {
			case delta != nil && !isToolChunk([]byte(d.Text)):
				return delta(ctx, d)
			case delta == nil && content != nil:
				return content(ctx, []byte(d.Text))
			}
			return nil
		})
	}
	switch {
	case delta != nil:
		o.StreamingReasoningFunc = func(ctx context.Context, thought, _ []byte) error {
			if len(thought) == 0 {
				return nil
			}
			return s.show(ctx, &Delta{Reasoning: string(thought)}, delta)
		}
	case reasoning != nil:
		o.StreamingReasoningFunc = func(ctx context.Context, thought, chunk []byte) error {
			return s.show(ctx, &Delta{Reasoning: string(thought)}, func(ctx context.Context, _ *Delta) error {
				return reasoning(ctx, bytes.Clone(thought), bytes.Clone(chunk))
			})
		}
	}
}

// isToolChunk reports whether a chunk is the list of tool calls that langchaingo's openai client
// streams as text.
func isToolChunk(chunk []byte) bool {
	var calls []llms.ToolCall
	return bytes.HasPrefix(chunk, []byte("[{")) && json.Unmarshal(chunk, &calls) == nil && calls[0].FunctionCall != nil
}

// show passes on the part of a piece before a stop word.
func (s *streamState) show(ctx context.Context, d *Delta, emit func(context.Context, *Delta) error) error {
	d.From, s.emit = s.from, emit
	if len(s.call.resolved.StopWords) > 0 {
		if d = s.cutAtStopWord(d); d == nil {
			return nil
		}
	}
	return s.pass(ctx, d, emit)
}

// pass counts a piece and passes it on, or holds it until a piece shows that the answer is no refusal.
func (s *streamState) pass(ctx context.Context, d *Delta, emit func(context.Context, *Delta) error) error {
	if s.call.m.secrets != nil {
		if d = s.removeSecrets(d); d == nil {
			return nil
		}
	}
	s.bytes += d.bytes()
	if !s.hold && len(s.held) == 0 {
		return s.deliver(ctx, d, emit)
	}
	held := append(s.held, *d)
	if s.hold {
		s.held, s.head = held, s.head+d.Text
		if s.head += d.Refusal; d.Refusal != "" || mayRefuse(s.head) || s.draft != nil && s.draft.isUndecided() {
			return nil
		}
		s.hold = false
	}
	s.held = nil
	for i := range held {
		if err := s.deliver(ctx, &held[i], emit); err != nil {
			return err
		}
	}
	return nil
}

func (s *streamState) deliver(ctx context.Context, d *Delta, emit func(context.Context, *Delta) error) error {
	s.shown = s.shown || d.bytes() > 0 || d.Raw != nil
	err := emit(ctx, d)
	if err != nil { // kept, since some clients go on
		s.refused = err
	}
	return err
}

// bytes is the length of the answer that the piece holds.
func (w *Delta) bytes() int {
	n := len(w.Text) + len(w.Reasoning) + len(w.Refusal)
	if w.Tool != nil {
		n += len(w.Tool.Name) + len(w.Tool.Arguments)
	}
	return n
}

// secretKey identifies a text that is streamed in pieces.
type secretKey struct {
	choice, tool int
	kind         byte
}

// removeSecrets returns a piece without secrets, or nil where all of it is held back.
func (s *streamState) removeSecrets(d *Delta) *Delta {
	clean := func(kind byte, tool int, text string) string {
		if text == "" {
			return ""
		}
		key := secretKey{d.Choice, tool, kind}
		if s.secrets == nil {
			s.secrets = map[secretKey]*redact.Stream{}
		}
		if s.secrets[key] == nil {
			s.secrets[key] = s.call.m.secrets.Stream()
		}
		return s.secrets[key].Next(text)
	}
	text, reasoning, refusal := clean('t', 0, d.Text), clean('r', 0, d.Reasoning), clean('f', 0, d.Refusal)
	isChanged := text != d.Text || reasoning != d.Reasoning || refusal != d.Refusal
	tool, raw := d.Tool, d.Raw
	if tool != nil {
		known := s.call.m.secrets.Known // for what comes whole
		own := ToolDelta{Index: tool.Index, ID: known(tool.ID), Name: known(tool.Name), Arguments: clean('a', tool.Index, tool.Arguments)}
		if own != *tool {
			isChanged, tool = true, &own
		}
	}
	if raw != nil {
		if s.call.m.rawHasSecrets(raw.Raw) {
			own := *raw
			own.Raw = json.RawMessage(s.call.m.secretsInJSON.Known(string(raw.Raw)))
			isChanged, raw = true, &own
		}
	}
	extra := d.Extra
	if extra != nil && s.call.m.extraHasSecrets(extra) {
		isChanged, extra = true, nil
	}
	isChanged = isChanged || s.call.m.tokensHaveSecrets(d.LogProbs)
	if !isChanged {
		return d
	}
	if text+reasoning+refusal == "" && d.Raw == nil && extra == nil && (tool == nil || tool.ID+tool.Name+tool.Arguments == "") {
		return nil
	}
	own := *d
	own.Text, own.Reasoning, own.Refusal, own.Tool, own.Raw, own.Extra, own.LogProbs = text, reasoning, refusal, tool, raw, extra, nil // which hold the text
	return &own
}

// flush shows what was held back as a possible beginning of a stop word or secret.
func (s *streamState) flush(ctx context.Context) error {
	if s.hold { // the whole answer is shown
		return nil
	}
	for choice, stop := range s.stops {
		if text := stop.held; text != "" {
			stop.held = ""
			if err := s.pass(ctx, &Delta{From: s.from, Choice: choice, Text: text}, s.emit); err != nil {
				return err
			}
		}
	}
	for key, stream := range s.secrets {
		rest := stream.End()
		if rest == "" {
			continue
		}
		d := Delta{From: s.from, Choice: key.choice}
		switch key.kind {
		case 't':
			d.Text = rest
		case 'r':
			d.Reasoning = rest
		case 'f':
			d.Refusal = rest
		default:
			d.Tool = &ToolDelta{Index: key.tool, Arguments: rest}
		}
		s.shown = true
		if err := s.emit(ctx, &d); err != nil {
			s.refused = err
			return err
		}
	}
	return nil
}

// isPlainAnswer reports whether an answer whose beginning has no fault can only be rejected for how it
// ends.
func (c *call) isPlainAnswer() bool {
	return !c.m.ownChecks && len(c.query.Tools) == 0 && !c.query.Format.JSON && len(c.query.Format.Schema) == 0 &&
		c.query.Labels[labelProtocol] == "" && c.resolved.StreamingReasoningFunc == nil && c.choices() <= 1
}

func (c *call) emit(ctx context.Context, d *Delta) error {
	if f := c.params.OnDelta; f != nil {
		return f(ctx, d)
	}
	if f := c.resolved.StreamingReasoningFunc; f != nil && (d.Reasoning != "" || d.Text != "") {
		if err := f(ctx, []byte(d.Reasoning), []byte(d.Text)); err != nil {
			return err
		}
	}
	if f := c.resolved.StreamingFunc; f != nil && d.Text != "" {
		return f(ctx, []byte(d.Text))
	}
	return nil
}

// replay passes the chosen answer to a caller that streams, unless it was streamed live. Tool calls
// alone are nothing for langchaingo's streaming functions.
func (c *call) replay(ctx context.Context, resp *llms.ContentResponse, from string) error {
	if !c.streamed || c.live && (c.params.OnDelta == nil || c.toolsShown) {
		return nil
	}
	for i, choice := range resp.Choices {
		if i > 0 && c.params.OnDelta == nil {
			break
		}
		for k, d := range c.pieces(i, choice) {
			if d.From = from; i+k == 0 && c.params.OnDelta != nil && !c.live {
				d.Extra = ExtraOf(choice)
			}
			if err := c.emit(ctx, &d); err != nil {
				return fmt.Errorf("streaming the answer to the caller: %w", err)
			}
		}
	}
	return nil
}

// pieces returns the parts of a choice in order, as if they had been streamed. The text is split by
// parts if these hold all of it; else it comes whole before the first call. What has no part follows.
func (w *Delta) pieces(parts []llms.ContentPart, calls []llms.ToolCall) (list []Delta) {
	var said strings.Builder
	for _, p := range parts {
		said.WriteString(textOf(p))
	}
	inTurn := w.LogProbs == nil && w.Refusal == "" && said.String() == w.Text
	add := func(d Delta) {
		d.Choice = w.Choice
		list = append(list, d)
	}
	rest := func() {
		if w.Text+w.Reasoning+w.Refusal != "" {
			list = append(list, *w)
		}
		*w = Delta{Choice: w.Choice}
	}
	call := 0
	next := func() {
		if t := calls[call]; t.FunctionCall != nil {
			add(Delta{Tool: &ToolDelta{Index: call, ID: t.ID, Name: t.FunctionCall.Name, Arguments: t.FunctionCall.Arguments}})
		}
		call++
	}
	for _, p := range parts {
		raw, isRaw := p.(RawPart)
		_, isCall := p.(llms.ToolCall)
		switch text := textOf(p); {
		case text != "" && inTurn:
			if w.Reasoning != "" {
				add(Delta{Reasoning: w.Reasoning})
			}
			d := Delta{Text: text}
			if isRaw { // citations
				d.Raw = &raw
			}
			add(d)
			w.Text, w.Reasoning = strings.TrimPrefix(w.Text, text), ""
		case text == "" && isRaw:
			add(Delta{Reasoning: w.Reasoning, Raw: &raw})
			w.Reasoning = ""
		case isCall && call < len(calls):
			if !inTurn {
				rest()
			} else if w.Reasoning != "" {
				add(Delta{Reasoning: w.Reasoning})
				w.Reasoning = ""
			}
			next()
		}
	}
	rest()
	for call < len(calls) {
		next()
	}
	return list
}

func textOf(p llms.ContentPart) string {
	switch p := p.(type) {
	case llms.TextContent:
		return p.Text
	case RawPart:
		return p.Text
	}
	return ""
}

// pieces returns a choice as if it had been streamed; after a live stream, only its tool calls.
func (c *call) pieces(i int, choice *llms.ContentChoice) []Delta {
	whole, x := Delta{Choice: i}, ExtraOf(choice)
	var parts []llms.ContentPart
	if !c.live {
		whole.Text, whole.Reasoning = choice.Content, choice.ReasoningContent
		if x != nil && x.Refusal != choice.Content {
			whole.Refusal = x.Refusal
		}
		if x != nil && c.params.LogProbs != nil {
			whole.LogProbs = x.LogProbs
		}
		if x != nil && c.params.OnDelta != nil {
			parts = x.Parts
		}
	}
	calls := choice.ToolCalls
	if c.params.OnDelta == nil {
		calls = nil
	}
	return whole.pieces(parts, calls)
}
