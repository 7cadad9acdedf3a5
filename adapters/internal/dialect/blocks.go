package dialect

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

type blockKind int

const (
	blockNone blockKind = iota
	blockThought
	blockText
	blockRefusal
	blockTool
	blockRaw // in the API's own form
)

// block is one block of an answer, for APIs whose answers are lists of blocks.
type block struct {
	kind     blockKind
	index    int                  // within the answer
	text     strings.Builder      // or the arguments of a tool call
	logprobs []chatLogProb        // never nil
	tool     middleware.ToolDelta // index, id and name of the call
	raw      middleware.RawPart
	members  []byte // unknown members
	isCut    bool
}

// isComplete reports whether the arguments of a call are whole. Only a text that ends like an object is parsed, since
// arguments can arrive in many pieces.
func (b *block) isComplete() bool {
	text := strings.TrimSpace(b.text.String())
	return strings.HasSuffix(text, "}") && gjson.Valid(text)
}

// blockWriter writes blocks, one at a time, each from its start to its stop.
type blockWriter interface {
	start(b *block)
	piece(b *block, text string, d *middleware.Delta)
	stop(b *block)
}

// sequence arranges the pieces of an answer, which can be interleaved, as consecutive blocks. The zero value
// with a writer and a dialect is ready to use.
type sequence struct {
	to      blockWriter
	dialect middleware.Dialect
	// holdThoughts holds reasoning back until it is known whether the provider's own form of it follows, which
	// then replaces it.
	holdThoughts bool
	// holdRefusals holds refusals back until the end, when it is known whether the answer explains them.
	holdRefusals bool
	// isCut means that the last block is truncated.
	isCut bool
	// endsWithText drops state of a model of another dialect that arrives after all the text.
	endsWithText bool
	// hidesThoughts means that the client does not see reasoning. State is then written only before calls.
	hidesThoughts bool
	// carry returns a block of this dialect that carries the state of a model of another dialect, together with
	// the reasoning text that belongs to it, or nil if the client cannot use it.
	carry func(p middleware.RawPart, reasoning string) json.RawMessage

	blocks  []*block
	items   map[string]*block // items in the provider's own form, by id
	open    *block
	late    *middleware.RawPart // state that arrived after a text: written before a later call, or dropped
	held    strings.Builder
	waiting []middleware.Delta // pieces that arrived within a call, whose arguments must not be split
	wrote   [blockRaw + 1]bool // by kind
	members map[string][]byte  // unknown members of calls, by id
}

func (s *sequence) Delta(d *middleware.Delta) {
	if d.Choice > 0 {
		return // these dialects have only one choice
	}
	if s.isOpen(blockTool) {
		rest, isOwn := *d, d.Tool != nil && d.Tool.Index == s.open.tool.Index
		if isOwn {
			rest.Tool = nil
		}
		if (rest.Tool != nil || rest.Text+rest.Reasoning+rest.Refusal != "") && !s.open.isComplete() {
			if !isOwn {
				if d.Tool != nil { // which is the caller's again after this piece
					rest.Tool = new(*d.Tool)
				}
				s.waiting = append(s.waiting, rest)
				return
			}
			s.call(d.Tool, d)
			s.Delta(&rest)
			return
		}
	}
	if d.Raw == nil || d.Raw.Dialect != s.dialect {
		if s.holdThoughts {
			s.held.WriteString(d.Reasoning)
		} else {
			s.writeSome(blockThought, d.Reasoning, d)
		}
		if d.Raw != nil {
			s.writeForeign(*d.Raw)
		}
	} else if isWhole := s.writeOwn(d); isWhole {
		return
	}
	s.writeSome(blockText, d.Text, d)
	if !s.holdRefusals {
		s.writeSome(blockRefusal, d.Refusal, d)
	}
	s.call(d.Tool, d)
}

// writeOwn writes a part of the dialect. isWhole is set for a text that arrived together with its part.
func (s *sequence) writeOwn(d *middleware.Delta) (isWhole bool) {
	isWhole = d.Raw.Text != "" && d.Text != ""
	if isWhole {
		s.close()
		s.write(blockText, d.Text, d)
	}
	if d.Raw.Text != "" && s.isOpen(blockText, blockRefusal) {
		s.endText(d.Raw)
	} else {
		s.writeOwnBlock(*d.Raw)
	}
	return isWhole
}

// writeWaiting ends the open call and writes the pieces that arrived within it.
func (s *sequence) writeWaiting() {
	waiting := s.waiting
	s.waiting = nil
	s.close()
	for i := range waiting {
		s.Delta(&waiting[i])
	}
}

func (s *sequence) isOpen(kinds ...blockKind) bool {
	return s.open != nil && slices.Contains(kinds, s.open.kind)
}

// endText ends the open text with p, the provider's own form of it.
func (s *sequence) endText(p *middleware.RawPart) {
	s.open.raw = *p
	s.open.raw.Raw = Seal(p.Model, p.Raw)
	s.close()
}

// begin stops the open block and starts another one, a call directly and others after the pieces that wait.
func (s *sequence) begin(b *block) *block {
	if late := s.late; late != nil && (b.kind == blockTool || !s.hidesThoughts) {
		s.late = nil
		s.writeOwnBlock(*late)
	}
	s.writeHeld()
	for len(s.waiting) > 0 && b.kind != blockTool {
		s.writeWaiting()
	}
	s.close()
	b.index, b.logprobs = len(s.blocks), []chatLogProb{}
	if b.kind != blockThought || !s.holdThoughts { // held reasoning arrived before the members
		b.members = s.members[b.tool.ID]
		delete(s.members, b.tool.ID)
	}
	if id := gjson.GetBytes(b.raw.Raw, "id").Str; id != "" {
		setEntry(&s.items, id, b)
	}
	s.blocks = append(s.blocks, b)
	s.open = b
	s.to.start(b)
	return b
}

func (s *sequence) close() {
	if s.open != nil {
		s.to.stop(s.open)
		s.open = nil
	}
}

// writeHeld writes the reasoning that was held back.
func (s *sequence) writeHeld() {
	text := s.held.String()
	s.held.Reset()
	s.writeSome(blockThought, text, nil)
}

func (s *sequence) write(k blockKind, text string, d *middleware.Delta) {
	s.wrote[k] = true
	if !s.isOpen(k) {
		s.begin(&block{kind: k})
	}
	s.open.text.WriteString(text)
	s.to.piece(s.open, text, d)
}

func (s *sequence) writeSome(k blockKind, text string, d *middleware.Delta) {
	if text != "" {
		s.write(k, text, d)
	}
}

// writeOwnBlock writes a block in the provider's own form, in place of reasoning that was held back.
func (s *sequence) writeOwnBlock(p middleware.RawPart) {
	p.Raw = Seal(p.Model, p.Raw)
	if members := gjson.GetBytes(p.Raw, partMembers); members.Exists() {
		if s.isOpen(blockText, blockRefusal) { // the members begin another block
			s.close()
		}
		setEntry(&s.members, members.Get("id").Str+members.Get("call_id").Str, newKnown("type id call_id").members(members))
		return
	}
	s.wrote[blockRaw] = true
	if p.Text != "" {
		s.wrote[blockText], s.wrote[blockRefusal] = true, true
	}
	s.held.Reset()
	if b := s.items[gjson.GetBytes(p.Raw, "id").Str]; b != nil { // p ends this item
		if b.raw = p; b == s.open {
			s.close()
		}
		return
	}
	if s.isOpen(blockThought) && !s.hidesThoughts {
		s.open.raw = p
		s.close()
		return
	}
	s.begin(&block{kind: blockRaw, raw: p})
	s.close()
}

// writeForeign writes the state of a model of another dialect.
func (s *sequence) writeForeign(p middleware.RawPart) {
	if !isState(&p) {
		return
	}
	text := s.held.String()
	if s.isOpen(blockThought) {
		text = s.open.text.String()
	}
	if raw := s.carry(p, text); raw != nil {
		own := middleware.RawPart{Dialect: s.dialect, Raw: raw}
		if s.hidesThoughts || s.endsWithText && s.isOpen(blockText) {
			s.late = &own
			return
		}
		s.writeOwnBlock(own)
	}
}

// call writes a piece of a tool call; nil is ignored.
func (s *sequence) call(t *middleware.ToolDelta, d *middleware.Delta) {
	if t == nil {
		return
	}
	s.wrote[blockTool] = true
	switch {
	case s.isOpen(blockTool) && s.open.tool.Index == t.Index:
		s.add(s.open, t, d)
	case t.ID+t.Name+strings.TrimSpace(t.Arguments) != "": // or the empty end of a call that is complete
		b := &block{kind: blockTool, tool: *t}
		b.tool.ID = callID(t.ID)
		s.add(s.begin(b), t, d)
	}
}

func (s *sequence) add(b *block, t *middleware.ToolDelta, d *middleware.Delta) {
	if t.Arguments != "" {
		b.text.WriteString(t.Arguments)
		s.to.piece(b, t.Arguments, d)
	}
	if len(s.waiting) > 0 && b.isComplete() {
		s.writeWaiting()
	}
}

// finishChoice writes the part of a choice that was not streamed, and stops the last block.
func (s *sequence) finishChoice(choice *llms.ContentChoice) {
	for len(s.waiting) > 0 {
		s.writeWaiting()
	}
	x := extraOrEmpty(choice)
	if !slices.Contains(s.wrote[:], true) && s.held.Len() == 0 {
		ours := slices.ContainsFunc(x.Parts, func(p llms.ContentPart) bool {
			raw, _ := p.(middleware.RawPart)
			return raw.Dialect == s.dialect
		})
		if !ours {
			s.writeSome(blockThought, choice.ReasoningContent, nil)
		}
		s.parts(x.Parts, x.Refusal)
	}
	s.writeTexts(choice, x)
	if !s.wrote[blockTool] {
		for i := range choice.ToolCalls {
			s.wholeCall(i, &choice.ToolCalls[i])
		}
	}
	if n := len(s.blocks); n > 0 {
		s.blocks[n-1].isCut = s.isCut
	}
	s.close()
}

// writeTexts writes the reasoning, the text and the refusal of a choice, each unless a part of it has been
// written.
func (s *sequence) writeTexts(choice *llms.ContentChoice, x *middleware.Extra) {
	if !s.wrote[blockThought] && !s.wrote[blockRaw] && s.held.Len() == 0 {
		s.writeSome(blockThought, choice.ReasoningContent, nil)
	}
	if s.writeHeld(); !s.wrote[blockText] && x.Refusal != choice.Content {
		s.writeSome(blockText, choice.Content, nil)
	}
	own := gjson.ParseBytes(x.Unknown.Raw)
	isExplained := x.Unknown.Dialect == s.dialect && (own.Get("stop_details").Exists() || own.Get("delta.stop_details").Exists()) // the text is not the model's
	if !s.wrote[blockRefusal] && !isExplained {
		s.writeSome(blockRefusal, x.Refusal, nil)
	}
}

func (s *sequence) wholeCall(i int, call *llms.ToolCall) {
	if whole := wholeCall(i, call); whole != nil {
		s.close()
		s.call(whole, nil)
	}
}

func wholeCall(i int, call *llms.ToolCall) *middleware.ToolDelta {
	if call.FunctionCall == nil {
		return nil
	}
	return &middleware.ToolDelta{Index: i, ID: call.ID, Name: call.FunctionCall.Name, Arguments: call.FunctionCall.Arguments}
}

// parts writes an answer in the provider's order. The refusal is left out: it becomes a separate block unless
// a part of this dialect contains it.
func (s *sequence) parts(parts []llms.ContentPart, refusal string) {
	tools := 0
	for _, p := range parts {
		switch p := p.(type) {
		case llms.TextContent:
			s.write(blockText, p.Text, nil)
		case middleware.RawPart:
			switch {
			case p.Dialect == s.dialect:
				s.writeOwnBlock(p)
			case p.Text != "":
				s.writeSome(blockText, strings.TrimSuffix(p.Text, refusal), nil)
			default:
				s.writeForeign(p)
			}
		case llms.ToolCall:
			s.wholeCall(tools, &p)
			tools++
		}
	}
}

// noEvents is the writer of answers that are not streamed.
type noEvents struct{}

func (noEvents) start(*block)                            {}
func (noEvents) piece(*block, string, *middleware.Delta) {}
func (noEvents) stop(*block)                             {}

// stopKind is the meaning of a provider's stop reason.
type stopKind int

const (
	stopEnd stopKind = iota
	stopLength
	stopFilter
	stopSequence
)

// extraOrEmpty is like [middleware.ExtraOf], but returns an empty Extra in place of nil.
func extraOrEmpty(choice *llms.ContentChoice) *middleware.Extra {
	if x := middleware.ExtraOf(choice); x != nil {
		return x
	}
	return &middleware.Extra{}
}

func stopKindOf(choice *llms.ContentChoice) stopKind {
	if strings.HasPrefix(choice.StopReason, middleware.StopError) {
		return stopLength // reports the answer as incomplete
	}
	switch choice.StopReason {
	case "length", "max_tokens", "max_output_tokens", "MAX_TOKENS", "FinishReasonMaxTokens", "model_length", "model_context_window_exceeded", "pause_turn", "compaction":
		return stopLength
	case "content_filter", "refusal", "SAFETY", "FinishReasonSafety", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII":
		return stopFilter
	case "stop_sequence":
		return stopSequence
	}
	return stopEnd
}
