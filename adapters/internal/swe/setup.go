package swe

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// FromRouter returns the setup of a router's policy. Every model call goes through the router, with its retries,
// taps, ledgers and traces: pinned to one model for whole trajectories, routed by the strategy for single steps.
func FromRouter(r *router.Router) Setup {
	c := r.Config()
	s := Setup{TestCommand: verifierCommand(r.Policy()), Step: c.Step, Route: c.Route, Models: map[string]llms.Model{}, Routed: meteredModel{inner: r}, Cost: routedCost}
	s.Step.Cost = &trajectoryCosts{}
	for _, v := range r.Policy().Verifiers {
		if v.Plugin == "verifier-command" {
			s.Notes = append(s.Notes, fmt.Sprintf("verifier %s runs its command in the tree WITHOUT the patch, which it is given as the answer: let it apply the patch to a copy, or use verifier-tests", v.Name))
		}
	}
	for _, m := range c.Models {
		s.Models[m.Model.Name] = meteredModel{inner: r, pin: m.Model.Name}
	}
	return s
}

// verifierCommand returns the test command of the policy's verifier-tests, or nil.
func verifierCommand(p *policies.Policy) []string {
	for i := range p.Verifiers {
		if p.Verifiers[i].Plugin != "verifier-tests" {
			continue
		}
		words, _ := p.Verifiers[i].Config.Values()["command"].([]any)
		var command []string
		for _, word := range words {
			if text, ok := word.(string); ok {
				command = append(command, text)
			}
		}
		return command
	}
	return nil
}

// meteredModel is the router with errors that carry the cost of failed calls. pin, when not empty, is the model to
// call.
type meteredModel struct {
	inner llms.Model
	pin   string
}

func (m meteredModel) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	if m.pin != "" {
		options = append(slices.Clip(options), llms.WithModel(m.pin))
	}
	ctx, report := middleware.WithReport(ctx)
	response, err := m.inner.GenerateContent(ctx, messages, options...)
	if err != nil {
		return nil, &spentError{error: err, usd: report.CostUSD()}
	}
	return response, nil
}

func (m meteredModel) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// spentError is the error of a failed call that has cost something.
type spentError struct {
	error
	usd float64
}

func (e *spentError) Unwrap() error { return e.error }

func (e *spentError) SpentUSD() float64 { return e.usd }

func routedCost(_ *sdk.Model, r *llms.ContentResponse) (sdk.Usage, float64) {
	if len(r.Choices) == 0 {
		return sdk.Usage{}, 0
	}
	t := middleware.TotalsOf(r.Choices[0])
	return sdk.Usage{InputTokens: t.InputTokens, OutputTokens: t.OutputTokens}, t.CostUSD
}

// The expected tokens of an attempt before any has been seen.
const (
	expectedInput  = 25_000
	expectedOutput = 2_000
)

// trajectoryCosts predicts the cost of an attempt by the mean of the model's earlier attempts, and before the first
// by the expected tokens. It is safe for concurrent use.
type trajectoryCosts struct {
	mu sync.Mutex
	of map[string]*attemptCosts // by model
}

type attemptCosts struct {
	usd float64
	n   int
}

func (c *trajectoryCosts) record(model string, usd float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := lookup.Entry(&c.of, model)
	of.usd += usd
	of.n++
}

func (c *trajectoryCosts) EstimateCost(_ context.Context, req *sdk.CostRequest) (*sdk.CostResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &sdk.CostResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
	for i, m := range req.Models {
		mean := m.Price.CostUSD(sdk.Usage{InputTokens: expectedInput, OutputTokens: expectedOutput})
		if of := c.of[m.Name]; of != nil {
			mean = of.usd / float64(of.n)
		}
		out.Estimates[i] = sdk.Estimate{Mean: mean}
	}
	return out, nil
}
