package middleware

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk/redact"
)

// streamState tracks the stream of one call.
type streamState struct {
	call *call
	from string // the candidate
	kind kind
	// live: chunks are passed on to the caller. shown: at least one has been.
	live, shown bool
	bytes       int
	// hold: nothing is shown while the draft is undecided, or while head, the text so far, can still be the
	// beginning of a refusal, which a check would reject. held are the pieces that were held back.
	hold bool
	head string
	held []Delta
	// callerErr is the error with which the caller's function ended the stream.
	callerErr error
	// stops and secrets cut stop words and secrets out of the shown text, by choice. At the end, emit shows
	// what they held back.
	stops   map[int]*stopper
	secrets map[textKey]*redact.Stream
	emit    func(context.Context, *Delta) error
	// draft detects answers that are certain to be rejected; nil detects none.
	draft *draft
}

// install sets the streaming functions of one call: the caller's if the call is live, otherwise none.
func (s *streamState) install(o *llms.CallOptions, p *Params) {
	reasoning, delta := s.call.resolved.StreamingReasoningFunc, s.call.params.OnDelta
	o.StreamingFunc, o.StreamingReasoningFunc, p.OnDelta = nil, nil, nil
	if s.draft != nil || s.live && s.kind == kindNative {
		s.emit = s.call.emit // bound once: this is a hot path
		p.OnDelta = s.receive
		return
	}
	if !s.live {
		return
	}
	// Some clients stream only if StreamingFunc is set, or fail without it.
	o.StreamingFunc = func(ctx context.Context, chunk []byte) error {
		return s.show(ctx, &Delta{Text: string(chunk)}, s.call.emitText)
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

// receive passes on a piece from a native model, unless the draft is hopeless or nothing may be shown.
func (s *streamState) receive(ctx context.Context, d *Delta) error {
	if s.draft != nil && !s.shown && s.draft.isHopeless(d) {
		return errHopelessDraft
	}
	if !s.live {
		s.bytes += d.bytes()
		return nil
	}
	s.call.toolsShown = s.call.toolsShown || d.Tool != nil
	return s.show(ctx, d, s.emit)
}

// isToolChunk reports whether a chunk is the list of tool calls that langchaingo's openai client
// streams as text.
func isToolChunk(chunk []byte) bool {
	var calls []llms.ToolCall
	return bytes.HasPrefix(chunk, []byte("[{")) && json.Unmarshal(chunk, &calls) == nil && calls[0].FunctionCall != nil
}

// show passes on the part of a piece that precedes a stop word.
func (s *streamState) show(ctx context.Context, d *Delta, emit func(context.Context, *Delta) error) error {
	if d.From, s.emit = s.from, emit; d.Tool != nil && d.Tool.Index > 0 && s.call.takesOneCall() {
		return nil
	}
	if len(s.call.resolved.StopWords) > 0 {
		if d = s.cutAtStopWord(d); d == nil {
			return nil
		}
	}
	return s.pass(ctx, d, emit)
}

// pass counts a piece and passes it on, or holds it back until the answer is known not to be a refusal.
func (s *streamState) pass(ctx context.Context, d *Delta, emit func(context.Context, *Delta) error) error {
	if d = s.removeSecrets(d); d == nil {
		return nil
	}
	s.bytes += d.bytes()
	if !s.hold && len(s.held) == 0 {
		return s.deliver(ctx, d, emit)
	}
	held := append(s.held, *d)
	if s.hold {
		s.held, s.head = held, s.head+d.Text+d.Refusal
		if s.hold = d.Refusal != "" || mayRefuse(s.head) || s.draft != nil && s.draft.isUndecided(); s.hold {
			return nil
		}
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
	if err != nil { // kept because some clients continue after an error
		s.callerErr = err
	}
	return err
}

// bytes returns the length of the text and tool calls in the delta.
func (w *Delta) bytes() int {
	n := len(w.Text) + len(w.Reasoning) + len(w.Refusal)
	if w.Tool != nil {
		n += len(w.Tool.Name) + len(w.Tool.Arguments)
	}
	return n
}

// textKey identifies a text that is streamed in pieces.
type textKey struct {
	choice, tool int
	kind         byte
}

// removeSecrets returns a piece without secrets, or nil if all of it is held back.
func (s *streamState) removeSecrets(d *Delta) *Delta {
	m := s.call.m
	if m.secrets == nil {
		return d
	}
	text, reasoning, refusal := s.redactText('t', d.Choice, 0, d.Text), s.redactText('r', d.Choice, 0, d.Reasoning), s.redactText('f', d.Choice, 0, d.Refusal)
	tool, raw, extra := s.toolWithoutSecrets(d), m.rawWithoutSecrets(d.Raw), d.Extra
	if m.extraHasSecrets(extra) {
		extra = nil
	}
	if [...]string{text, reasoning, refusal} == [...]string{d.Text, d.Reasoning, d.Refusal} &&
		tool == d.Tool && raw == d.Raw && extra == d.Extra && !m.tokensHaveSecrets(d.LogProbs) {
		return d
	}
	// The log-probabilities are left out because they repeat the text.
	own := &Delta{From: d.From, Choice: d.Choice, Text: text, Reasoning: reasoning, Refusal: refusal, Tool: tool, Raw: raw, Extra: extra}
	return own.unlessEmpty()
}

// redactText returns the part of a text that can be shown after its next piece.
func (s *streamState) redactText(kind byte, choice, tool int, piece string) string {
	if piece == "" {
		return ""
	}
	key := textKey{choice, tool, kind}
	if s.secrets == nil {
		s.secrets = map[textKey]*redact.Stream{}
	}
	if s.secrets[key] == nil {
		s.secrets[key] = s.call.m.secrets.Stream()
	}
	return s.secrets[key].Next(piece)
}

// toolWithoutSecrets returns d.Tool itself if it contains no secrets.
func (s *streamState) toolWithoutSecrets(d *Delta) *ToolDelta {
	t, whole := d.Tool, s.call.m.secrets.Known // for fields that arrive in one piece
	if t == nil {
		return nil
	}
	own := ToolDelta{Index: t.Index, ID: whole(t.ID), Name: whole(t.Name), Arguments: s.redactText('a', d.Choice, t.Index, t.Arguments)}
	if own == *t {
		return t
	}
	return &own
}

// rawWithoutSecrets returns p itself if it contains no secrets.
func (m *Model) rawWithoutSecrets(p *RawPart) *RawPart {
	if p == nil || !m.rawHasSecrets(p.Raw) {
		return p
	}
	own := *p
	own.Raw = json.RawMessage(m.secretsInJSON.Known(string(p.Raw)))
	return &own
}

// unlessEmpty returns nil for an empty delta.
func (w *Delta) unlessEmpty() *Delta {
	if w.Text+w.Reasoning+w.Refusal == "" && w.Raw == nil && w.Extra == nil && (w.Tool == nil || w.Tool.ID+w.Tool.Name+w.Tool.Arguments == "") {
		return nil
	}
	return w
}

// finish checks the response for faults, and shows text that was held back as the possible beginning of a
// stop word or secret.
func (s *streamState) finish(ctx context.Context, resp *llms.ContentResponse) error {
	if err := responseFault(resp, s.live && s.kind == kindOpenAI); err != nil || s.hold { // with hold set, replay shows the whole answer
		return err
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
		if rest := stream.End(); rest != "" {
			if err := s.deliver(ctx, key.piece(s.from, rest), s.emit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k textKey) piece(from, text string) *Delta {
	d := &Delta{From: from, Choice: k.choice}
	switch k.kind {
	case 't':
		d.Text = text
	case 'r':
		d.Reasoning = text
	case 'f':
		d.Refusal = text
	default:
		d.Tool = &ToolDelta{Index: k.tool, Arguments: text}
	}
	return d
}

// isPlainAnswer reports whether an answer with an acceptable beginning can only be rejected because of its
// end.
func (c *call) isPlainAnswer() bool {
	return !c.m.ownChecks && len(c.query.Tools) == 0 && !c.query.Format.JSON && len(c.query.Format.Schema) == 0 &&
		c.query.Labels[labelProtocol] == "" && c.resolved.StreamingReasoningFunc == nil && c.choices() <= 1
}

// emitText passes the text of a piece to the caller, unless it is a list of tool calls.
func (c *call) emitText(ctx context.Context, d *Delta) error {
	switch delta, content := c.params.OnDelta, c.resolved.StreamingFunc; {
	case delta != nil && !isToolChunk([]byte(d.Text)):
		return delta(ctx, d)
	case delta == nil && content != nil:
		return content(ctx, []byte(d.Text))
	}
	return nil
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

// replay passes the chosen answer to a streaming caller, unless it was streamed live. langchaingo's
// streaming functions have no form for tool calls alone.
func (c *call) replay(ctx context.Context, resp *llms.ContentResponse, from string) error {
	if !c.streamed || c.live && (c.params.OnDelta == nil || c.toolsShown) {
		return nil
	}
	for i, choice := range resp.Choices {
		for _, d := range c.pieces(i, choice) {
			d.From = from
			if err := c.emit(ctx, &d); err != nil {
				return fmt.Errorf("streaming the answer to the caller: %w", err)
			}
		}
	}
	return nil
}

// pieces splits the delta of a whole choice as if it had been streamed. The text is split by parts if these
// add up to it; otherwise it comes in one piece before the first call. Calls that have no part follow at the end.
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
	whole, x := Delta{Choice: i}, cmp.Or(ExtraOf(choice), &Extra{})
	if !c.live {
		whole.Text, whole.Reasoning, whole.Refusal = choice.Content, choice.ReasoningContent, x.Refusal
		if x.Refusal == choice.Content {
			whole.Refusal = ""
		}
		if c.params.LogProbs != nil {
			whole.LogProbs = x.LogProbs
		}
	}
	switch {
	case c.params.OnDelta == nil && i > 0: // langchaingo's streaming functions know only one choice
		return nil
	case c.params.OnDelta == nil:
		return whole.pieces(nil, nil)
	case c.live:
		return whole.pieces(nil, choice.ToolCalls)
	}
	list := whole.pieces(x.Parts, choice.ToolCalls)
	if i == 0 && len(list) > 0 {
		list[0].Extra = ExtraOf(choice)
	}
	return list
}
