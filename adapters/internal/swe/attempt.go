package swe

import (
	"cmp"
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
	if done, ok := w.s.Journal.Attempt(w.t.InstanceID, key); ok {
		w.attempts = append(w.attempts, Attempt{Model: c.Model.Name, CostUSD: done.Answer.CostUSD, Usage: done.Answer.Usage, Trajectory: done.Trajectory, Recorded: true, Worker: done.Worker})
		return &done.Answer, nil
	}
	w.sayf("%s starts an attempt", c.Model.Name)
	tree, err := w.repo.Checkout(ctx, w.judged.Commit)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	answer := &sdk.Answer{Model: c.Model.Name, StopReason: "stop"}
	t, err := w.runAgent(ctx, c, tree, answer)
	if err != nil {
		return nil, err
	}
	if costs, ok := w.s.Setup.Step.Cost.(*trajectoryCosts); ok {
		costs.record(c.Model.Name, answer.CostUSD)
	}
	w.sayf("%s made a patch of %d bytes in %d calls, %.6f USD", c.Model.Name, len(answer.Text), t.Turns, answer.CostUSD)
	if err := w.s.Journal.write(record{Attempt: &AttemptRecord{InstanceID: w.t.InstanceID, Key: key, Answer: *answer, Trajectory: *t, Worker: w.s.Journal.workerName()}}); err != nil {
		return nil, &step.CallError{Err: err, Fatal: true}
	}
	return answer, nil
}

// runAgent runs the agent on the tree, and sets the answer's patch, usage and cost.
func (w *work) runAgent(ctx context.Context, c *step.Call, tree *Checkout, answer *sdk.Answer) (t *Trajectory, err error) {
	model := w.s.Setup.Models[c.Model.Name]
	if w.s.Mode == PerStep {
		model = w.s.Setup.Routed
	}
	if model == nil {
		return nil, fmt.Errorf("there is no model %s", c.Model.Name)
	}
	hands := &tools{dir: tree.Dir, readable: tree.readable, cache: tree.cacheDir(), jail: cmp.Or(w.s.Jail, &Jail{}), test: w.testCommand(tree.Dir)}
	if w.s.Jail != nil {
		hands.compile = w.compile
	}
	ctx = middleware.WithInfo(ctx, w.callInfo())
	var leftOut []string
	accepted := func(ctx context.Context) bool {
		// An error of Diff here is not final: the tree is read again at the end of the attempt.
		answer.Text, leftOut, err = tree.Diff(ctx)
		return err == nil && w.isAccepted(ctx, answer.Text, c.Model.Name)
	}
	t, err = w.agent(c.Model).run(ctx, model, hands, prompt(w.t, tree.Dir, w.shownAttempts(c)), w.charge(ctx, c.Model, answer), accepted)
	w.externalTime += t.ModelTime + t.ToolTime
	w.attempts = append(w.attempts, Attempt{Model: c.Model.Name, CostUSD: answer.CostUSD, Usage: answer.Usage, Trajectory: *t, Worker: w.s.Journal.workerName()})
	if err != nil {
		return nil, &step.CallError{Err: err, Fatal: errors.Is(err, sdk.ErrBudgetExhausted), Usage: answer.Usage, CostUSD: answer.CostUSD}
	}
	if !t.Accepted {
		answer.Text, leftOut, err = tree.Diff(ctx)
	}
	t.LeftOut, w.attempts[len(w.attempts)-1].Trajectory.LeftOut = leftOut, leftOut
	return t, err
}

// callInfo labels the agent's calls for traces. The calls of a whole-trajectory attempt all belong to the task's
// query; in PerStep mode each call is a query of its own.
func (w *work) callInfo() middleware.Info {
	info := middleware.Info{Group: w.t.Repo, Run: w.t.InstanceID}
	if w.s.Mode == WholeTrajectory {
		info.QueryID, info.Mode = w.t.InstanceID, sdk.ModeAttemptCall
	}
	return info
}

// agent returns the solver's limits. Under a cap, answers are no longer than the reservation assumes.
func (w *work) agent(m *sdk.Model) *Agent {
	agent, most := w.s.Agent, m.MaxOutputTokens
	if w.spend.hasCap() && w.s.Mode != PerStep && most > 0 && (agent.MaxOutputTokens <= 0 || agent.MaxOutputTokens > most) {
		agent.MaxOutputTokens = most
	}
	return &agent
}

// shownAttempts returns the earlier attempts that the prompt describes.
func (w *work) shownAttempts(c *step.Call) []sdk.Attempt {
	if w.s.ShowFailures {
		return c.Earlier
	}
	return nil
}

// attemptKey identifies everything that an attempt depends on: the task, the model and the earlier attempts in its
// prompt.
func (w *work) attemptKey(c *step.Call) string {
	parts := []string{w.fingerprint, string(w.s.Mode), c.Model.Name, c.Model.Served}
	for _, a := range w.shownAttempts(c) {
		sum := sha256.Sum256([]byte(a.Answer.Text))
		parts = append(parts, a.Answer.Model+":"+hex.EncodeToString(sum[:8]))
	}
	return strings.Join(parts, "/")
}

func (w *work) testCommand(dir string) []string {
	for _, command := range [][]string{w.t.TestCommand, w.s.TestCommand, w.s.Setup.TestCommand} {
		if len(command) > 0 {
			return command
		}
	}
	return testCommand(dir)
}

// worstCost returns the most that a call can cost, or 0 without a cap.
func (w *work) worstCost(m *sdk.Model, promptBytes int) (usd float64) {
	for _, c := range w.s.Setup.Step.Candidates {
		if w.spend.hasCap() && (c.Model.Name == m.Name || w.s.Mode == PerStep) {
			usd = max(usd, step.WorstCostUSD(&c.Model, promptBytes, w.s.Agent.MaxOutputTokens))
		}
	}
	return usd
}

func (w *work) charge(ctx context.Context, m *sdk.Model, answer *sdk.Answer) Charge {
	return func(promptBytes int) (func(*llms.ContentResponse, error) error, error) {
		worst := w.worstCost(m, promptBytes)
		if math.IsInf(worst, 1) {
			return nil, fmt.Errorf("a cap needs every model's longest answer: set max_output_tokens in the policy: %w", sdk.ErrBudgetExhausted)
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

// recordSpend writes a cost to the journal, whether or not the attempt succeeds.
func (w *work) recordSpend(usd float64) error {
	if usd == 0 {
		return nil
	}
	return w.s.Journal.write(record{Paid: &PaidRecord{InstanceID: w.t.InstanceID, USD: usd}})
}
