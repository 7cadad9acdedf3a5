package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Client is the client side of one API. The provider itself handles the server's address, authentication,
// limits on the answer's size and retries.
type Client interface {
	// Dialect is the API's name.
	Dialect() middleware.Dialect
	// Write returns the body of a request, and adds to c.NotSent the names of whatever the API cannot
	// express.
	Write(c *Call) (Object, error)
	// Reader returns a reader of an answer into r.
	Reader(r *Reply) Reader
}

// Clients are the clients of all APIs by which models are called.
var Clients = map[middleware.Dialect]Client{
	middleware.DialectChat: chat{}, middleware.DialectResponses: responses{}, middleware.DialectAnthropic: messages{},
	middleware.DialectGemini: gemini{}, middleware.DialectOllama: ollama{},
}

// Call is a request to one model.
type Call struct {
	Model    string
	Messages []llms.MessageContent
	Options  *llms.CallOptions
	Params   *middleware.Params
	Stream   bool
	Limits   Limits
	// MaxTokens limits an answer for which the caller sets no limit, if the API requires one.
	MaxTokens int
	// MaxTokensField is the member by which the server of chat completions limits an answer.
	MaxTokensField string
	// Effort is the reasoning effort that the caller requested, if the options no longer contain it.
	Effort string
	// ContextTokens is the context size with which Ollama loads a model; 0 leaves it to the server.
	ContextTokens int

	// NotSent names requested features that cannot be expressed.
	NotSent []string
	// Betas are the beta features of Messages, which are requested by a header.
	Betas []string
}

func (c *Call) omit(isAsked bool, name string) {
	if isAsked {
		c.NotSent = append(c.NotSent, name)
	}
}

// Reader reads an answer. Its errors mean that the answer cannot be read, or are a [ServerError].
type Reader interface {
	// Whole reads an answer that is not streamed.
	Whole(data []byte) error
	// Event reads an event of a stream.
	Event(data []byte) error
	// HasEnded reports whether the last event of a stream was read, in the APIs that have one.
	HasEnded() bool
	// End completes the reply, or returns an error if the answer is incomplete. isMarked is set if the
	// stream had an end marker.
	End(isMarked bool) error
}

// ServerError is an error that a server sent in place of an answer, or within one.
type ServerError []byte

// Error implements error.
func (e ServerError) Error() string { return string(e) }

var errUnfinished = errors.New("the stream ended before the answer did")

var errNoName = errors.New("the answer calls a tool without its name")

// Reply accumulates an answer of any API.
type Reply struct {
	// Origin is the model's origin, with which its state is marked.
	Origin string
	// ToolNames are the caller's names of the tools that were sent under other names, by these.
	ToolNames map[string]string
	// Emit receives the pieces.
	Emit func(d *middleware.Delta)
	// Extra has what is common to all choices.
	Extra middleware.Extra

	choices []*replyChoice
	// mistyped is an error about the first member of an unexpected type, whose meaning is unknown.
	mistyped error
	// isUsageOld is set if more of the answer, or its end, arrived after its usage was reported, so that the
	// final usage is unknown.
	isUsageOld bool
}

// HasEnded implements [Reader]: by its events alone, a stream can go on.
func (*Reply) HasEnded() bool { return false }

// want records the first member of an answer that is not of the type kind, and returns is. Null is
// accepted, because servers send it for missing values.
func (r *Reply) want(is bool, name, kind string, v gjson.Result) bool {
	if !is && v.Type != gjson.Null {
		r.noteType(name, kind)
	}
	return is
}

func (r *Reply) noteType(name, kind string) {
	if r.mistyped == nil {
		r.mistyped = fmt.Errorf("%q in the answer: want %s", name, kind)
	}
}

func (r *Reply) wantText(name string, v gjson.Result) string {
	r.want(v.Type == gjson.String, name, "a string", v)
	return v.Str
}

// wantObjects calls do for each element of a list of objects, until one has an unexpected type.
func (r *Reply) wantObjects(name string, v gjson.Result, do func(v gjson.Result)) {
	if !r.want(v.IsArray(), name, "a list", v) {
		return
	}
	v.ForEach(func(_, v gjson.Result) bool {
		if v.IsObject() {
			do(v)
		} else {
			r.noteType(name, "a list of objects")
		}
		return r.mistyped == nil
	})
}

// wantArguments returns the arguments of a call as JSON. Some servers send them as a string.
func (r *Reply) wantArguments(raw json.RawMessage) string {
	v := gjson.ParseBytes(raw)
	if r.want(v.IsObject() || v.Type == gjson.String, "arguments", "an object", v) && v.IsObject() {
		return v.Raw
	}
	return string(argumentsObject(v.Str))
}

// stopError returns langchaingo's stop reason for an answer that ended in an error.
func stopError(stop string) string { return middleware.StopError + strings.ToLower(stop) }

// stopWords are the regular stop reasons of chat completions and Messages in lower case. Some servers send none
// (""); eos is Together's, eos_token TGI's, model_length Mistral's.
// https://docs.together.ai/reference/chat-completions-1, https://docs.mistral.ai/api/endpoint/chat,
// https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons
var stopWords = []string{
	"", "stop", "length", "tool_calls", "function_call", "content_filter", "eos", "eos_token", "model_length",
	"end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "compaction", "model_context_window_exceeded",
}

// markErrorStop marks an answer with an unknown stop reason as ended by an error, because such reasons mostly are
// errors: error, abort, cancelled, repetition, insufficient_system_resource.
func (c *replyChoice) markErrorStop() {
	if !slices.Contains(stopWords, strings.ToLower(c.stop)) {
		c.word = stopError(c.stop)
	}
}

// endChoice sets the stop reason of a choice unless it is "".
func (r *Reply) endChoice(c *replyChoice, stop string) {
	if stop != "" && c.stop == "" {
		r.isUsageOld = true
	}
	c.stop = cmp.Or(stop, c.stop)
}

// setUsage sets the usage. The counts in a stream are totals, so a smaller output than before is incomplete
// and ignored.
func (r *Reply) setUsage(u sdk.Usage) {
	before := r.Extra.Usage
	u.HostedCalls, u.Searches = max(u.HostedCalls, before.HostedCalls), max(u.Searches, before.Searches)
	u.ReasoningTokens = max(u.ReasoningTokens, before.ReasoningTokens)
	u.OutputTokens = max(u.OutputTokens, before.OutputTokens+before.ReasoningTokens-u.ReasoningTokens)
	r.Extra.Usage, r.isUsageOld = u, false
}

// dropOldUsage resets the output counts if more of the answer followed them.
func (r *Reply) dropOldUsage() {
	if r.isUsageOld {
		r.Extra.Usage.OutputTokens, r.Extra.Usage.ReasoningTokens = 0, 0
	}
}

type replyChoice struct {
	content, reasoning, refusal strings.Builder
	calls                       []llms.ToolCall
	logProbs                    []sdk.TokenLogProb
	stop, word                  string // the provider's stop reason, and langchaingo's
	// parts are the answer for a later turn, complete if isSpecial. They contain the first covered bytes of
	// the content.
	parts     []llms.ContentPart
	covered   int
	thought   int // length of the reasoning that is in parts
	isSpecial bool
}

// maxChoices limits the indexes of choices that a server can use.
const maxChoices = 128

// choice returns the choice with an index, or nil if the index is invalid.
func (r *Reply) choice(i int) *replyChoice {
	if i < 0 || i >= maxChoices {
		return nil
	}
	for len(r.choices) <= i {
		r.choices = append(r.choices, &replyChoice{})
	}
	return r.choices[i]
}

func (r *Reply) add(d *middleware.Delta) {
	c := r.choice(d.Choice)
	c.content.WriteString(d.Text)
	c.reasoning.WriteString(d.Reasoning)
	c.refusal.WriteString(d.Refusal)
	c.logProbs = append(c.logProbs, d.LogProbs...)
	hasText := d.Text != "" || d.Reasoning != "" || d.Refusal != ""
	r.isUsageOld = r.isUsageOld || hasText
	if hasText || len(d.LogProbs) > 0 {
		r.Emit(d)
	}
}

// coverText adds the content that is not yet in a part as a part.
func (c *replyChoice) coverText() {
	if text := c.content.String()[c.covered:]; text != "" {
		c.parts = append(c.parts, llms.TextContent{Text: text})
		c.covered = c.content.Len()
	}
}

func (r *Reply) addCall(i int, id, name, arguments string) {
	c := r.choice(i)
	r.isUsageOld = true
	c.coverText()
	c.addCall(newCall(id, name, arguments))
	r.Emit(&middleware.Delta{Choice: i, Tool: &middleware.ToolDelta{Index: len(c.calls) - 1, ID: id, Name: name, Arguments: arguments}})
}

func (c *replyChoice) addCall(call llms.ToolCall) {
	c.calls, c.parts = append(c.calls, call), append(c.parts, call)
}

// addPart adds a part in the API's own form. If it has a text, that is the content since the last
// part.
func (c *replyChoice) addPart(p middleware.RawPart) {
	if p.Text == "" {
		c.coverText()
	}
	c.isSpecial, c.parts, c.covered = true, append(c.parts, p), c.content.Len()
}

var callStops = []string{"tool_calls", "function_call", "tool_use"}

// hasCall reports whether a choice calls a tool, including custom tools.
func (c *replyChoice) hasCall() bool {
	return len(c.calls) > 0 || slices.ContainsFunc(c.parts, func(p llms.ContentPart) bool {
		raw, _ := p.(middleware.RawPart)
		return isCustomCall(raw)
	})
}

// ToolName returns the caller's name of a called tool.
func (r *Reply) ToolName(sent string) string { return cmp.Or(r.ToolNames[sent], sent) }

// Response returns the complete answer.
func (r *Reply) Response() (*llms.ContentResponse, error) {
	if len(r.choices) == 0 {
		return nil, middleware.ErrEmptyResponse
	}
	out := &llms.ContentResponse{}
	for _, c := range r.choices {
		for _, call := range c.calls { // which are among the parts too
			call.FunctionCall.Name = r.ToolName(call.FunctionCall.Name)
		}
		if slices.ContainsFunc(c.calls, func(call llms.ToolCall) bool { return call.FunctionCall.Name == "" }) {
			return nil, errNoName
		}
		if slices.Contains(callStops, c.stop) && !c.hasCall() {
			c.word = stopError(c.stop + " without a call")
		}
		x := r.Extra
		x.StopReason, x.Refusal, x.LogProbs = cmp.Or(x.StopReason, c.stop), cmp.Or(c.refusal.String(), x.Refusal), c.logProbs
		if c.isSpecial {
			c.coverText()
			x.Parts = c.parts
		}
		own := &llms.ContentChoice{Content: c.content.String(), ReasoningContent: c.reasoning.String(), StopReason: cmp.Or(c.word, c.stop), ToolCalls: c.calls}
		if own.StopReason == "content_filter" {
			x.Blocked = cmp.Or(x.Blocked, x.StopReason)
		}
		if len(c.calls) > 0 {
			own.FuncCall = c.calls[0].FunctionCall
		}
		own.GenerationInfo = generationInfo(&x, own.ReasoningContent)
		out.Choices = append(out.Choices, own)
	}
	return out, nil
}

// generationInfo returns the keys that langchaingo's clients set, and the Extra.
func generationInfo(x *middleware.Extra, reasoning string) map[string]any {
	u := x.Usage
	in, out := u.InputTokens+u.CachedInputTokens+u.CacheWriteTokens, u.OutputTokens+u.ReasoningTokens
	return map[string]any{
		"PromptTokens": in, "CompletionTokens": out, "TotalTokens": in + out, "PromptCachedTokens": u.CachedInputTokens,
		"ReasoningTokens": u.ReasoningTokens, "ThinkingContent": reasoning, middleware.KeyExtra: x,
	}
}

func logProbsOf(from []chatLogProb) []sdk.TokenLogProb {
	if len(from) == 0 {
		return nil
	}
	list := make([]sdk.TokenLogProb, len(from))
	for i := range from {
		list[i] = sdk.TokenLogProb{Token: from[i].Token, LogProb: from[i].LogProb}
		for _, alt := range from[i].Top {
			list[i].Top = append(list[i].Top, sdk.TopLogProb{Token: alt.Token, LogProb: alt.LogProb})
		}
	}
	return list
}
