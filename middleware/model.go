package middleware

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// Model is a langchaingo model that routes every step through a cascade. It is
// safe for concurrent use.
type Model struct {
	c        Config
	engine   *step.Engine
	targets  []target
	embedder *embedder // nil without embedders
	sessions *Sessions
	shadow   *shadow
	handler  Handler
	baseline int
	// notBefore is passed to the engine in every request; it is built once to save an allocation.
	notBefore func(i int) time.Time
	// ownChecks is set if the checks are not the default ones.
	ownChecks bool
	// secrets removes known secrets from answers, secretsInJSON from raw parts, which are JSON; nil removes none.
	secrets, secretsInJSON *redact.Redactor
}

var (
	_ llms.Model          = (*Model)(nil)
	_ llms.ReasoningModel = (*Model)(nil)
)

// New returns a Model, or an error that lists all faults of the configuration.
func New(c Config) (*Model, error) {
	var faults []error
	m := &Model{c: c, ownChecks: c.Step.Checks != nil}
	const shortest = 16 // shorter values, such as a placeholder for a key, can occur in an answer by chance
	if m.secrets = c.Redact.AtLeast(shortest); m.secrets != nil {
		m.secretsInJSON = m.secrets.InJSON(false)
	}
	m.notBefore = func(i int) time.Time { return m.targets[i].notBefore() }
	own := &m.c.Step
	if own.Checks == nil {
		own.Checks = DefaultChecks()
	}
	if own.Strategy == nil {
		s, err := cascade.New(cascade.NameCascadeRoute, cascade.Params{Lambdas: []float64{c.Lambda}})
		if err != nil {
			faults = append(faults, err)
		}
		own.Strategy = s
	}
	own.Candidates = make([]step.Candidate, len(c.Models))
	for i, cand := range c.Models {
		own.Candidates[i] = step.Candidate{Model: cand.Model, Quality: cand.Quality, OutputTokens: cand.OutputTokens}
		t, err := m.target(i, c)
		if err != nil {
			faults = append(faults, fmt.Errorf("model %s: %w", cand.Model.Name, err))
		}
		m.targets = append(m.targets, t)
	}
	faults = append(faults, m.checkModes()...)
	var err error
	if c.Mode == Off { // nothing estimates, decides or judges
		own.Estimators, own.Cost, own.Profile, m.c.Route, m.c.Stream = nil, nil, "", nil, Commit
		own.Strategy, err = cascade.New(cascade.NameThreshold, cascade.Params{Order: []int{m.baseline}})
		faults = append(faults, err)
	}
	if len(c.Embedders) > 0 {
		m.embedder, err = newEmbedder(c)
		faults = append(faults, err)
	}
	m.engine, err = step.New(*own)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("configuring the middleware: %w", err)
	}
	m.sessions = NewSessions(c.Session, m.engine.Models(), own.Now)
	m.sessions.shared = c.Conversations
	if c.Replaces != nil {
		m.sessions.memory = c.Replaces.sessions.memory
		m.c.Replaces = nil // or the replaced Models would never be freed
	}
	if c.Mode == Shadow {
		if m.shadow, err = newShadow(m, c.Replaces); err != nil {
			return nil, fmt.Errorf("configuring the shadow mode: %w", err)
		}
	}
	m.handler = m.step
	for _, wrap := range slices.Backward(c.Interceptors) {
		m.handler = wrap(m.handler)
	}
	return m, nil
}

// target returns the target of candidate i. The targets of the candidates before i must exist.
func (m *Model) target(i int, c Config) (target, error) {
	names := make([]string, i+1)
	for k := range names {
		names[k] = c.Models[k].Model.Name
	}
	cand, samples, families := c.Models[i], sdk.Samples(names), sdk.Families(names)
	var t target
	if first := families[i]; first == i || cand.LLM != nil || len(cand.Deployments) > 0 {
		var err error
		if t, err = newTarget(cand, c.Breaker, c.Circuits); err != nil {
			return t, err
		}
	} else {
		t = target{deployments: m.targets[first].deployments, timeout: cand.Timeout, isLaterArm: samples[i] != first}
	}
	t.effort, t.override, t.temperature = cand.ReasoningEffort, cand.OverrideEffort, cmp.Or(cand.SampleTemperature, 1)
	for _, f := range samples[:i] {
		if f == samples[i] {
			t.sample++
		}
	}
	return t, nil
}

func (m *Model) checkModes() (faults []error) {
	if !slices.Contains([]Mode{"", Enforce, Off, Observe, Shadow}, m.c.Mode) {
		faults = append(faults, fmt.Errorf("unknown mode %q", m.c.Mode))
	}
	if !slices.Contains([]StreamMode{"", Buffer, Commit, Passthrough}, m.c.Stream) {
		faults = append(faults, fmt.Errorf("unknown stream mode %q", m.c.Stream))
	}
	m.baseline = len(m.c.Models) - 1
	if name := m.c.Baseline; name != "" {
		m.baseline = slices.IndexFunc(m.c.Models, func(c Candidate) bool { return c.Model.Name == name })
		if m.baseline < 0 {
			faults = append(faults, fmt.Errorf("the baseline %s is not among the models", name))
		}
	}
	if s := m.c.Shadow; m.c.Mode == Shadow && (!(s.Sample > 0 && s.Sample <= 1) || !(s.CapUSD > 0)) {
		faults = append(faults, errors.New("the shadow mode needs a sample in (0, 1] and a cap"))
	}
	return faults
}

// GenerateContent runs one step. A response without an error is not nil and has at least one choice; its
// GenerationInfo holds the keys of the model that answered and, under stepfall., those of the step.
func (m *Model) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	return m.handler(ctx, messages, options...)
}

// Call runs one step on a single prompt.
//
// Deprecated: it exists for the interface llms.Model. Use GenerateContent.
func (m *Model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// SupportsReasoning reports whether any of the models supports reasoning.
func (m *Model) SupportsReasoning() bool {
	for i := range m.c.Models {
		if m.c.Models[i].Model.Capabilities.Reasoning {
			return true
		}
		for _, d := range m.targets[i].deployments {
			if r, ok := d.llm.(llms.ReasoningModel); ok && r.SupportsReasoning() {
				return true
			}
		}
	}
	return false
}

// Close waits for background steps, the shadows. All calls must have returned.
func (m *Model) Close() error {
	if m.shadow != nil {
		m.shadow.running.Wait()
	}
	return nil
}

// restrict pins the step to one model if the mode, the caller or the holdout names one.
func (m *Model) restrict(req *step.Request, c *call) {
	baseline := func() string { return m.c.Models[m.baseline].Model.Name }
	switch {
	case m.c.Mode != "" && m.c.Mode != Enforce:
		req.Only, req.Observe = baseline(), m.c.Mode != Off
	case m.engine.Index(c.resolved.Model) >= 0:
		req.Only = c.resolved.Model
	case m.c.Holdout != nil && m.canAsk(m.baseline, req):
		if req.Holdout = m.c.Holdout(&c.query); req.Holdout.UsesBaseline() {
			req.Only = baseline()
		}
	}
}

// notify fires an LLM event of a step. A panic of the handler does not affect the step.
func (m *Model) notify(event func(h callbacks.Handler)) {
	if m.c.Callbacks == nil {
		return
	}
	defer func() { _ = recover() }()
	event(m.c.Callbacks)
}

func (m *Model) step(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (resp *llms.ContentResponse, err error) {
	m.notify(func(h callbacks.Handler) { h.HandleLLMGenerateContentStart(ctx, messages) })
	defer func() {
		m.notify(func(h callbacks.Handler) {
			if err != nil {
				h.HandleLLMError(ctx, err)
			} else {
				h.HandleLLMGenerateContentEnd(ctx, resp)
			}
		})
	}()

	c := newCall(ctx, m, messages, options)
	m.sessions.AddFeatures(&c.query)
	if m.embedder.has(c.resolved.Model) {
		return nil, &llms.Error{Code: llms.ErrCodeInvalidRequest, Provider: "stepfall", Message: c.resolved.Model + " only makes embeddings"}
	}
	if schema := c.query.Format.Schema; len(schema) > 0 && !json.Valid(schema) { // no model can be called with it
		return nil, &llms.Error{Code: llms.ErrCodeInvalidRequest, Provider: "stepfall", Message: "the schema of the answer is not JSON"}
	}
	info := InfoFrom(ctx)
	req := c.request(cmp.Or(info.Mode, string(m.c.Mode)))
	req.NoRetry = info.NoRetry
	req.CostOffsets = m.sessions.Offsets(c.query.Session)
	m.restrict(&req, c)
	req.Cancel = m.c.CancelDrafts
	req.Commit = c.streamed && (c.m.c.Stream == Commit || c.m.c.Stream == Passthrough && (req.Only != "" || len(c.m.targets) == 1))
	shadowed := m.shadow.draw(c)
	result, err := m.engine.Run(ctx, req)
	if shadowed != nil {
		m.shadow.start(ctx, shadowed, result)
	}
	m.report(ctx, result)
	if err != nil {
		return nil, m.failure(ctx, err, result.Trace, m.targets)
	}
	m.sessions.RecordUse(c.query.Session, result)
	m.sessions.RecordDispute(&c.query, result)
	resp = c.respond(result)
	if err := c.replay(ctx, resp, result.Trace.Chosen); err != nil {
		return nil, err
	}
	return resp, nil
}

func (m *Model) canAsk(i int, req *step.Request) bool {
	return step.Infeasible(&m.engine.Models()[i], req.Query) == "" && req.Exclude(i) == ""
}

func (c *call) request(mode string) step.Request {
	m := c.m
	req := step.Request{Query: &c.query, Caller: c, PromptBytes: c.size.bytes + c.size.data, Mode: mode, Exclude: c.exclude, NotBefore: m.notBefore}
	if m.c.Route != nil {
		route := m.c.Route(&c.query)
		req.Strategy, req.Parallel, req.Done = route.Strategy, route.Parallel, route.Done
		req.Exclude = func(i int) string {
			if why := route.Exclude(i); why != "" {
				return why
			}
			return c.exclude(i)
		}
	}
	req.Choices, req.PredictedTokens, req.Images = c.choices(), len(c.params.Prediction), c.size.images
	for _, name := range [...]string{"context_management", "truncation", "transforms"} {
		req.DropsInput = req.DropsInput || c.params.Extra[name] != nil
	}
	reads, uses := c.hostedCalls()
	if bytes.Contains(bytes.ToLower(canonicalJSON(c.params.Extra["context_management"])), []byte("compact")) {
		reads, req.PredictedTokens = reads+1, req.PredictedTokens+compactTokens
	}
	req.ContextReads, req.HostedCalls, req.Tariff = c.size.unknownFiles+reads, uses, c.tariff()
	req.Surcharge = c.surcharge()
	return req
}
