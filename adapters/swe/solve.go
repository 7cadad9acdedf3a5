package swe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Mode says what is cascaded; its words are those of the policy's trajectory block.
type Mode string

// The modes.
const (
	// WholeTrajectory: each model makes its own attempt on a clean tree.
	WholeTrajectory Mode = "attempt"
	// PerStep: one attempt, each call of which is routed.
	PerStep Mode = "step"
)

// Setup is what a policy comes to.
type Setup struct {
	// Step is the configuration of the step engine: candidates, strategy, verifiers.
	Step step.Config
	// Models are the candidates themselves, by name, for WholeTrajectory.
	Models map[string]llms.Model
	// Routed is the model that routes each call, for PerStep.
	Routed llms.Model
	// Cost says what a response cost, failed calls before it included; nil means
	// its usage at the model's price.
	Cost func(*llms.ContentResponse) (sdk.Usage, float64)
}

// Solver mends tasks of repositories. It is safe for concurrent use.
type Solver struct {
	Setup Setup
	Mode  Mode
	Agent Agent
	// Jail runs the commands that models ask for; nil refuses them.
	Jail *Jail
	// ShowFailures tells the next model what the one before did and why it was rejected.
	ShowFailures bool
	// TestCommand runs a repository's tests; a task's own comes first.
	TestCommand []string
	Spend       *Spend
	// Journal, when not nil, records attempts and results and gives those it has.
	Journal *Journal
	// Progress, when not nil, is told what happens, a line at a time.
	Progress func(instance, event string)
}

// Result is what came of a task.
type Result struct {
	InstanceID string `json:"instance_id"`
	// Solved says that the verifiers accepted the patch.
	Solved bool   `json:"solved"`
	Patch  string `json:"patch"`
	Model  string `json:"model,omitempty"`
	// Verdict is the evidence for the patch.
	Verdict  *sdk.Verdict  `json:"verdict,omitempty"`
	Attempts []Attempt     `json:"attempts,omitempty"`
	CostUSD  float64       `json:"cost_usd"`
	Calls    int           `json:"calls"`
	Duration time.Duration `json:"duration_ns"`
	// Overhead is Duration less the time in models, tools and verifiers.
	Overhead time.Duration  `json:"overhead_ns"`
	Stop     sdk.StopReason `json:"stop,omitempty"`
	// Error is why there is no patch at all.
	Error string `json:"error,omitempty"`
	// Isolation is what held the agent's commands.
	Isolation []string          `json:"isolation,omitempty"`
	Missing   map[string]string `json:"isolation_missing,omitempty"`
}

// Attempt is one model's attempt.
type Attempt struct {
	Model      string       `json:"model"`
	CostUSD    float64      `json:"cost_usd"`
	Usage      sdk.Usage    `json:"usage"`
	Verdict    *sdk.Verdict `json:"verdict,omitempty"`
	Trajectory Trajectory   `json:"trajectory"`
	// Recorded says that the attempt was made by an earlier run.
	Recorded bool `json:"recorded,omitempty"`
}

// Solve mends one task in repo. The result is never nil; an error says that the
// task was not finished (the context ended, the money is spent) and is to be tried
// again. A task without a patch that passes is finished, and no error.
func (s *Solver) Solve(ctx context.Context, repo *Repository, t *Task) (*Result, error) {
	if s.Journal != nil {
		if r, ok := s.Journal.Result(t.InstanceID); ok {
			return &r, nil
		}
	}
	start := time.Now()
	w := &work{s: s, t: t, repo: repo}
	r := &Result{InstanceID: t.InstanceID}
	if s.Jail != nil {
		r.Isolation, r.Missing = s.Jail.Layers, s.Jail.Missing
	}
	err := w.solve(ctx, r)
	r.Duration = time.Since(start)
	r.Overhead = max(0, r.Duration-w.away)
	if err != nil {
		r.Error = err.Error()
		if ctx.Err() != nil || errors.Is(err, sdk.ErrBudgetExhausted) {
			return r, err
		}
	}
	if s.Journal != nil {
		if err := s.Journal.write(record{Result: r}); err != nil {
			return r, err
		}
	}
	return r, nil
}

// work is one task on its way.
type work struct {
	s    *Solver
	t    *Task
	repo *Repository
	// judged is the tree on which patches are verified, for query by verifiers.
	judged    *Checkout
	query     *sdk.Query
	verifiers []step.Verifier
	// away is the time in models, tools and verifiers.
	away     time.Duration
	attempts []Attempt
}

func (w *work) solve(ctx context.Context, r *Result) error {
	commit, err := w.repo.Commit(ctx, w.t.BaseCommit)
	if err != nil {
		return err
	}
	if w.judged, err = w.repo.Checkout(ctx, commit); err != nil {
		return err
	}
	defer w.judged.Close()
	if w.t.TestPatch != "" {
		if err := w.judged.Apply(ctx, w.t.TestPatch); err != nil {
			return fmt.Errorf("test_patch: %w", err)
		}
	}
	w.query = &sdk.Query{
		ID: w.t.InstanceID, Group: w.t.Repo, Run: w.t.InstanceID, WorkDir: w.judged.Dir,
		Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(w.t.ProblemStatement)}}},
		Checks:   sdk.Checks{FailToPass: w.t.FailToPass, PassToPass: w.t.PassToPass},
	}
	config := w.s.Setup.Step
	if w.s.Mode == PerStep {
		// One candidate, the router, whose attempt is verified like any other.
		config.Candidates = []step.Candidate{{Model: sdk.Model{Name: routed}}}
		config.Strategy = once{}
		config.Quality, config.Cost = nil, nil
	}
	w.verifiers = slices.Clone(config.Verifiers)
	for i := range w.verifiers {
		w.verifiers[i].Verifier = w.timed(w.verifiers[i].Verifier)
	}
	config.Verifiers = w.verifiers
	// The agent's own accounts hold the cap, call by call.
	config.Ledger, config.StepCapUSD = nil, 0
	config.Retry.MaxAttempts = 1
	engine, err := step.New(config)
	if err != nil {
		return err
	}
	result, err := engine.Run(ctx, step.Request{Query: w.query, Caller: step.CallerFunc(w.attempt), Mode: string(w.s.Mode)})
	r.Attempts = w.attempts
	for i := range r.Attempts {
		for _, a := range result.Attempts {
			if a.Answer.Model == r.Attempts[i].Model {
				r.Attempts[i].Verdict = a.Verdict
			}
		}
	}
	for _, a := range r.Attempts {
		r.CostUSD += a.CostUSD
		r.Calls += a.Trajectory.Turns
	}
	r.Stop = result.Trace.Stop
	if err != nil {
		return err
	}
	r.Patch, r.Model, r.Verdict = result.Answer.Text, result.Answer.Model, result.Verdict
	r.Solved = result.Verdict != nil && result.Verdict.Outcome == sdk.Passed
	return nil
}

// routed is the name of the one candidate of PerStep.
const routed = "routed"

// attempt runs the agent with one model on a clean tree.
func (w *work) attempt(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
	key := w.key(c)
	if w.s.Journal != nil {
		if done, ok := w.s.Journal.Attempt(w.t.InstanceID, key); ok {
			w.attempts = append(w.attempts, Attempt{Model: c.Model.Name, CostUSD: done.Answer.CostUSD, Usage: done.Answer.Usage, Trajectory: done.Trajectory, Recorded: true})
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
	hands := &tools{dir: tree.Dir, git: tree.gitDir(), jail: w.s.Jail, test: w.testCommand(tree.Dir)}
	if hands.jail == nil {
		hands.jail = &Jail{}
	}
	var shown []sdk.Attempt
	if w.s.ShowFailures {
		shown = c.Earlier
	}
	ctx = middleware.WithInfo(ctx, middleware.Info{QueryID: w.t.InstanceID, Group: w.t.Repo, Run: w.t.InstanceID})
	accepted := func(ctx context.Context) bool { return w.accepted(ctx, tree, c.Model.Name) }
	t, runErr := w.s.Agent.run(ctx, model, hands, prompt(w.t, tree.Dir, shown), w.charge(c.Model, answer), accepted)
	w.away += t.ModelTime + t.ToolTime
	w.attempts = append(w.attempts, Attempt{Model: c.Model.Name, CostUSD: answer.CostUSD, Usage: answer.Usage, Trajectory: *t})
	if runErr != nil {
		return nil, &step.CallError{Err: runErr, Fatal: errors.Is(runErr, sdk.ErrBudgetExhausted), Usage: answer.Usage, CostUSD: answer.CostUSD}
	}
	if answer.Text, err = tree.Diff(ctx); err != nil {
		return nil, err
	}
	answer.StopReason = "stop"
	if costs, ok := w.s.Setup.Step.Cost.(*trajectoryCosts); ok {
		costs.saw(c.Model.Name, answer.CostUSD)
	}
	w.sayf("%s made a patch of %d bytes in %d turns", c.Model.Name, len(answer.Text), t.Turns)
	if w.s.Journal != nil {
		if err := w.s.Journal.write(record{Attempt: &AttemptRecord{InstanceID: w.t.InstanceID, Key: key, Answer: *answer, Trajectory: *t}}); err != nil {
			return nil, &step.CallError{Err: err, Fatal: true}
		}
	}
	return answer, nil
}

// key names an attempt by all that it depends on: the model, and what it was shown.
func (w *work) key(c *step.Call) string {
	parts := []string{string(w.s.Mode), c.Model.Name, c.Model.Served}
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
	}
	return testCommand(dir)
}

// accepted reports whether every verifier that judges the model's patches passes
// the tree as it is. Verifiers that cost money are not asked before the attempt is
// over, and those that cannot be asked accept nothing.
func (w *work) accepted(ctx context.Context, tree *Checkout, model string) bool {
	text, err := tree.Diff(ctx)
	if err != nil {
		return false
	}
	passed := false
	for _, v := range w.verifiers {
		if (v.Models != nil && !slices.Contains(v.Models, model)) || (v.Applies != nil && !v.Applies(w.query)) {
			continue
		}
		if v.MaxCostUSD > 0 {
			return false
		}
		verdict, err := v.Verifier.Verify(ctx, &sdk.VerifyRequest{Query: w.query, Answer: &sdk.Answer{Model: model, Text: text}})
		if err != nil || verdict == nil || verdict.Outcome != sdk.Passed {
			return false
		}
		passed = true
	}
	return passed
}

// charge books the calls of one attempt.
func (w *work) charge(m *sdk.Model, answer *sdk.Answer) Charge {
	spend := w.s.Spend
	if spend == nil {
		spend = &Spend{}
	}
	return func(promptBytes int) (func(*llms.ContentResponse) error, error) {
		worst := 0.0
		for _, c := range w.s.Setup.Step.Candidates {
			if c.Model.Name == m.Name || w.s.Mode == PerStep {
				worst = max(worst, step.WorstCostUSD(&c.Model, promptBytes, w.s.Agent.MaxOutputTokens))
			}
		}
		settle, err := spend.reserve(worst)
		if err != nil {
			return nil, err
		}
		return func(r *llms.ContentResponse) error {
			usage, usd := sdk.Usage{}, 0.0
			switch {
			case r == nil:
			case w.s.Setup.Cost != nil:
				usage, usd = w.s.Setup.Cost(r)
			default:
				usage = Usage(r)
				usd = m.Price.CostUSD(usage)
			}
			settle(usd)
			answer.Usage = answer.Usage.Add(usage)
			answer.CostUSD += usd
			return nil
		}, nil
	}
}

// timed counts the time in a verifier, rejects an empty patch without it, and asks
// it once about each patch.
func (w *work) timed(v sdk.Verifier) sdk.Verifier {
	known := map[string]*sdk.Verdict{}
	return sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if strings.TrimSpace(req.Answer.Text) == "" {
			return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "nothing was changed"}, nil
		}
		if verdict := known[req.Answer.Text]; verdict != nil {
			return verdict, nil
		}
		start := time.Now()
		verdict, err := v.Verify(ctx, req)
		w.away += time.Since(start)
		if err == nil && verdict != nil {
			if verdict.Outcome != sdk.Inconclusive {
				known[req.Answer.Text] = verdict
			}
			w.sayf("%s: %s", req.Answer.Model, verdict.Outcome)
		}
		return verdict, err
	})
}

func (w *work) sayf(format string, args ...any) {
	if w.s.Progress != nil {
		w.s.Progress(w.t.InstanceID, fmt.Sprintf(format, args...))
	}
}
