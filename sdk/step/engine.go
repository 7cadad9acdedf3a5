package step

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// Candidate is a model that steps can call, with the prior used when every estimator abstains.
type Candidate struct {
	Model sdk.Model
	// Quality is the prior; the zero value means mean 0.5 and standard deviation 0.25. The deviation is
	// that of the estimate after a verifier or estimator has judged the answer. It is ignored if neither
	// will.
	Quality sdk.Estimate
	// OutputTokens is the expected length of an answer; 0 means 500.
	OutputTokens int
}

// Check looks for a fault in an answer that can be seen without a model or another program. It returns
// what is wrong, or "". It must be safe for concurrent use.
type Check struct {
	Name  string
	Fault func(q *sdk.Query, a *sdk.Answer, earlier []sdk.Attempt) string
}

// Unavailable says what to do when a verifier is unavailable.
type Unavailable int

// The ways to treat an unavailable verifier.
const (
	// UnavailableAbstain: the estimators decide, as if there were no verifier.
	UnavailableAbstain Unavailable = iota
	// UnavailableFail ends the step with an error.
	UnavailableFail
	// UnavailableAccept counts the answer as passed.
	UnavailableAccept
)

// VerifierUse says how a verifier's finding is used.
type VerifierUse int

const (
	// AsVerdict accepts or rejects the answer.
	AsVerdict VerifierUse = iota
	// AsSignal turns the verdict into a number, the probability that the answer is right, which estimators
	// read as the signal with the verifier's name. The verifier runs on every answer.
	AsSignal
	// AsBought is AsSignal, but the verifier runs only if an estimator offers the number as an sdk.Look
	// and the strategy finds it worth its price.
	AsBought
)

// Texts that follow "verifier NAME" in the note of a decision. NoteOverMaxCost: a verdict cost more than
// the verifier's MaxCostUSD. NotePaused: the verifier is paused, since MaxCostUSD or Timeout was too low for
// several verdicts in a row. NoteNoRoom, followed by the figures: a cap has no room for a verdict.
const (
	NoteOverMaxCost = " cost more than its max_usd"
	NotePaused      = " is left out for a while, since its max_usd or timeout ended ten verdicts in a row"
	NoteNoRoom      = " left out: "
)

// Verifier is a verifier and how to use it.
type Verifier struct {
	Name     string
	Verifier sdk.Verifier
	// Models are those whose answers it judges; nil means all.
	Models []string
	// Applies says whether the verifier can judge answers to q; nil means always.
	Applies func(q *sdk.Query) bool
	// Rejects says that the verifier only finds faults: a pass is no evidence that the answer is right.
	// Like a check, it does not count as a judge when the strategy plans.
	Rejects bool
	// As says how its finding is used; the zero value is AsVerdict.
	As VerifierUse
	// Rates are the error rates of its verdicts, which then shift the estimate of an answer instead of
	// settling it. If nil, verdicts are final with their own confidence; with zero rates, with certainty.
	Rates *cascade.Rates
	// OnUnavailable says what to do if the verifier returns an error.
	OnUnavailable Unavailable
	// MaxCostUSD is the most that one verification costs. It is reserved in advance, or the highest cost
	// so far if that is more.
	MaxCostUSD float64
	// CallsModels says that the verifier calls models of this program. Once they have cost MaxCostUSD, if
	// that is not 0, no further call begins. Worst cases that exceed it are reserved call by call: see
	// [ReserveCall].
	CallsModels bool
	// Timeout bounds one verification; 0 leaves it to the caller's context.
	Timeout time.Duration
}

// Retry limits the attempts at one model within a step. The zero value means two attempts, half a
// second apart.
type Retry struct {
	// MaxAttempts is the number of attempts at one model; 0 means 2, 1 no retry.
	MaxAttempts int
	// BaseDelay doubles with each attempt, up to MaxDelay, minus a random part of up to half. 0 means 500
	// ms and 10 s. A delay that a server asks for takes precedence; if it exceeds MaxDelay, the model
	// leaves the step.
	BaseDelay, MaxDelay time.Duration
	// SwitchAfter is the longest wait for a model while another can be called. If the wait is longer, the
	// strategy decides among the others, and the step waits for the model only if it would end otherwise.
	// 0 means 2 s.
	SwitchAfter time.Duration
}

// Config says how steps are run.
type Config struct {
	Candidates []Candidate
	// Strategy decides. Its description goes into traces; see [cascade.Describer].
	Strategy cascade.Strategy
	// Estimators are asked in order. For each model the first that does not abstain counts, and if all
	// abstain, the candidate's prior.
	//
	// A second model is worth its price only if answers are judged. If no verifier applies and no estimator
	// judges answers, every strategy only routes.
	Estimators []Estimator
	// Cost predicts the cost of calls; nil means the prices times the lengths of the prompt and the
	// expected answer.
	Cost sdk.CostEstimator
	// Checks and Verifiers judge each answer, in order, until one rejects it.
	Checks    []Check
	Verifiers []Verifier

	// StepCapUSD is the most that one step may spend; 0 is no cap.
	StepCapUSD float64
	// Ledger holds the caps beyond the step; nil is none.
	Ledger Ledger
	// CapWait is how long a step waits for room under the ledger's caps while calls in flight on this
	// engine hold the missing amount: they reserve worst cases and return what they do not use. A step
	// does not wait if the strategy would continue with a model that needs less, unless FailAtCap is set.
	// 0 means no wait.
	CapWait time.Duration
	// FailAtCap returns an error if a cap ends a step that already has an answer, unless a model whose
	// worst case is no lower than that of any model excluded by the cap has answered. False returns the
	// best answer so far.
	FailAtCap bool
	Retry     Retry

	// Traces receives the trace of each step, on the step's goroutine, before the step returns; it may be
	// nil. It must not modify the trace.
	Traces func(ctx context.Context, t *sdk.Trace)
	// TracePrompts and TraceAnswers include texts in traces.
	TracePrompts, TraceAnswers bool
	// Explore is the share of steps, in [0, 1], that call one more model for the record: after the strategy
	// has stopped, one of the models that it left out is drawn at random, called and judged. Its cost is
	// part of the step, and if its answer is better, it becomes the step's. Without exploration nothing is
	// learned about models that are never chosen. Such steps stream nothing before they end.
	Explore float64
	// Parallel starts a step with two concurrent calls if the strategy would call a second model however
	// good the first answer is (up to two standard deviations above its mean), and no verifier could end
	// the step before. The step then takes as long as the slower call instead of both in turn. Two
	// goroutines use the Caller of such a step at once.
	Parallel bool
	// Explain records the alternatives of each decision, which takes far longer than deciding.
	Explain bool
	// Policy and Profile are recorded in traces.
	Policy, Profile string

	// Coin returns a number in [0, 1) for ties; nil means random. Now is the clock; nil means time.Now.
	Coin func() float64
	Now  func() time.Time
}

// Engine runs steps. It is safe for concurrent use. Besides the ledger it keeps between steps which
// estimators are paused for missed deadlines, which verifiers are paused because their limits are too low, and
// on which kinds of query a verifier is mostly inconclusive.
type Engine struct {
	c      Config
	models []sdk.Model
	names  []string
	priors []sdk.Estimate
	runs   sync.Pool // of *run
	// estimatorCooldowns has the missed deadlines of each estimator.
	estimatorCooldowns []cooldown
	verifiers          []verifier
	// waitable wraps the ledger if steps can wait for room under its caps, else nil.
	waitable *waitableLedger
	caps     CapReader // the ledger, if it is one
}

// New returns an engine, or an error that lists every fault of the configuration.
func New(c Config) (*Engine, error) {
	e := &Engine{c: c.withDefaults(), estimatorCooldowns: make([]cooldown, len(c.Estimators)), verifiers: make([]verifier, len(c.Verifiers))}
	for k := range c.Verifiers {
		e.verifiers[k].Verifier = &c.Verifiers[k]
	}
	e.caps, _ = c.Ledger.(CapReader)
	faults := c.faults()
	for i := range c.Candidates {
		faults = append(faults, e.add(&c.Candidates[i])...)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("configuring the step engine: %w", err)
	}
	if c.Ledger != nil && c.CapWait > 0 {
		e.waitable = newWaitableLedger(c.Ledger)
		e.c.Ledger = e.waitable
	}
	return e, nil
}

func (c Config) withDefaults() Config {
	if c.Coin == nil {
		c.Coin = rand.Float64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Retry.MaxAttempts <= 0 {
		c.Retry.MaxAttempts = 2
	}
	if c.Retry.BaseDelay <= 0 {
		c.Retry.BaseDelay = 500 * time.Millisecond
	}
	if c.Retry.MaxDelay <= 0 {
		c.Retry.MaxDelay = 10 * time.Second
	}
	if c.Retry.SwitchAfter <= 0 {
		c.Retry.SwitchAfter = 2 * time.Second
	}
	return c
}

// faults returns the faults of everything but the candidates.
func (c *Config) faults() (faults []error) {
	if len(c.Candidates) == 0 {
		faults = append(faults, errors.New("no candidates"))
	}
	if c.Strategy == nil {
		faults = append(faults, errors.New("no strategy"))
	}
	if !(c.Explore >= 0 && c.Explore <= 1) {
		faults = append(faults, fmt.Errorf("a share of %v steps that explore, want one in [0, 1]", c.Explore))
	}
	for _, v := range c.Verifiers {
		if v.Verifier == nil {
			faults = append(faults, fmt.Errorf("verifier %s is nil", v.Name))
		}
		if v.Rates != nil {
			if err := v.Rates.Validate(); err != nil {
				faults = append(faults, fmt.Errorf("verifier %s: %w", v.Name, err))
			}
		}
	}
	for _, s := range c.Estimators {
		if s.Estimator == nil {
			faults = append(faults, fmt.Errorf("estimator %s is nil", s.Name))
		}
	}
	for _, k := range c.Checks {
		if k.Fault == nil {
			faults = append(faults, fmt.Errorf("check %s is nil", k.Name))
		}
	}
	return faults
}

func (e *Engine) add(cand *Candidate) (faults []error) {
	m, prior := withPrices(cand.Model), cand.Quality
	switch {
	case m.Name == "":
		faults = append(faults, errors.New("a candidate has no name"))
	case slices.Contains(e.names, m.Name):
		faults = append(faults, fmt.Errorf("two candidates are called %s", m.Name))
	}
	if (e.c.StepCapUSD > 0 || e.c.Ledger != nil && (e.caps == nil || e.caps.HasCaps())) && isUnbounded(&m, 0) {
		faults = append(faults, fmt.Errorf("model %s: a budget needs the model's max_output_tokens to know the worst case", m.Name))
	}
	if prior == (sdk.Estimate{}) {
		prior = sdk.Estimate{Mean: 0.5, StdDev: 0.25}
	}
	if !(prior.Mean >= 0 && prior.Mean <= 1) || !(prior.StdDev >= 0) || math.IsInf(prior.StdDev, 0) {
		faults = append(faults, fmt.Errorf("model %s: prior quality %v ± %v, want a mean in [0, 1]", m.Name, prior.Mean, prior.StdDev))
	}
	if !validPrice(m.Price) {
		faults = append(faults, fmt.Errorf("model %s: prices must be finite and not negative", m.Name))
	}
	e.models, e.names, e.priors = append(e.models, m), append(e.names, m.Name), append(e.priors, prior)
	return faults
}

// Models returns the candidates' models in the order of their indexes, with missing prices filled in.
// The slice must not be modified.
func (e *Engine) Models() []sdk.Model { return e.models }

// Index returns the index of the model with that name, or -1.
func (e *Engine) Index(name string) int { return slices.Index(e.names, name) }

// hostedCallUSD is the highest published price of one search within a call, which is Google's.
const hostedCallUSD = 0.035

// withPrices fills in missing prices: cached and cache-writing input from input, reasoning from output,
// and the default for providers' tools.
func withPrices(m sdk.Model) sdk.Model {
	if m.Price.CachedInput == 0 {
		m.Price.CachedInput = m.Price.Input
	}
	if m.Price.CacheWrite == 0 {
		m.Price.CacheWrite = m.Price.Input
	}
	if m.Price.Reasoning == 0 {
		m.Price.Reasoning = m.Price.Output
	}
	if m.Price.HostedCallUSD == 0 && m.Price.Output > 0 {
		m.Price.HostedCallUSD = hostedCallUSD
	}
	return m
}

func validPrice(p sdk.Price) bool {
	for _, usd := range [...]float64{p.Input, p.CachedInput, p.CacheWrite, p.AudioInput, p.Output, p.Reasoning, p.RequestUSD, p.HostedCallUSD, p.SearchUSD, p.PreviewSearchUSD, p.FastFactor, p.FlexFactor, p.Long.InputFactor, p.Long.OutputFactor} {
		if !(usd >= 0) || math.IsInf(usd, 0) {
			return false
		}
	}
	return true
}
