package middleware

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Errors of calls that a provider's client reports as successes.
var (
	// ErrEmptyResponse means that the response has no choice, or neither text nor tool calls nor tokens.
	ErrEmptyResponse = errors.New("empty response")
	// ErrTruncatedStream means that the stream ended before the answer did.
	ErrTruncatedStream = errors.New("truncated stream")
)

var errCallTimeout = errors.New("call timed out")

// Call calls one model once. It implements [step.Caller].
func (c *call) Call(ctx context.Context, s *step.Call) (*sdk.Answer, error) {
	t := &c.m.targets[s.Index]
	d, more := t.pick(s.Attempt)
	if d == nil {
		return nil, unavailableError(s.Model.Name)
	}
	begun := time.Now()
	callCtx, cancel := t.withTimeout(ctx)
	defer cancel()
	stream := c.newStream(d, s)
	resp, err := c.generate(callCtx, t, d, s, stream)
	if stream.draft != nil && stream.draft.verdict != nil {
		d.record(begun, nil)
		s.Cut = stream.draft.verdict
		return stream.draft.answer(d), nil
	}
	if err == nil {
		err = cmp.Or(stream.finish(callCtx, resp), stream.callerErr) // some clients drop the error of the caller's streaming function
	}
	// Some clients return a partial answer without an error when the context ends.
	if err = withCause(ctx, callCtx, err); err != nil {
		failed := c.failure(err, s, d, resp, stream)
		failed.Elsewhere = failed.Retry && more
		if stream.callerErr != nil { // the server was answering, so it is healthy
			d.record(begun, nil)
		} else {
			d.record(begun, failed)
		}
		return nil, failed
	}
	d.record(begun, nil)
	s.Shown = stream.shown
	if stream.shown { // parallel calls show nothing and must not write to c concurrently
		c.live = true
	}
	return c.answer(resp, d, &s.Model.Price), nil
}

// newStream returns the state of the stream of a call. Mistral's client cannot be interrupted, so nothing
// is streamed from it.
func (c *call) newStream(d *deployment, s *step.Call) *streamState {
	stream := &streamState{
		call: c, from: s.Model.Name, kind: d.kind,
		// A check can reject the answer because of its beginning.
		hold: !s.Final || (s.Unseen || s.Spare && c.m.c.MinTokenProbability > 0) && c.isPlainAnswer(),
		live: c.streamed && d.kind != kindMistral && (s.Final || s.Unseen && c.isPlainAnswer()),
	}
	if s.Spare && d.kind == kindNative && c.choices() <= 1 {
		stream.draft = &draft{call: c}
	}
	return stream
}

// failure returns the error of a failed call with its usage and whether to retry it.
func (c *call) failure(err error, s *step.Call, d *deployment, resp *llms.ContentResponse, stream *streamState) *step.CallError {
	failed := classify(err, d.name(s.Model))
	if stream.callerErr != nil { // an error of the caller's function, which says nothing about the server
		failed = &step.CallError{Err: fmt.Errorf("streaming the answer to the caller: %w", stream.callerErr), Cancelled: true}
	}
	failed.Deployment = d.Name
	failed.Usage = c.withSearch(failedUsage(resp, err, c, stream), d)
	failed.Billed = mayBeBilled(err)
	// A caller that was shown part of an answer, or that stopped reading, gets no other model's answer.
	if stream.shown || stream.callerErr != nil {
		failed.Fatal, failed.Retry = true, false
	}
	return failed
}

// withCause joins the error of the caller's context, or of the candidate's timeout, to the error of a call.
func withCause(ctx, callCtx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), err)
	case callCtx.Err() != nil:
		return errors.Join(errCallTimeout, err)
	}
	return err
}

func (t *target) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, t.timeout)
}

// unavailableError is the error of a call to a model whose circuits are all open.
func unavailableError(model string) *step.CallError {
	return &step.CallError{Err: &llms.Error{
		Code: llms.ErrCodeProviderUnavailable, Provider: model, Message: ReasonCircuitOpen, Cause: errCircuitOpen,
	}}
}

func (c *call) generate(ctx context.Context, t *target, d *deployment, s *step.Call, stream *streamState) (resp *llms.ContentResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, &step.PanicError{Value: p}
		}
	}()
	generate := d.llm.GenerateContent
	if d.kind == kindMistral {
		generate = makeInterruptible(generate)
	}
	messages, params := rewrite(c.messages, d.kind, d.shortIDs), c.paramsFor(d, s)
	if c.params.Schema != nil && params.Schema == nil {
		messages = instruct(messages, c.params.Schema)
	}
	return generate(ctx, messages, func(o *llms.CallOptions) {
		// The provider has put its defaults into o. The caller's model name
		// would be wrong for all but one of the candidates.
		model := o.Model
		apply(o, c.options)
		o.Model = model
		adapt(o)
		t.varySample(o, &params)
		t.setEffort(o, &params, c.statesEffort())
		stream.install(o, &params)
		o.MaxTokens = s.MaxOutputTokens
		o.JSONMode = o.JSONMode || c.params.Schema != nil
		delete(o.Metadata, paramsKey) // langchaingo's openai client would send it; the map is a copy that apply made
		if d.kind == kindNative {
			if o.Metadata == nil {
				o.Metadata = map[string]any{}
			}
			o.Metadata[paramsKey] = params
		}
	})
}

// paramsFor returns the parameters for one model beyond langchaingo's options. MaxTokens is the
// reserved limit of s. The schema is left out for a model that does not support schemas.
func (c *call) paramsFor(d *deployment, s *step.Call) Params {
	p := c.params
	if d.kind != kindNative || !s.Model.Capabilities.JSONSchema {
		p.Schema = nil
	}
	p.MaxTokens = nil
	if limit := s.MaxOutputTokens; limit > 0 {
		p.MaxTokens = &limit
		if p.ReasoningTokens != nil && *p.ReasoningTokens >= limit {
			p.ReasoningTokens = new(limit - 1) // Anthropic requires it to be below the limit
		}
	}
	return p
}

// makeInterruptible returns a handler that returns when ctx ends, for clients that ignore the context. The
// abandoned call runs on until its server or its client's timeout ends it.
func makeInterruptible(call Handler) Handler {
	return func(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
		type outcome struct {
			resp *llms.ContentResponse
			err  error
		}
		done := make(chan outcome, 1)
		go func() {
			defer func() {
				if p := recover(); p != nil {
					done <- outcome{nil, &step.PanicError{Value: p}}
				}
			}()
			resp, err := call(ctx, messages, options...)
			done <- outcome{resp, err}
		}()
		select {
		case o := <-done:
			return o.resp, o.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// responseFault returns an error if a client returned an empty or truncated response as a success.
func responseFault(resp *llms.ContentResponse, isStream bool) error {
	switch {
	case resp == nil || len(resp.Choices) == 0 || slices.Contains(resp.Choices, nil):
		return ErrEmptyResponse
	case slices.ContainsFunc(resp.Choices, func(choice *llms.ContentChoice) bool { return choice.StopReason != "" }):
		return nil
	case !slices.ContainsFunc(resp.Choices, hasContent) && usageOf(resp).OutputTokens == 0:
		return ErrEmptyResponse
	case isStream:
		return ErrTruncatedStream
	}
	return nil
}

func hasContent(choice *llms.ContentChoice) bool {
	return choice.Content != "" || len(choice.ToolCalls) > 0 || choice.FuncCall != nil
}

func (c *call) answer(resp *llms.ContentResponse, d *deployment, p *sdk.Price) *sdk.Answer {
	if len(resp.Choices) > 1 && (d.kind == kindAnthropic || c.choices() <= 1) {
		resp = mergeChoices(resp)
	}
	resp = c.removeSecrets(c.cutAtStopWords(c.keepFirstCalls(resp)))
	first := resp.Choices[0]
	a := answerOf(first)
	a.Deployment, a.Raw, a.Usage, a.NotSent = d.Name, resp, c.withSearch(usageOf(resp), d), c.notSent
	switch d.dialect() {
	case DialectResponses, DialectAnthropic, DialectGemini:
		a.ListsHostedCalls = true
	}
	for _, choice := range resp.Choices[1:] {
		a.Choices = append(a.Choices, choice.Content)
	}
	if x := ExtraOf(first); x != nil {
		a.NotSent, a.PriceFactor = slices.Concat(c.notSent, x.NotSent), cmp.Or(c.servedFactor(d, p, x), 1)*c.writeFactor(p, x, a.Usage)*audioFactor(p, x, a.Usage)
		if c.mayDefaultGeo(d) {
			a.PriceFactor *= geoFactor(x.Geo)
		}
	}
	return a
}

func answerOf(choice *llms.ContentChoice) *sdk.Answer {
	a := &sdk.Answer{Text: choice.Content, Reasoning: choice.ReasoningContent, StopReason: choice.StopReason}
	calls := choice.ToolCalls
	if x := ExtraOf(choice); x != nil {
		calls, a.LogProbs = append(slices.Clip(calls), rawCalls(x.Parts)...), x.LogProbs
		if x.Refusal != "" && a.Text == "" {
			a.Text, a.StopReason = x.Refusal, "refusal"
		}
	}
	for _, t := range calls {
		if t.FunctionCall != nil {
			a.ToolCalls = append(a.ToolCalls, sdk.ToolCall{ID: t.ID, Name: t.FunctionCall.Name, Arguments: t.FunctionCall.Arguments})
		}
	}
	if len(a.ToolCalls) == 0 && choice.FuncCall != nil {
		a.ToolCalls = []sdk.ToolCall{{Name: choice.FuncCall.Name, Arguments: choice.FuncCall.Arguments}}
	}
	return a
}

func rawCalls(parts []llms.ContentPart) (calls []llms.ToolCall) {
	for _, p := range parts {
		raw, _ := p.(RawPart)
		if call, ok := raw.Instead.(llms.ToolCall); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

// removeSecrets removes secrets from a response, including those whose pieces were streamed separately.
func (c *call) removeSecrets(resp *llms.ContentResponse) *llms.ContentResponse {
	if c.m.secrets == nil {
		return resp
	}
	for i, choice := range resp.Choices {
		if own := c.choiceWithoutSecrets(choice); own != choice {
			resp = &llms.ContentResponse{Choices: slices.Clone(resp.Choices)}
			resp.Choices[i] = own
		}
	}
	return resp
}

// choiceWithoutSecrets returns choice itself if it contains no secrets.
func (c *call) choiceWithoutSecrets(choice *llms.ContentChoice) *llms.ContentChoice {
	known, own, x := c.m.secrets.Known, *choice, ExtraOf(choice)
	own.Content, own.ReasoningContent = known(choice.Content), known(choice.ReasoningContent)
	own.ToolCalls, own.FuncCall = slices.Clone(choice.ToolCalls), c.withoutSecrets(choice.FuncCall)
	for k, t := range own.ToolCalls {
		if t.FunctionCall != nil {
			own.ToolCalls[k].ID, own.ToolCalls[k].FunctionCall = known(t.ID), c.withoutSecrets(t.FunctionCall)
		}
	}
	if [2]string{own.Content, own.ReasoningContent} == [2]string{choice.Content, choice.ReasoningContent} && own.FuncCall == choice.FuncCall &&
		slices.Equal(own.ToolCalls, choice.ToolCalls) && (x != nil && x.Raw != nil || !c.m.extraHasSecrets(x)) { // the provider has redacted the body of a complete answer
		return choice
	}
	if x != nil {
		own.GenerationInfo = maps.Clone(choice.GenerationInfo)
		own.GenerationInfo[KeyExtra] = c.extraWithoutSecrets(*x)
	}
	return &own
}

// withoutSecrets returns f itself if it contains no secrets.
func (c *call) withoutSecrets(f *llms.FunctionCall) *llms.FunctionCall {
	if f == nil {
		return nil
	}
	own := llms.FunctionCall{Name: c.m.secrets.Known(f.Name), Arguments: c.m.secrets.Known(f.Arguments)}
	if own == *f {
		return f
	}
	return &own
}

func (c *call) extraWithoutSecrets(x Extra) *Extra {
	for _, text := range x.texts() {
		*text = c.m.secrets.Known(*text)
	}
	x.Parts, x.LogProbs, x.Raw, x.Unknown = nil, nil, nil, RawPart{} // these repeat the text
	return &x
}

func (m *Model) extraHasSecrets(x *Extra) bool {
	if x == nil {
		return false
	}
	if slices.ContainsFunc(x.texts(), func(text *string) bool { return m.secrets.Known(*text) != *text }) {
		return true
	}
	for _, p := range append(slices.Clip(x.Parts), x.Unknown) {
		if raw, ok := p.(RawPart); ok && m.rawHasSecrets(raw.Raw) {
			return true
		}
	}
	return m.tokensHaveSecrets(x.LogProbs)
}

func (m *Model) rawHasSecrets(raw json.RawMessage) bool {
	return raw != nil && m.secretsInJSON.Known(string(raw)) != string(raw)
}

func (m *Model) tokensHaveSecrets(tokens []sdk.TokenLogProb) bool {
	return slices.ContainsFunc(tokens, func(t sdk.TokenLogProb) bool { return m.secrets.Known(t.Token) != t.Token })
}

// withSearch counts one search in reported usage if the caller requests searches in chat completions:
// such models search for each answer without reporting it.
func (c *call) withSearch(u sdk.Usage, d *deployment) sdk.Usage {
	if _, searches := c.params.Extra["web_search_options"]; searches && d.usesDialect(DialectChat) && u != (sdk.Usage{}) {
		u.HostedCalls, u.Searches = max(u.HostedCalls, 1), max(u.Searches, 1)
	}
	return u
}

// failedUsage returns the known usage of a failed call: a broken stream or a rejected response was
// still paid for.
func failedUsage(resp *llms.ContentResponse, err error, c *call, s *streamState) sdk.Usage {
	var u sdk.Usage
	if p, ok := errors.AsType[*ProviderError](err); ok && p.Usage != (sdk.Usage{}) {
		u = p.Usage
	} else if resp != nil {
		u = usageOf(resp)
	}
	// The usage at the beginning of a stream does not include the tokens that followed.
	came, counted := (s.bytes+3)/4, u.OutputTokens+u.ReasoningTokens
	isPart := u != (sdk.Usage{}) && (s.live || s.draft != nil) && (s.callerErr != nil || isCutOff(err))
	if u.Estimated = u.Estimated || isPart; isPart && came == 0 {
		u.OutputTokens = 0 // Anthropic starts the count at 1
	}
	if came > 2*counted || isPart && came > counted {
		u.OutputTokens, u.Estimated = came-u.ReasoningTokens, true
		u.InputTokens = cmp.Or(u.InputTokens, c.query.InputTokens)
	}
	return u
}

func (c *call) choices() int { return max(c.resolved.N, c.resolved.CandidateCount) }
