package swe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

func (w *work) attempt(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
	key := w.attemptKey(c)
	if w.s.Journal != nil {
		if done, ok := w.s.Journal.Attempt(w.t.InstanceID, key); ok {
			w.attempts = append(w.attempts, Attempt{Model: c.Model.Name, CostUSD: done.Answer.CostUSD, Usage: done.Answer.Usage, Trajectory: done.Trajectory, Recorded: true, Worker: done.Worker})
			return &done.Answer, nil
		}
	}
	w.sayf("%s works", c.Model.Name)
	tree, err := w.repo.Checkout(ctx, w.judged.Commit)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	answer := &sdk.Answer{Model: c.Model.Name}
	model := w.s.Setup.Models[c.Model.Name]
	if w.s.Mode == PerStep {
		model = w.s.Setup.Routed
	}
	if model == nil {
		return nil, fmt.Errorf("there is no model %s", c.Model.Name)
	}
	hands := &tools{dir: tree.Dir, readable: tree.readable, cache: tree.cacheDir(), jail: w.s.Jail, test: w.testCommand(tree.Dir)}
	if hands.jail == nil {
		hands.jail = &Jail{}
	} else {
		hands.compile = w.compile
	}
	var shown []sdk.Attempt
	if w.s.ShowFailures {
		shown = c.Earlier
	}
	ctx = middleware.WithInfo(ctx, middleware.Info{QueryID: w.t.InstanceID, Group: w.t.Repo, Run: w.t.InstanceID})
	patch := ""
	accepted := func(ctx context.Context) bool {
		// What cannot be read now is told when the attempt is over.
		patch, err = tree.Diff(ctx)
		return err == nil && w.isAccepted(ctx, patch, c.Model.Name)
	}
	agent := w.s.Agent
	if most := c.Model.MaxOutputTokens; w.spend.hasCap() && w.s.Mode != PerStep && most > 0 && (agent.MaxOutputTokens <= 0 || agent.MaxOutputTokens > most) {
		agent.MaxOutputTokens = most // so much is reserved
	}
	t, runErr := agent.run(ctx, model, hands, prompt(w.t, tree.Dir, shown), w.charge(ctx, c.Model, answer), accepted)
	w.away += t.ModelTime + t.ToolTime
	w.attempts = append(w.attempts, Attempt{Model: c.Model.Name, CostUSD: answer.CostUSD, Usage: answer.Usage, Trajectory: *t, Worker: w.s.Journal.workerName()})
	if runErr != nil {
		return nil, &step.CallError{Err: runErr, Fatal: errors.Is(runErr, sdk.ErrBudgetExhausted), Usage: answer.Usage, CostUSD: answer.CostUSD}
	}
	if !t.Accepted {
		if patch, err = tree.Diff(ctx); err != nil {
			return nil, err
		}
	}
	answer.Text = patch
	answer.StopReason = "stop"
	if costs, ok := w.s.Setup.Step.Cost.(*trajectoryCosts); ok {
		costs.record(c.Model.Name, answer.CostUSD)
	}
	w.sayf("%s made a patch of %d bytes in %d calls, %.6f USD", c.Model.Name, len(answer.Text), t.Turns, answer.CostUSD)
	if w.s.Journal != nil {
		if err := w.s.Journal.write(record{Attempt: &AttemptRecord{InstanceID: w.t.InstanceID, Key: key, Answer: *answer, Trajectory: *t, Worker: w.s.Journal.worker}}); err != nil {
			return nil, &step.CallError{Err: err, Fatal: true}
		}
	}
	return answer, nil
}

// attemptKey covers all that an attempt depends on: the task, the model, and what it was shown.
func (w *work) attemptKey(c *step.Call) string {
	parts := []string{w.print, string(w.s.Mode), c.Model.Name, c.Model.Served}
	if w.s.ShowFailures {
		for _, a := range c.Earlier {
			sum := sha256.Sum256([]byte(a.Answer.Text))
			parts = append(parts, a.Answer.Model+":"+hex.EncodeToString(sum[:8]))
		}
	}
	return strings.Join(parts, "/")
}

func (w *work) testCommand(dir string) []string {
	switch {
	case len(w.t.TestCommand) > 0:
		return w.t.TestCommand
	case len(w.s.TestCommand) > 0:
		return w.s.TestCommand
	case len(w.s.Setup.TestCommand) > 0:
		return w.s.Setup.TestCommand
	}
	return testCommand(dir)
}

func (w *work) charge(ctx context.Context, m *sdk.Model, answer *sdk.Answer) Charge {
	return func(promptBytes int) (func(*llms.ContentResponse, error) error, error) {
		worst := 0.0
		for _, c := range w.s.Setup.Step.Candidates {
			if w.spend.hasCap() && (c.Model.Name == m.Name || w.s.Mode == PerStep) {
				worst = max(worst, step.WorstCostUSD(&c.Model, promptBytes, w.s.Agent.MaxOutputTokens))
			}
		}
		if math.IsInf(worst, 1) {
			return nil, fmt.Errorf("a model has no longest answer, which a cap needs: set max_output_tokens in the policy: %w", sdk.ErrBudgetExhausted)
		}
		settle, err := w.spend.reserve(ctx, worst)
		if err != nil {
			return nil, err
		}
		return func(r *llms.ContentResponse, err error) error {
			usage, usd := sdk.Usage{}, sdk.SpentUSD(err)
			if r != nil && err == nil {
				usage, usd = w.s.Setup.Cost(m, r)
			}
			settle(usd)
			answer.Usage = answer.Usage.Add(usage)
			answer.CostUSD += usd
			return w.recordSpend(usd)
		}, nil
	}
}

// recordSpend records money that is gone, whatever becomes of the attempt.
func (w *work) recordSpend(usd float64) error {
	if w.s.Journal == nil || usd == 0 {
		return nil
	}
	return w.s.Journal.write(record{Paid: &PaidRecord{InstanceID: w.t.InstanceID, USD: usd}})
}
