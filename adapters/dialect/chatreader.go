package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// readChatUsage is what an answer used.
func readChatUsage(u gjson.Result) sdk.Usage {
	broken := false
	count := func(path string) int {
		var n Count
		if v := u.Get(path); v.Exists() {
			_ = n.UnmarshalJSON([]byte(v.Raw)) // it takes everything
		}
		broken = broken || AnyBroken(n)
		return int(n)
	}
	cached := max(count("prompt_tokens_details.cached_tokens"), count("prompt_cache_hit_tokens")) // OpenAI, DeepSeek
	prompt, written, completion, reasoning := count("prompt_tokens"), count("prompt_tokens_details.cache_write_tokens"), count("completion_tokens"), count("completion_tokens_details.reasoning_tokens")
	if broken {
		return BrokenUsage
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
	var list []chatLogProb
	if !v.IsArray() || json.Unmarshal([]byte(v.Raw), &list) != nil {
		return nil // an answer is not lost for what estimates it
	}
	return logProbsOf(list)
}

// chatReply is a choice as it grows, with what only chat completions have.
type chatReply struct {
	*replyChoice

	index               int
	moved               map[int]int // where the call of an index is, if not there
	details             []json.RawMessage
	extras              []callExtra
	hasState, stateSent bool   // the message has members that its model wants back
	unknown             Object // members of the message
}

// callExtra is what a call has besides, for its model alone.
type callExtra struct {
	ID    string          `json:"id"`
	Extra json.RawMessage `json:"extra_content"`
}

// position returns the index among calls of the one that a piece belongs to. The servers
// that call themselves compatible leave the index out, or give the same to several calls,
// or another id to each piece of one.
func (c *chatReply) position(index gjson.Result, id, name string) int {
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
func (c *chatReply) detail(raw json.RawMessage) {
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
func (c *chatReply) state(origin string) *middleware.RawPart {
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

// chatReader reads an answer of chat completions.
type chatReader struct {
	*Reply

	choices []*chatReply
}

func (chat) Reader(r *Reply) Reader { return &chatReader{Reply: r} }

func (s *chatReader) Whole(data []byte) error {
	s.Extra.Raw = data
	return s.Event(data)
}

func (s *chatReader) End(isMarked bool) error {
	hasEnded := len(s.choices) > 0
	for _, c := range s.choices {
		hasEnded = hasEnded && c.stop != ""
		var first []llms.ContentPart
		if state := c.state(s.Origin); state != nil {
			first = append(first, *state)
		}
		if id := audioID(c.unknown["audio"]); id != nil { // audio goes back by its id
			c.unknown["audio"] = id
		}
		if len(c.unknown) > 0 {
			raw, err := c.unknown.JSON()
			if err != nil {
				return err
			}
			first = append(first, newMembers(middleware.DialectChat, messageMembers, raw[1:len(raw)-1]))
		}
		if first == nil {
			continue
		}
		c.isSpecial = true
		c.coverText()
		for _, call := range c.calls {
			c.parts = append(c.parts, call)
		}
		c.parts = append(first, c.parts...)
	}
	if !hasEnded && !isMarked && s.Extra.Raw == nil {
		return errUnfinished
	}
	return nil
}

// audioID is what of an answer in sound a later turn sends, nil for none.
func audioID(audio any) any {
	raw, _ := audio.(json.RawMessage)
	if id := gjson.GetBytes(raw, "id").Str; id != "" {
		return Object{"id": id}
	}
	return nil
}

var errNotJSON = errors.New("not a JSON object")

// Event takes in an answer or an event of its stream, which is a hot path.
func (s *chatReader) Event(data []byte) (err error) {
	if !gjson.ValidBytes(data) {
		return errNotJSON
	}
	in := gjson.Parse(strings.ToValidUTF8(string(data), "\ufffd"))
	if !in.IsObject() {
		return errNotJSON
	}
	h := &s.Extra
	in.ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "error":
			if v.Type != gjson.Null {
				err = ServerError(data)
			}
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
				h.Usage = readChatUsage(v)
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
func (s *chatReader) choice(in gjson.Result) error {
	var index, finish, logProbs, message, delta gjson.Result
	in.ForEach(func(name, v gjson.Result) bool {
		switch name.Str {
		case "index":
			index = v
		case "finish_reason":
			finish = v
		case "logprobs":
			logProbs = v
		case "message":
			message = v
		case "delta":
			delta = v
		}
		return true
	})
	at := int(index.Num)
	if s.Reply.choice(at) == nil {
		return nil
	}
	for i := len(s.choices); i <= at; i++ {
		s.choices = append(s.choices, &chatReply{replyChoice: s.Reply.choices[i], index: i})
	}
	c := s.choices[at]
	c.stop = cmp.Or(finish.Str, c.stop)
	var probs []sdk.TokenLogProb
	if logProbs.IsObject() {
		probs = append(chatTokens(logProbs.Get("content")), chatTokens(logProbs.Get("refusal"))...)
	}
	if message.IsObject() {
		if err := s.piece(c, message, probs); err != nil {
			return err
		}
		probs = nil
	}
	if delta.IsObject() || probs != nil {
		return s.piece(c, delta, probs)
	}
	return nil
}

// piece takes in a message, or a piece of one.
func (s *chatReader) piece(c *chatReply, in gjson.Result, probs []sdk.TokenLogProb) error {
	d := middleware.Delta{Choice: c.index, LogProbs: probs}
	var calls gjson.Result
	var unknown Object
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
		case "tool_calls":
			calls = v
		case "role", "function_call":
		default:
			if v.Type != gjson.Null && v.Raw != "[]" {
				if unknown == nil {
					unknown = Object{}
				}
				unknown[name.Str] = json.RawMessage(v.Raw)
			}
		}
		return true
	})
	if err := s.add(&d); err != nil {
		return err
	}
	if unknown != nil {
		if c.unknown == nil {
			c.unknown = Object{}
		}
		maps.Copy(c.unknown, unknown)
		if err := s.emitMembers(c.index, unknown); err != nil {
			return err
		}
	}
	var err error
	calls.ForEach(func(_, call gjson.Result) bool {
		err = s.call(c, call)
		return err == nil
	})
	return err
}

// emitMembers gives members of a message to who receives the stream.
func (s *chatReader) emitMembers(choice int, members Object) error {
	raw, err := members.JSON()
	if err != nil {
		return err
	}
	p := newMembers(middleware.DialectChat, messageMembers, raw[1:len(raw)-1])
	return s.Emit(&middleware.Delta{Choice: choice, Raw: &p})
}

// call takes in a piece of a tool call.
func (s *chatReader) call(c *chatReply, in gjson.Result) error {
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
		if err := s.Emit(&middleware.Delta{Choice: c.index, Raw: c.state(s.Origin)}); err != nil {
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
	return s.Emit(&middleware.Delta{Choice: c.index, Tool: &piece})
}
