package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// textIn returns a text, or the texts of a list of parts, and separately the reasoning that Mistral puts among
// them.
func (s *chatReader) textIn(name string, v gjson.Result) (text, thought string) {
	if !v.IsArray() {
		return s.wantText(name, v), ""
	}
	s.wantObjects(name, v, func(part gjson.Result) {
		text += s.wantText(name, part.Get("text"))
		within, _ := s.textIn("thinking", part.Get("thinking"))
		thought += within
	})
	return text, thought
}

func chatTokens(v gjson.Result) []sdk.TokenLogProb {
	var list []chatLogProb
	if !v.IsArray() || json.Unmarshal([]byte(v.Raw), &list) != nil {
		return nil // log-probabilities are optional and must not lose the answer
	}
	return logProbsOf(list)
}

type chatReader struct {
	*Reply

	choices     []*chatReply
	last        textPiece
	memberCount int    // number of message members in the current event
	text        string // the last of them, as JSON
	lastPiece   middleware.Delta
}

func (chat) Reader(r *Reply) Reader { return &chatReader{Reply: r} }

func (s *chatReader) Whole(data []byte) error {
	s.Extra.Raw = data
	return s.Event(data)
}

// knownOfCompletion are the members of answers and of their events that are converted. Those of messages are
// parts of the answer.
var knownOfCompletion = newKnown("error id object created model system_fingerprint service_tier obfuscation choices.index choices.finish_reason choices.logprobs " +
	"choices.message.* choices.message.tool_calls.index choices.message.tool_calls.id choices.message.tool_calls.type choices.message.tool_calls.extra_content " +
	"choices.message.tool_calls.function.name choices.message.tool_calls.function.arguments choices.delta.* choices.delta.tool_calls.index " +
	"choices.delta.tool_calls.id choices.delta.tool_calls.type choices.delta.tool_calls.extra_content choices.delta.tool_calls.function.name " +
	"choices.delta.tool_calls.function.arguments choices.message.tool_calls.custom choices.delta.tool_calls.custom usage.prompt_cache_hit_tokens usage.prompt_cache_miss_tokens" + chatUsage.known("usage"))

func (s *chatReader) End(isMarked bool) error {
	s.dropOldUsage()
	hasEnded := len(s.choices) > 0
	for _, c := range s.choices {
		hasEnded = hasEnded && c.stop != ""
		c.markErrorStop()
		calls := s.endCalls(c)
		var first []llms.ContentPart // state and unknown members, before the other parts
		if state := c.state(s.Origin); state != nil {
			first = append(first, *state)
		}
		if len(c.unknown) > 0 {
			first = append(first, newMembers(middleware.DialectChat, messageMembers, c.unknown.inner()))
		}
		if first != nil || len(calls) != len(c.calls) {
			c.isSpecial = true
			c.coverText()
			c.parts = slices.Concat(first, c.parts, calls)
		}
	}
	// Proxies send the end marker even if their upstream broke off: it ends an answer only if that has been
	// billed.
	if !hasEnded && s.Extra.Raw == nil && (!isMarked || s.Extra.Usage == (sdk.Usage{})) {
		return errUnfinished
	}
	return nil
}

// endCalls returns the calls as parts. It sets missing arguments to {}, because clients parse them as JSON, and
// emits calls of custom tools, which are not streamed.
func (s *chatReader) endCalls(c *chatReply) (parts []llms.ContentPart) {
	calls := c.calls
	c.calls = nil
	for i, call := range calls {
		f := call.FunctionCall
		f.Arguments = c.places[i].arguments.String()
		if call.Type == "custom" {
			raw := rawJSON(Object{"id": callID(call.ID), "type": "custom", "custom": Object{"name": f.Name, "input": f.Arguments}})
			p := middleware.RawPart{Dialect: middleware.DialectChat, Raw: raw, Instead: customCall(call.ID, f.Name, f.Arguments)}
			s.Emit(&middleware.Delta{Choice: c.index, Raw: &p})
			parts = append(parts, p)
			continue
		}
		if c.calls, parts = append(c.calls, call), append(parts, call); f.Arguments != "" {
			continue
		}
		f.Arguments = "{}"
		if i == len(calls)-1 { // clients have already ended the others
			s.Emit(&middleware.Delta{Choice: c.index, Tool: &middleware.ToolDelta{Index: i, Arguments: "{}"}})
		}
	}
	return parts
}

var errNotJSON = errors.New("not a JSON object")

// Event reads an answer or an event of its stream. It is on the hot path.
func (s *chatReader) Event(data []byte) error {
	if d := s.last.match(data); d != nil {
		s.add(d)
		return nil
	}
	in, err := parseEvent(data)
	if err != nil || !in.IsObject() {
		return errNotJSON
	}
	s.addUnknown(middleware.DialectChat, knownOfCompletion.unknownMembers(in))
	s.memberCount, s.lastPiece = 0, middleware.Delta{}
	if err = s.completion(in, data); err == nil {
		err = s.mistyped
	}
	if s.memberCount == 1 && err == nil && s.Extra.Raw == nil {
		s.last.keep(data, s.text, &s.lastPiece)
	}
	return err
}

// parseEvent parses JSON from a server, replacing invalid UTF-8 by U+FFFD.
func parseEvent(data []byte) (gjson.Result, error) {
	text := string(data)
	if !gjson.Valid(text) {
		return gjson.Result{}, errNotJSON
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	return gjson.Parse(text), nil
}

func (s *chatReader) completion(in gjson.Result, data []byte) (err error) {
	var usage gjson.Result
	in.ForEach(func(name, v gjson.Result) bool {
		switch {
		case name.Str == "error" && v.Type != gjson.Null, name.Str == "object" && v.Str == "error": // the latter is Mistral's
			err = ServerError(data)
		case name.Str == "usage" && v.IsObject():
			usage = v
		case name.Str == "choices":
			s.choicesIn(v)
		default:
			s.describe(name.Str, v)
		}
		return err == nil
	})
	for _, path := range [...]string{"x_groq.usage", "choices.0.usage"} { // of Groq and Moonshot, in streams
		if !usage.IsObject() && bytes.Contains(data, []byte("prompt_tokens")) {
			usage = in.Get(path)
		}
	}
	if usage.IsObject() { // after the choices, which the usage includes
		s.setUsage(chatUsage.read(usage))
		s.Extra.AudioTokens = max(s.Extra.AudioTokens, tokensOf(usage.Get("prompt_tokens_details.audio_tokens")))
	}
	return err
}

func (s *chatReader) describe(name string, v gjson.Result) {
	h := &s.Extra
	switch name {
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
	}
}

// choicesIn reads a list of choices by their indexes, or by their order if two indexes are equal.
func (s *chatReader) choicesIn(list gjson.Result) {
	if list.Type == gjson.Null && slices.ContainsFunc(s.choices, func(c *chatReply) bool { return c.stop == "" }) {
		s.noteType("choices", "a list")
	}
	var isUsed [maxChoices]bool
	isRepeated, choices := false, make([]gjson.Result, 0, 2)
	s.wantObjects("choices", list, func(choice gjson.Result) {
		choices = append(choices, choice)
		if at := choice.Get("index").Int(); at >= 0 && at < maxChoices {
			isRepeated, isUsed[at] = isRepeated || isUsed[at], true
		}
	})
	for at, choice := range choices {
		if !isRepeated {
			at = int(choice.Get("index").Int()) // even if the number is in quotes
		}
		if s.choice(choice, at); s.mistyped != nil {
			return
		}
	}
}

func (s *chatReader) choice(in gjson.Result, at int) {
	if s.Reply.choice(at) == nil {
		s.noteType("index", fmt.Sprintf("a number from 0 to %d", maxChoices-1))
		return
	}
	for i := len(s.choices); i <= at; i++ {
		s.choices = append(s.choices, &chatReply{replyChoice: s.Reply.choices[i], index: i})
	}
	c, message, delta := s.choices[at], in.Get("message"), in.Get("delta")
	s.endChoice(c.replyChoice, s.wantText("finish_reason", in.Get("finish_reason")))
	var probs []sdk.TokenLogProb
	if logProbs := in.Get("logprobs"); logProbs.IsObject() {
		probs = append(chatTokens(logProbs.Get("content")), chatTokens(logProbs.Get("refusal"))...)
	}
	if s.want(message.IsObject(), "message", "an object", message) {
		s.piece(c, message, probs)
		probs = nil
	}
	if s.want(delta.IsObject(), "delta", "an object", delta) || probs != nil {
		s.piece(c, delta, probs)
	}
}

type messagePiece struct {
	middleware.Delta

	calls   gjson.Result
	unknown Object
}

func (s *chatReader) piece(c *chatReply, in gjson.Result, probs []sdk.TokenLogProb) {
	p := messagePiece{Delta: middleware.Delta{Choice: c.index, LogProbs: probs}}
	s.memberCount += len(probs)
	in.ForEach(func(name, v gjson.Result) bool {
		if v.Type != gjson.Null && v.Raw != `""` && v.Raw != "[]" && name.Str != "role" {
			s.memberCount, s.text = s.memberCount+1, v.Raw
		}
		s.member(c, &p, name.Str, v)
		return true
	})
	if s.mistyped != nil {
		return
	}
	if p.Text+p.Reasoning != "" { // another choice in the event may be empty
		s.lastPiece = p.Delta
	}
	s.addText(c, p.Delta)
	if p.unknown != nil {
		for name, v := range p.unknown {
			setEntry(&c.unknown, name, v)
		}
		members := newMembers(middleware.DialectChat, messageMembers, p.unknown.inner())
		s.Emit(&middleware.Delta{Choice: c.index, Raw: &members})
	}
	c.lists++
	s.wantObjects("tool_calls", p.calls, func(call gjson.Result) { s.call(c, call) })
}

func (s *chatReader) member(c *chatReply, p *messagePiece, name string, v gjson.Result) {
	switch name {
	case "content":
		var thought string
		p.Text, thought = s.textIn(name, v)
		c.think(&p.Delta, "reasoning_content", thought)
	case "refusal":
		p.Refusal = s.wantText(name, v)
	case "reasoning_content", "reasoning": // the former of DeepSeek and llama.cpp, the latter of OpenRouter and vLLM
		thought, _ := s.textIn(name, v)
		c.think(&p.Delta, name, thought)
	case "reasoning_details": // of OpenRouter
		s.wantObjects(name, v, func(one gjson.Result) { s.addDetail(c, one) })
	case "tool_calls":
		p.calls = v
	case "role", "function_call":
	default:
		if v.Type != gjson.Null && v.Raw != "[]" {
			setEntry(&p.unknown, name, any(json.RawMessage(v.Raw)))
		}
	}
}

func (c *chatReply) think(d *middleware.Delta, name, thought string) {
	if thought != "" {
		d.Reasoning, c.thoughts, c.hasState, c.isStateNew = thought, name, true, true
	}
}

// addText adds a delta, after the name of its reasoning member, and emits the state between the reasoning and
// the text.
func (s *chatReader) addText(c *chatReply, d middleware.Delta) {
	if d.Reasoning != "" && c.thoughts == "reasoning" && c.reasoning.Len() == 0 {
		s.Emit(&middleware.Delta{Choice: c.index, Raw: &middleware.RawPart{Dialect: middleware.DialectChat, Raw: json.RawMessage(`{"reasoning":""}`)}})
	}
	if d.Text != "" && c.isStateNew && c.content.Len() == 0 {
		s.add(&middleware.Delta{Choice: d.Choice, Reasoning: d.Reasoning})
		s.sendState(c)
		d.Reasoning = ""
	}
	s.add(&d)
}

func (s *chatReader) sendState(c *chatReply) {
	if c.isStateNew {
		c.isStateNew = false
		s.Emit(&middleware.Delta{Choice: c.index, Raw: c.state(s.Origin)})
	}
}

func (s *chatReader) call(c *chatReply, in gjson.Result) {
	f, own := in.Get("function"), in.Get("custom")
	s.want(f.IsObject(), "function", "an object", f)
	s.want(own.IsObject(), "custom", "an object", own)
	id, custom, given := in.Get("id").Str, s.wantText("custom.name", own.Get("name")), f.Get("arguments")
	name, arguments := cmp.Or(s.wantText("function.name", f.Get("name")), custom), given.String()+s.wantText("custom.input", own.Get("input"))
	if s.want(given.Type == gjson.String || given.Type == gjson.JSON, "function.arguments", "a string", given); s.mistyped != nil {
		return
	}
	n := len(c.calls)
	at := c.position(in.Get("index"), id, name)
	if at >= maxChoices {
		c.calls, c.places = c.calls[:maxChoices], c.places[:maxChoices]
		return
	}
	call, piece := &c.calls[at], middleware.ToolDelta{Index: at, Arguments: arguments}
	if extra := in.Get("extra_content"); extra.IsObject() { // Google's signatures
		c.hasState, c.isStateNew, c.extras = true, true, append(c.extras, callExtra{call.ID, json.RawMessage(extra.Raw)})
	}
	if at == n {
		s.sendState(c)
		piece.ID = call.ID
	}
	s.isUsageOld = true
	if call.FunctionCall.Name == "" {
		call.FunctionCall.Name, piece.Name = name, name
	}
	c.places[at].arguments.WriteString(arguments)
	if call.Type == "custom" || custom != "" {
		call.Type = "custom"
		return // it is sent in one piece at its end
	}
	s.Emit(&middleware.Delta{Choice: c.index, Tool: &piece})
}
