package swe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Mode selects what is cascaded; its values are those of the policy's trajectory block.
type Mode string

// The modes.
const (
	// WholeTrajectory: each model makes its own attempt on a clean tree.
	WholeTrajectory Mode = sdk.ModeAttempt
	// PerStep: one attempt, and each of its calls is routed.
	PerStep Mode = sdk.ModeRoutedAttempt
)

// Setup is a policy in the form that the solver needs.
type Setup struct {
	// Step is the configuration of the step engine: candidates, strategy, verifiers.
	Step step.Config
	// Route, when not nil, applies match blocks and pacing to a task; see [middleware.Config].
	Route func(*sdk.Query) middleware.Route
	// Notes are warnings about the policy's verifiers.
	Notes []string
	// TestCommand is the test command of the policy's verifier.
	TestCommand []string
	// Models holds the candidates by name, for WholeTrajectory.
	Models map[string]llms.Model
	// Routed routes each call, for PerStep.
	Routed llms.Model
	// Cost returns the usage and cost of a response, including failed calls before it.
	Cost func(*sdk.Model, *llms.ContentResponse) (sdk.Usage, float64)
}

// Solver solves tasks. It is safe for concurrent use.
type Solver struct {
	Setup Setup
	Mode  Mode
	Agent Agent
	// Jail runs the commands of models; nil refuses them.
	Jail *Jail
	// ShowFailures shows the next model the rejected patches and why they were rejected.
	ShowFailures bool
	// TestCommand runs the repository's tests; a task's own command has precedence.
	TestCommand []string
	Spend       *Spend
	// Journal, when not nil, records attempts and results, and supplies those of earlier runs.
	Journal *Journal
	// Progress, when not nil, is called with each event.
	Progress func(instance, event string)
}

// Result is the outcome of a task.
type Result struct {
	InstanceID string `json:"instance_id"`
	// Task is a fingerprint of the task's text, commit and tests; empty without a journal.
	Task string `json:"task,omitempty"`
	// Worker is the queue worker that ran the task, if any.
	Worker string `json:"worker,omitempty"`
	// Recorded reports that the result is from an earlier run.
	Recorded bool `json:"-"`
	// Solved reports that the verifiers accepted the patch.
	Solved   bool         `json:"solved"`
	Patch    string       `json:"patch"`
	Model    string       `json:"model,omitempty"`
	Verdict  *sdk.Verdict `json:"verdict,omitempty"`
	Attempts []Attempt    `json:"attempts,omitempty"`
	CostUSD  float64      `json:"cost_usd"`
	// CutOffUSD is the cost, on top of CostUSD, of interrupted attempts.
	CutOffUSD float64       `json:"cut_off_usd,omitempty"`
	Calls     int           `json:"calls"`
	Duration  time.Duration `json:"duration_ns"`
	// Overhead is Duration minus the time in models, tools and verifiers.
	Overhead time.Duration  `json:"overhead_ns"`
	Stop     sdk.StopReason `json:"stop,omitempty"`
	// Error is why there is no patch at all, or why the task is unfinished.
	Error string `json:"error,omitempty"`
	// Unfinished reports that the run ended before the task did.
	Unfinished bool `json:"unfinished,omitempty"`
	// Notes are warnings about the verdict.
	Notes []string `json:"notes,omitempty"`
	// Isolation lists the layers that isolated the agent's commands.
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
	// Recorded reports that the attempt is from an earlier run.
	Recorded bool `json:"recorded,omitempty"`
	// Worker is the queue worker that made the attempt, if any.
	Worker string `json:"worker,omitempty"`
}

// Solve solves one task in repo. The result is never nil. An error means that the task is unfinished (the context
// ended, the budget is exhausted) and should be retried. A task without a passing patch is finished, and no error;
// one that could not be tried has a result with an Error, which the journal does not keep.
func (s *Solver) Solve(ctx context.Context, repo *Repository, t *Task) (*Result, error) {
	w := &work{s: s, t: t, repo: repo, spend: cmp.Or(s.Spend, &Spend{}), confidences: map[string]float64{}}
	if s.Journal != nil {
		var err error
		if w.fingerprint, err = t.fingerprint(ctx, repo); err != nil {
			return &Result{InstanceID: t.InstanceID, Error: err.Error()}, nil
		}
		if r, ok := s.Journal.Result(t.InstanceID); ok && r.Task == w.fingerprint {
			r.Recorded = true
			return &r, nil
		}
	}
	start := time.Now()
	jail := cmp.Or(s.Jail, &Jail{})
	r := &Result{InstanceID: t.InstanceID, Task: w.fingerprint, Isolation: jail.Layers, Missing: jail.Missing}
	err := w.solve(ctx, r)
	r.Duration = time.Since(start)
	r.Overhead = max(0, r.Duration-w.externalTime)
	r.CutOffUSD = s.Journal.cutOffUSD(r)
	if err == nil {
		return r, s.Journal.write(record{Result: r})
	}
	r.Error = err.Error()
	if ctx.Err() != nil || errors.Is(err, sdk.ErrBudgetExhausted) || errors.Is(err, sdk.ErrStoreUnavailable) {
		r.Unfinished = true
		return r, err
	}
	return r, nil
}

// work is the state of one task.
type work struct {
	s    *Solver
	t    *Task
	repo *Repository
	// fingerprint is the task's fingerprint, empty without a journal.
	fingerprint string
	spend       *Spend
	// judged is the tree on which verifiers judge patches, as named in query.
	judged    *Checkout
	query     *sdk.Query
	verifiers []step.Verifier
	// externalTime is the time in models, tools and verifiers.
	externalTime time.Duration
	attempts     []Attempt
	// confidences holds the confidence of passed verdicts, by patch.
	confidences map[string]float64
	// judgedUSD is the cost of verifiers.
	judgedUSD float64
	// budgetErr is the error of a verifier that the budget had no room for.
	budgetErr error
}

// compiledCommits holds the commits, by repository, whose packages this process has compiled.
var compiledCommits sync.Map

// compile compiles the packages of the task's commit, once per process. It uses a clean tree without the hidden
// tests, because attempts can read the cache.
func (w *work) compile(ctx context.Context) error {
	if _, done := compiledCommits.LoadOrStore(w.repo.dir+"\x00"+w.judged.Commit, true); done {
		return nil
	}
	tree, err := w.repo.Checkout(ctx, w.judged.Commit)
	if err != nil {
		return err
	}
	defer tree.Close()
	return w.s.Jail.compile(ctx, tree.Dir)
}

// open makes the tree on which patches are judged. The caller closes it.
func (w *work) open(ctx context.Context) error {
	commit, err := w.repo.Commit(ctx, w.t.BaseCommit)
	if err != nil {
		return err
	}
	if w.judged, err = w.repo.Checkout(ctx, commit); err != nil {
		return err
	}
	if w.t.TestPatch != "" {
		if err := w.judged.Apply(ctx, w.t.TestPatch); err != nil {
			w.judged.Close()
			return fmt.Errorf("test_patch: %w", err)
		}
	}
	w.query = &sdk.Query{
		ID: w.t.InstanceID, Group: w.t.Repo, Run: w.t.InstanceID, WorkDir: w.judged.Dir,
		Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(w.t.ProblemStatement)}}},
		Checks:   sdk.Checks{FailToPass: w.t.FailToPass, PassToPass: w.t.PassToPass},
	}
	if image := cmp.Or(w.t.Image, w.t.DockerImage); image != "" {
		w.query.Labels = map[string]string{"image": image}
	}
	return nil
}

// Check runs the verifiers on the unchanged tree, without calling a model. The notes are warnings for a person; the
// error says why a run would be useless.
func (s *Solver) Check(ctx context.Context, repo *Repository, t *Task) (notes []string, err error) {
	w := &work{s: s, t: t, repo: repo}
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	defer w.judged.Close()
	return w.checkUntouched(ctx, s.Setup.Step.Verifiers)
}

func (w *work) solve(ctx context.Context, r *Result) (err error) {
	if err := w.open(ctx); err != nil {
		return err
	}
	defer w.judged.Close()
	if r.Notes, err = w.checkUntouched(ctx, w.s.Setup.Step.Verifiers); err != nil {
		return err
	}
	if left := w.judged.LeftOut; len(left) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d files that look like secrets are excluded from the work trees, such as %s", len(left), left[0]))
	}
	engine, err := step.New(w.config())
	if err != nil {
		return err
	}
	result, err := engine.Run(ctx, w.request())
	w.addAttempts(r, result.Attempts)
	r.Stop = result.Trace.Stop
	if err := cmp.Or(err, w.budgetErr); err != nil {
		return err
	}
	r.Patch, r.Model, r.Verdict, r.Solved = result.Answer.Text, result.Answer.Model, result.Verdict, isPassed(result.Verdict)
	w.handOver(r)
	if !r.Solved && r.Stop == sdk.StopNotWorth {
		r.Notes = append(r.Notes, unaskedNotes(result.Trace)...)
	}
	return nil
}

// config returns the policy's step configuration, adapted to attempts by an agent.
func (w *work) config() step.Config {
	config := w.s.Setup.Step
	if w.s.Mode == PerStep {
		// One candidate, the router, whose attempt is verified like any other.
		config.Candidates = []step.Candidate{{Model: sdk.Model{Name: routedName}}}
		config.Strategy = singleCandidate{}
		config.Estimators, config.Cost = nil, nil
	}
	w.verifiers = slices.Clone(config.Verifiers)
	for i := range w.verifiers {
		w.verifiers[i].Verifier = w.verifier(&config.Verifiers[i])
	}
	config.Verifiers = w.verifiers
	// The agent's Spend holds the cap, call by call.
	config.Ledger, config.StepCapUSD = nil, 0
	config.Retry.MaxAttempts = 1
	config.Parallel = false // attempts share the machine
	return config
}

func (w *work) request() step.Request {
	req := step.Request{Query: w.query, Caller: step.CallerFunc(w.attempt), Mode: string(w.s.Mode)}
	if w.s.Setup.Route != nil && w.s.Mode == WholeTrajectory {
		route := w.s.Setup.Route(w.query)
		req.Strategy, req.Done, req.Exclude = route.Strategy, route.Done, route.Exclude
	}
	return req
}

// addAttempts copies the attempts, with their verdicts and costs, to the result.
func (w *work) addAttempts(r *Result, judged []sdk.Attempt) {
	r.Attempts, r.CostUSD = w.attempts, w.judgedUSD
	for i := range r.Attempts {
		own := &r.Attempts[i]
		for _, a := range judged {
			if a.Answer.Model == own.Model {
				own.Verdict = w.withConfidence(a.Verdict, a.Answer.Text)
			}
		}
		r.CostUSD += own.CostUSD
		r.Calls += own.Trajectory.Turns
		if left := own.Trajectory.LeftOut; len(left) > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s made files that a patch cannot hold (links, binary files, installed packages, repositories, unreadable files), excluded: %s", own.Model, shorten(strings.Join(printable(left), ", "), 300)))
		}
	}
}

func isPassed(v *sdk.Verdict) bool { return v != nil && v.Outcome == sdk.Passed }

// unaskedNotes returns, for an unsolved task, a note on each model that was not tried, with its expected cost and the
// value of a solution.
func unaskedNotes(t *sdk.Trace) (notes []string) {
	if len(t.Decisions) == 0 {
		return nil
	}
	last := &t.Decisions[len(t.Decisions)-1]
	for _, b := range last.Models {
		if !b.Ran && last.Lambda > 0 {
			notes = append(notes, fmt.Sprintf("%s was not asked: its attempt was expected to pass with probability %.2f and to cost %.4f USD, and a solved task is worth %.4g USD (worth_usd of the strategy, or lambda)",
				b.Model, b.Quality.Mean, b.CostUSD, 1/last.Lambda))
		}
	}
	return notes
}

// routedName names the only candidate of PerStep.
const routedName = "routed"

func (w *work) sayf(format string, args ...any) {
	if w.s.Progress != nil {
		w.s.Progress(w.t.InstanceID, fmt.Sprintf(format, args...))
	}
}
