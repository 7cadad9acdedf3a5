package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tmc/langchaingo/llms"
	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// runName is the run to which the spend of a collection is booked.
const runName = "collect"

// Options configures a collection.
type Options struct {
	Policy *policies.Policy
	Tasks  []Task
	// Out is the file to which outcomes are appended.
	Out string
	// CapUSD is the most that all outcomes of the file may cost, including those of earlier runs; 0 means no cap.
	CapUSD float64
	// Parallel bounds the calls in flight; 0 means 4.
	Parallel int
	// Router holds the options of the single models' routers.
	Router router.Options
	// Progress, when not nil, is called after every call. It must be safe for concurrent use.
	Progress func(s Summary)
	// Queue, when not nil, lets workers make the calls instead of this process.
	Queue *Job
	// Agent, when not nil, does each task as a whole, with each model and then with the policy; its check replaces
	// the policy's verifiers.
	Agent *Agent
}

// Summary counts the results of a run.
type Summary struct {
	// Total is the number of outcomes for all tasks and models, Had of those in the file before, New of those added,
	// Failed of the calls without an outcome.
	Total, Had, New, Failed int
	// SpentUSD is the cost of all outcomes of the file, plus this run's failed calls.
	SpentUSD float64
	// CapReached reports that calls were omitted because of the cap.
	CapReached bool
	// Faults are the reasons of the failed calls, without duplicates.
	Faults []string
}

// ErrNoVerifier means that the policy has no verifier to measure quality.
var ErrNoVerifier = errors.New("the policy has no verifier, so answers have no quality: add a verifier block, or judge whole runs with --agent COMMAND --check COMMAND")

// grace is how long calls in flight can continue after the context has ended, since they are paid for.
const grace = 2 * time.Second

// Run collects the missing outcomes. When ctx ends, no calls start, and those in flight, which are paid for, have two
// seconds to finish. The summary is valid with an error.
func Run(ctx context.Context, o Options) (Summary, error) {
	if o.Agent == nil && !slices.ContainsFunc(o.Policy.Verifiers, func(v policies.Verifier) bool { return v.Judges() }) {
		return Summary{}, ErrNoVerifier
	}
	if err := checkJudged(o.Policy); err != nil && o.Router.Verify == nil && o.Agent == nil {
		return Summary{}, err
	}
	out, err := openFile(o.Out)
	if err != nil {
		return Summary{}, err
	}
	defer out.log.Close()
	scratch, err := os.MkdirTemp("", "stepfall-collect")
	if err != nil {
		return Summary{}, err
	}
	defer os.RemoveAll(scratch)

	c := &collector{o: o, out: out}
	models := len(o.Policy.Models)
	if o.Agent != nil {
		models++ // for the policy
		if c.traces, err = step.OpenJSONLines(o.Agent.Traces, 0, 0); err != nil {
			return Summary{}, err
		}
		defer c.traces.Close()
	}
	c.sum = Summary{Total: len(o.Tasks) * models, SpentUSD: out.spentUSD}
	if o.CapUSD > 0 && o.CapUSD <= out.spentUSD {
		c.sum.CapReached = true
		return c.sum, nil
	}
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	if o.Queue != nil {
		calls = ctx // workers finish their calls
	}
	var group errgroup.Group
	group.SetLimit(max(1, cmp.Or(o.Parallel, 4)))
	asks := make([]asker, models)
	for i := range asks {
		ask, done, err := c.asker(ctx, i, filepath.Join(scratch, "ledger.db"))
		if err != nil {
			return c.sum, err
		}
		defer done()
		asks[i] = ask
	}
	for at := range c.sum.Total { // task by task, so that models remain comparable when the cap is reached
		task, model := &o.Tasks[at/models], at%models
		if out.done[key{task.QueryID, c.name(model)}] {
			c.count(func(s *Summary) { s.Had++ })
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil || c.full.Load() || c.hasGivenUp.Load() {
				return nil
			}
			return c.runTask(calls, asks[model], task, c.name(model))
		})
	}
	err = errors.Join(group.Wait(), ctx.Err())
	return c.summary(), err
}

// checkJudged returns an error if some model has no verifier: its answers would be paid for without measuring their
// quality.
func checkJudged(p *policies.Policy) error {
	judges := slices.DeleteFunc(slices.Clone(p.Verifiers), func(v policies.Verifier) bool { return !v.Judges() })
	var left, all, by []string
	for i := range p.Models {
		if p.Models[i].IsFurtherSample() {
			continue // like its first sample
		}
		name := p.Models[i].Name
		all = append(all, strconv.Quote(name))
		if !slices.ContainsFunc(judges, func(v policies.Verifier) bool { return v.Models == nil || slices.Contains(v.Models, name) }) {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	for _, v := range judges {
		by = append(by, fmt.Sprintf("--set 'verifier[%q].models=[%s]'", v.Name, strings.Join(all, ", ")))
	}
	return fmt.Errorf("no verifier judges answers of %s, so they would cost money and give no outcome: let one judge them, for this collection by %s", strings.Join(left, ", "), strings.Join(by, " or "))
}

// asker runs a task on a model. An error ends the collection.
type asker func(ctx context.Context, t *Task) (*answer, error)

// asker returns the asker of a model, which uses a router of its own or the workers of a queue.
func (c *collector) asker(ctx context.Context, model int, ledger string) (ask asker, done func(), err error) {
	if c.o.Agent != nil {
		return c.runner(ctx, model, ledger)
	}
	if q := c.o.Queue; q != nil {
		name := c.o.Policy.Models[model].Name
		return func(ctx context.Context, t *Task) (*answer, error) { return q.ask(ctx, t, name) }, func() {}, nil
	}
	p := *c.o.Policy
	routeToModel(&p, model)
	if c.o.CapUSD > 0 {
		// The models' routers share the ledger that holds the cap.
		p.Budget.RunUSD, p.Budget.Ledger = c.o.CapUSD-c.out.spentUSD, ledger
	}
	r, err := router.New(ctx, &p, full.Complete(c.o.Router))
	if err != nil {
		return nil, nil, err
	}
	// Find a broken verifier before anything is paid for.
	if err := r.Start(ctx); err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	name := c.o.Policy.Models[model].Name
	return func(ctx context.Context, t *Task) (*answer, error) { return askModel(ctx, r, t, name, runName), nil }, func() { r.Close() }, nil
}

// name returns the name of a model, or PolicyName for the index past the last.
func (c *collector) name(model int) string {
	if model == len(c.o.Policy.Models) {
		return PolicyName
	}
	return c.o.Policy.Models[model].Name
}

type collector struct {
	o   Options
	out *file
	// traces receives the steps of an agent's runs; nil without an agent.
	traces *step.JSONLines

	full atomic.Bool // the cap is reached
	// hasGivenUp reports that calls are paid for but give no outcomes.
	hasGivenUp atomic.Bool

	mu     sync.Mutex
	sum    Summary
	wasted int // consecutive paid calls without an outcome
}

// routeToModel routes every query of a policy to one model. The others stay in: a judge may ask them, and further samples
// and arms share requests with them.
func routeToModel(p *policies.Policy, model int) {
	route := policies.Strategy{Kind: "route"}
	only := policies.Match{Name: runName, Models: []string{p.Models[model].Name}, Strategy: &route}
	p.Mode, p.Baseline = "enforce", ""
	p.Strategy, p.Matches, p.Fit = route, []policies.Match{only}, nil
	p.Verifiers = slices.Clone(p.Verifiers)
	for i := range p.Verifiers {
		if v := &p.Verifiers[i]; v.As == "bought" {
			v.As = "signal" // for every answer, so that a fit can learn its value
		}
	}
	p.Session, p.Shadow, p.Trace = nil, nil, policies.Trace{}
	p.Budget = policies.Budget{AtCap: "fail"}
}

// answer is the result of one call: an outcome, or why there is none.
type answer struct {
	Outcome *Outcome `json:"outcome,omitempty"`
	Error   string   `json:"error,omitempty"`
	// USD is the cost of the call, with or without an outcome.
	USD float64 `json:"usd"`
	// Full reports that the cap left no room for the call.
	Full bool `json:"full,omitempty"`
	// cause is the original error of a call made in this process.
	cause error
}

func askModel(ctx context.Context, r *router.Router, t *Task, model, run string) *answer {
	ctx, report := middleware.WithReport(middleware.WithInfo(ctx, t.info(run)))
	var messages []llms.MessageContent
	if t.System != "" {
		messages = append(messages, llms.TextParts(llms.ChatMessageTypeSystem, t.System))
	}
	messages = append(messages, llms.TextParts(llms.ChatMessageTypeHuman, t.Prompt))
	resp, err := r.GenerateContent(ctx, messages)
	if errors.Is(err, sdk.ErrBudgetExhausted) {
		return &answer{Full: true}
	}
	row := &Outcome{QueryID: t.QueryID, Group: t.Group, Prompt: t.Prompt, Model: model}
	if err == nil {
		row.Answer = resp.Choices[0].Content
		err = row.judge(report)
	}
	if err != nil {
		return &answer{Error: err.Error(), USD: report.CostUSD(), cause: err}
	}
	return &answer{Outcome: row, USD: report.CostUSD()}
}

// runTask runs one task on one model and records the outcome. An error ends the collection; a failed call returns
// none.
func (c *collector) runTask(ctx context.Context, ask asker, t *Task, model string) error {
	a, err := ask(ctx, t)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case a.Full:
		c.full.Store(true)
		c.count(func(s *Summary) { s.SpentUSD += a.USD })
		return nil
	case a.Outcome == nil:
		return c.recordFailure(model, a.Error, a.USD)
	}
	if err := c.out.add(a.Outcome); err != nil {
		return fmt.Errorf("recording an outcome: %w", err)
	}
	c.count(func(s *Summary) {
		s.New++
		s.SpentUSD += a.USD
		c.wasted = 0
	})
	return nil
}

// judge sets cost, tokens and verdict from the step's trace. The cost is that of the calls alone, as in traces:
// verdicts and signals have prices of their own, and may not be bought in use.
func (o *Outcome) judge(report *middleware.Report) error {
	step := report.Steps()[0]
	o.EstimatedInputTokens = step.InputTokens
	if u := &step.Usage; !u.Estimated { // estimated lengths count as unknown, as in use
		o.InputTokens, o.OutputTokens = u.InputTokens+u.CachedInputTokens+u.CacheWriteTokens, u.OutputTokens+u.ReasoningTokens
	}
	for i := range step.Calls {
		call := &step.Calls[i]
		o.LatencySeconds += call.Latency.Seconds()
		o.CostUSD = sdk.RoundUSD(o.CostUSD + call.CostUSD)
		if call.Error != "" {
			continue
		}
		quality, known := call.Verdict.Quality()
		if !known {
			why := "no verifier applies"
			if call.Verdict != nil {
				why = call.Verdict.Evidence
			}
			return fmt.Errorf("the verdict on %s is inconclusive: %s", o.QueryID, why)
		}
		o.Quality, o.Signals = quality, call.Signals
		verdict := *call.Verdict
		verdict.Isolation, verdict.IsolationMissing = nil, nil // the same in every row
		o.Verdict = &verdict
	}
	return nil
}

// recordFailure counts a call without an outcome, and returns ErrWasted after maxWasted paid ones in a row.
func (c *collector) recordFailure(model, why string, usd float64) error {
	wasted := 0
	c.count(func(s *Summary) {
		s.SpentUSD += usd
		s.Failed++
		if usd > 0 {
			c.wasted++
		}
		wasted = c.wasted
		if fault := model + ": " + why; !slices.Contains(s.Faults, fault) && len(s.Faults) < maxFaults {
			s.Faults = append(s.Faults, fault)
		}
	})
	if wasted >= maxWasted && !c.hasGivenUp.Swap(true) {
		return fmt.Errorf("%w; the last: %s: %s", ErrWasted, model, why)
	}
	return nil
}

// maxWasted is how many consecutive calls may be paid for without an outcome before the collection gives up.
const maxWasted = 10

// ErrWasted ends a collection whose calls are paid for in vain: the verifier is probably broken.
var ErrWasted = errors.New("stopped after 10 consecutive paid calls without an outcome")

// maxFaults bounds the reasons in a summary.
const maxFaults = 10

// count updates the summary with the lock held, and reports the progress.
func (c *collector) count(change func(s *Summary)) {
	c.mu.Lock()
	change(&c.sum)
	c.mu.Unlock()
	if c.o.Progress != nil {
		c.o.Progress(c.summary())
	}
}

func (c *collector) summary() Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sum
	s.CapReached = c.full.Load()
	return s
}
