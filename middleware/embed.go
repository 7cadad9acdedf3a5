package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// Embedder is implemented by an llms.Model that can also turn texts into vectors, such as those of
// OpenAI and Ollama in adapters/provider. Request and response have the form of OpenAI's embeddings API;
// the model in the request is ignored. The error is a [ProviderError] if the server was called. Embed
// must be safe for concurrent use.
type Embedder interface {
	Embed(ctx context.Context, request json.RawMessage) (response json.RawMessage, usage sdk.Usage, err error)
}

// embedder calls the embedding models. Caps, retries, circuits and traces work as in steps.
type embedder struct {
	engine  *step.Engine
	targets []target
}

func newEmbedder(c Config) (*embedder, error) {
	e := &embedder{}
	only, err := cascade.New(cascade.NameRoute, cascade.Params{Lambdas: []float64{0}})
	if err != nil {
		return nil, err
	}
	own := step.Config{
		Strategy: only, StepCapUSD: c.Step.StepCapUSD, Ledger: c.Step.Ledger, CapWait: c.Step.CapWait, FailAtCap: true, Retry: c.Step.Retry,
		Policy: c.Step.Policy, Now: c.Step.Now,
	}
	if record := c.Step.Traces; record != nil {
		own.Traces = func(ctx context.Context, t *sdk.Trace) {
			t.Decisions, t.Strategy, t.Setting = nil, "", sdk.Setting{}
			record(ctx, t)
		}
	}
	var faults []error
	for _, one := range c.Embedders {
		t, err := newTarget(one, c.Breaker, c.Circuits)
		if err != nil {
			faults = append(faults, fmt.Errorf("embedder %s: %w", one.Model.Name, err))
		}
		for _, d := range t.deployments {
			if _, ok := d.llm.(Embedder); !ok {
				faults = append(faults, fmt.Errorf("embedder %s: %T does not support embeddings", one.Model.Name, d.llm))
			}
		}
		if slices.ContainsFunc(c.Models, func(m Candidate) bool { return m.Model.Name == one.Model.Name }) {
			faults = append(faults, fmt.Errorf("embedder %s: a model already has that name", one.Model.Name))
		}
		e.targets = append(e.targets, t)
		own.Candidates = append(own.Candidates, step.Candidate{Model: one.Model, OutputTokens: 1})
	}
	e.engine, err = step.New(own)
	return e, errors.Join(append(faults, err)...)
}

// has reports whether name is an embedding model. A nil embedder has none.
func (e *embedder) has(name string) bool { return e != nil && name != "" && e.engine.Index(name) >= 0 }

func (e *embedder) names() string {
	if e == nil {
		return "no model here does"
	}
	var names []string
	for _, m := range e.engine.Models() {
		names = append(names, m.Name)
	}
	return "there are: " + strings.Join(names, ", ")
}

// Embed turns texts into vectors with the named embedder, under the caps of the policy. Request and
// response have the form of OpenAI's embeddings API; the model in the response is the embedder's name.
// Errors are those of a step.
func (m *Model) Embed(ctx context.Context, model string, request json.RawMessage) (json.RawMessage, error) {
	if !m.embedder.has(model) {
		return nil, &llms.Error{Code: llms.ErrCodeInvalidRequest, Provider: "stepfall", Message: fmt.Sprintf("%s does not support embeddings; %s", model, m.embedder.names())}
	}
	info := InfoFrom(ctx)
	query := &sdk.Query{ID: info.QueryID, Group: info.Group, Run: info.Run, Session: info.Session, Tenant: info.Tenant, Labels: info.Labels}
	call := &embeddingRequest{e: m.embedder, request: request}
	if m.embedder.engine.HasCap(ctx, query) {
		var err error
		if call.request, call.notSent, err = keepCountedEmbedding(request); err != nil {
			return nil, &llms.Error{Code: llms.ErrCodeInvalidRequest, Provider: "stepfall", Message: err.Error()}
		}
	}
	result, err := m.embedder.engine.Run(ctx, step.Request{
		Query: query, Caller: call, Only: model, Mode: sdk.ModeEmbeddings, NoRetry: info.NoRetry,
		PromptBytes:  len(request), // the JSON text has more bytes than the input has tokens
		ContextReads: countFiles(request),
		Exclude:      func(i int) string { return m.embedder.targets[i].exclude() },
	})
	m.report(ctx, result)
	if err != nil {
		return nil, m.failure(ctx, err, result.Trace, m.embedder.targets)
	}
	var members map[string]json.RawMessage
	response, _ := result.Answer.Raw.(json.RawMessage)
	if err := json.Unmarshal(response, &members); err != nil || members == nil {
		return nil, fmt.Errorf("the embeddings of %s are not a JSON object: %w", model, errors.Join(ErrTruncatedStream, err))
	}
	if members["model"], err = json.Marshal(model); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

type embeddingRequest struct {
	e       *embedder
	request json.RawMessage
	notSent []string
}

// countFiles counts the inputs that are not texts, each of which refers to a file.
func countFiles(request json.RawMessage) (n int) {
	var of struct{ Input json.RawMessage }
	_ = json.Unmarshal(request, &of) // the server reports malformed requests
	inputs := []json.RawMessage{of.Input}
	_ = json.Unmarshal(of.Input, &inputs) // a single input is not a list
	for _, input := range inputs {
		if bytes.HasPrefix(input, []byte("{")) {
			n++
		}
	}
	return n
}

// countedEmbeddings are the members of embedding requests that cost nothing extra.
var countedEmbeddings = NewMemberSet("dimensions embedding_types encoding_format input input_type keep_alive late_chunking model normalized options output_dimension output_dtype task truncate truncation user")

// keepCountedEmbedding returns a request without the members that may cost extra, and the names of these.
func keepCountedEmbedding(request json.RawMessage) (counted json.RawMessage, unsent []string, err error) {
	var own map[string]json.RawMessage
	if err := json.Unmarshal(request, &own); err != nil {
		return nil, nil, err
	}
	kept := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		countedEmbeddings.keep(kept, name, "", own[name], &unsent)
	}
	counted, err = json.Marshal(kept)
	return counted, unsent, err
}

// Call calls the model once. It implements [step.Caller].
func (e *embeddingRequest) Call(ctx context.Context, s *step.Call) (*sdk.Answer, error) {
	t := &e.e.targets[s.Index]
	d, more := t.pick(s.Attempt)
	if d == nil {
		return nil, unavailableError(s.Model.Name)
	}
	begun := time.Now()
	callCtx, cancel := t.withTimeout(ctx)
	defer cancel()
	response, usage, err := d.llm.(Embedder).Embed(callCtx, e.request)
	if err != nil {
		err = withCause(ctx, callCtx, err)
		failed := classify(err, d.name(s.Model))
		failed.Deployment, failed.Usage, failed.Billed = d.Name, usage, mayBeBilled(err)
		if failed.Billed && usage == (sdk.Usage{}) {
			failed.Usage = sdk.Usage{InputTokens: (len(e.request) + 3) / 4, Estimated: true}
		}
		failed.Elsewhere = failed.Retry && more
		d.record(begun, failed)
		return nil, failed
	}
	d.record(begun, nil)
	return &sdk.Answer{Raw: response, Usage: usage, Deployment: d.Name, StopReason: "stop", NotSent: e.notSent}, nil
}
