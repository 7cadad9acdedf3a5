package replay

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/tmc/langchaingo/llms"
	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/step"
)

// Config says what to replay and how to decide.
type Config struct {
	// Table has the outcomes; every one of its models is a candidate.
	Table *outcome.Table
	// Estimator, fitted to other outcomes of the same models, gives the beliefs.
	Estimator *estimate.Estimator
	Strategy  cascade.Strategy
	// StrategyName and Policy are for the traces.
	StrategyName, Policy string
	// Rules, when not nil, is a policy to be held to in place of Strategy: its
	// strategies, match blocks, verifiers (by recorded verdicts), profile, and caps.
	// Its models must be those of the table. Without an Estimator, its profile or its
	// priors are believed.
	Rules *policies.Policy
	// Repriced says that the table's costs are its tokens at the prices of Rules; see
	// [Reprice].
	Repriced bool
	// Seed decides the coins of Rules that leave a choice to chance.
	Seed uint64
	// Verified runs the recorded verdicts as a verifier.
	Verified bool
	// Traces, when not nil, receives the trace of each step as it ends, from
	// several goroutines.
	Traces func(ctx context.Context, t *sdk.Trace)
	// Progress, when not nil, is called after each query.
	Progress func(units int)
}

// Step is what one query came to.
type Step struct {
	Query string
	// Ran are the models that were run, in order, and Chosen the one whose answer
	// was returned.
	Ran     []string
	Chosen  string
	CostUSD float64
	Quality float64
	// Stop says why the step ended, and Match which block of the policy applied.
	Stop  sdk.StopReason
	Match string
}

// Run replays every query of the table through the middleware and returns its steps
// in the order of the table.
func Run(ctx context.Context, c Config) ([]Step, error) {
	model, err := c.model(ctx)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	steps := make([]Step, len(c.Table.Queries))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	if c.Rules != nil {
		// A policy may toss coins and keep books from one query to the next.
		group.SetLimit(1)
	}
	for q := range c.Table.Queries {
		group.Go(func() error {
			s, err := c.step(ctx, model, q)
			if err != nil {
				return fmt.Errorf("query %s: %w", c.Table.Queries[q], err)
			}
			steps[q] = s
			if c.Progress != nil {
				c.Progress(1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return steps, nil
}

// model wraps the replayed models by the middleware.
func (c *Config) model(ctx context.Context) (*middleware.Model, error) {
	if c.Table != nil && c.Rules != nil {
		return c.underPolicy(ctx)
	}
	if c.Table == nil || c.Estimator == nil || c.Strategy == nil {
		return nil, errors.New("a replay needs a table, an estimator and a strategy")
	}
	m := middleware.Config{
		Strategy: c.Strategy, StrategyName: c.StrategyName, Policy: c.Policy,
		Quality: c.Estimator.QualityEstimator(), Cost: c.Estimator.CostEstimator(),
		Checks: []step.Check{}, Traces: c.Traces,
		// Recorded outcomes do not fail, so nothing is tried twice.
		Retry: step.Retry{MaxAttempts: 1},
	}
	if c.Verified {
		m.Verifiers = []step.Verifier{Verifier(c.Table)}
	}
	for _, name := range c.Table.Models {
		llm, err := NewModel(c.Table, name)
		if err != nil {
			return nil, err
		}
		m.Models = append(m.Models, middleware.Candidate{Model: sdk.Model{Name: name, Price: NanoPrice()}, LLM: llm})
	}
	return middleware.New(m)
}

// step sends one query through the model, as an application would.
func (c *Config) step(ctx context.Context, model *middleware.Model, q int) (Step, error) {
	s := Step{Query: c.Table.Queries[q]}
	info := middleware.Info{QueryID: s.Query, Group: c.Table.Group(q), Run: s.Query}
	if c.Verified {
		info.Checks = sdk.Checks{FailToPass: []string{"recorded"}}
	}
	if c.Rules != nil {
		s.Match = c.Rules.Choose(&sdk.Query{Group: info.Group, Checks: info.Checks}).Match
	}
	ctx = middleware.WithInfo(ctx, info)
	ctx, report := middleware.WithReport(ctx)
	prompt := c.Table.Prompt(q)
	if prompt == "" {
		prompt = s.Query
	}
	// A step that its caps left without an answer counts as one of quality 0.
	_, err := model.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, prompt)})
	if err != nil && (!errors.Is(err, sdk.ErrBudgetExhausted) || len(report.Steps()) == 0) {
		return s, err
	}
	trace := report.Steps()[0]
	s.Stop = trace.Stop
	for _, call := range trace.Calls {
		s.Ran = append(s.Ran, call.Model)
	}
	s.Chosen, s.CostUSD = trace.Chosen, trace.CostUSD
	if err == nil {
		s.Quality = c.Table.Quality[q][c.Table.Index(trace.Chosen)]
	}
	return s, nil
}
