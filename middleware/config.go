package middleware

import (
	"context"
	"time"

	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// Candidate is a langchaingo model that may be asked, and its data.
type Candidate struct {
	// Model names and describes the candidate. Requests that need a capability which is not set do not go
	// to it: an agent with tools needs Capabilities.Tools.
	Model sdk.Model
	// LLM is the model itself. Give it no callbacks handler, which would get events for each draft. If
	// there are several servers, set Deployments instead.
	LLM llms.Model
	// Deployments are several servers of the same model, in order of preference.
	Deployments []Deployment
	// Quality is the prior belief; the zero value means mean 0.5, deviation 0.25.
	Quality sdk.Estimate
	// OutputTokens is the expected length of an answer; 0 means 500.
	OutputTokens int
	// Timeout bounds one call; 0 leaves it to the caller's context. A call that takes longer is a failed
	// call; it does not end the step.
	Timeout time.Duration
	// SampleTemperature is the minimum temperature of a further answer: of a candidate called NAME#2,
	// NAME#3 and so on, where NAME is an earlier candidate. Such a candidate has no LLM and no Deployments
	// of its own and uses those of NAME. 0 means 1.
	SampleTemperature float64
	// ReasoningEffort is the reasoning effort to request, as the provider names it; "" leaves it to the
	// caller. Candidates called NAME@ARM are arms of one model: those after the first need no LLM and no
	// Deployments, and share those of the first, with their circuits and limits.
	ReasoningEffort string
	// OverrideEffort requests ReasoningEffort even if the caller sets an effort. Otherwise the caller's is
	// sent, and only the first arm of a model is asked.
	OverrideEffort bool
}

// Deployment is one server of a model.
type Deployment struct {
	Name string
	LLM  llms.Model
}

// Mode says whether decisions are put into effect.
type Mode string

// The modes.
const (
	// Enforce calls what the strategy decides. The empty Mode means Enforce.
	Enforce Mode = "enforce"
	// Off calls the baseline as if stepfall were not there.
	Off Mode = "off"
	// Observe calls the baseline and records what would have been decided. Estimators
	// and verifiers look at its answer before it is returned, for the record: they
	// cannot fail the step.
	Observe Mode = "observe"
	// Shadow calls the baseline and, on a sample of the steps, also runs the strategy's choice, in the
	// background and within a spending cap.
	Shadow Mode = "shadow"
)

// ShadowAlternative is the mode in the traces of steps that Shadow ran in addition to the baseline;
// those of the baseline say Shadow.
const ShadowAlternative = "shadow_alternative"

// StreamMode says when a caller that streams gets to see an answer.
type StreamMode string

// The streaming modes. In none of them is a token of a rejected draft shown.
const (
	// Buffer shows the chosen answer in one piece when it is chosen. The empty
	// StreamMode means Buffer.
	Buffer StreamMode = "buffer"
	// Commit streams an answer live when no further model can be worth running after it, whatever it says.
	// A plain answer (no tools, no JSON, no text agent) is also streamed live if only the default checks
	// will judge it, and one that begins like a refusal is held back. What was shown is the step's answer.
	Commit StreamMode = "commit"
	// Passthrough streams live when there is only one model to ask, and is
	// Buffer otherwise.
	Passthrough StreamMode = "passthrough"
)

// ShadowCapUsedUp is the end of the error in the trace of the first step that had no shadow because
// the cap was used up.
const ShadowCapUsedUp = "the cap of the shadow leaves no room for a call; further steps that have no shadow leave no trace of it"

// ShadowConfig limits the shadow mode.
type ShadowConfig struct {
	// Sample is the share of steps that are shadowed, in [0, 1].
	Sample float64
	// CapUSD is the most, in US dollars, that shadow calls may spend in the lifetime of the Model; it must
	// be set.
	CapUSD float64
	// Concurrency is how many shadows run at once; 0 means 16. Up to 64 times as many wait. A step beyond
	// that has no shadow, and its trace says so.
	Concurrency int
	// Coin returns a number in [0, 1) that decides whether a step is shadowed; nil means random.
	Coin func() float64
}

// SessionConfig configures how a conversation stays with its model.
type SessionConfig struct {
	// Off forgets sessions: every step is decided as if it were the first.
	Off bool
	// IgnoreCache leaves prompt caches out of the predicted costs.
	IgnoreCache bool
	// CountDisputes counts the steps of each run whose answers differed or had one rejected, and gives
	// later steps the feature disputed_steps; even if Off is set. A run without a name is recognized by
	// the beginning of its conversation.
	CountDisputes bool
	// DoubtUpTo, above 0, counts steps in which two answers that call a tool differ. Later steps get the
	// features that begin with [feature.Doubt], and [feature.HeldBack] if the steps cost more than this
	// share of always asking the model Dearest.
	DoubtUpTo float64
	// Dearest names the model that is asked where answers differ.
	Dearest string
	// SwitchCostUSD is added to the predicted cost of every model but the last
	// one used in the session.
	SwitchCostUSD float64
	// CacheTTL is how long providers keep a prompt prefix; 0 means 5 minutes.
	// Within it, a model that has seen the conversation is expected to read it at
	// its cached price.
	CacheTTL time.Duration
	// IdleTimeout is the idle time after which a session is forgotten; 0 means 30 minutes.
	IdleTimeout time.Duration
	// MaxSessions bounds the memory; 0 means 65,536.
	MaxSessions int
}

// BreakerConfig configures the circuit breakers of deployments that keep failing.
type BreakerConfig struct {
	// Failures in a row open the circuit; 0 means 5, a negative number never.
	Failures int
	// Delay is how long an open circuit stays open; 0 means 30 s.
	Delay time.Duration
}

// Handler answers one step: the signature of [Model.GenerateContent].
type Handler func(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error)

// Route is the result of Config.Route for one query. The zero value changes nothing.
type Route struct {
	// Strategy, when not nil, replaces the configured one, together with Parallel, and Done is called with
	// the step; see [step.Request].
	Strategy cascade.Strategy
	Parallel bool
	Done     func(*sdk.Trace)
	// Match names the block that applied, for messages.
	Match string
	// Models marks the candidates, by index, that may be asked; nil means all.
	Models []bool
}

// Exclude returns why candidate i must not be asked, or "".
func (r *Route) Exclude(i int) string {
	switch {
	case r.Models == nil || r.Models[i]:
		return ""
	case r.Match == "":
		return "is no candidate for this query"
	}
	return "is no candidate of match " + r.Match
}

// Config configures New. Only Models must be set.
type Config struct {
	Models []Candidate
	// Embedders turn texts into vectors, each under its name; see [Model.Embed]. Each implements
	// [Embedder] and takes no part in steps: only its Model, LLM or Deployments, and Timeout are used.
	Embedders []Candidate
	// Step configures how steps run. Its Candidates are made from Models. Nil Checks mean [DefaultChecks],
	// an empty slice none.
	Step step.Config
	// Lambda is the price of one US dollar in units of quality, used with cascade_route if Step has no
	// Strategy: 10 means that a gain of 0.1 in quality is worth a cent.
	Lambda float64

	// Route, when not nil, may give a query its own strategy and candidates. It must be safe for
	// concurrent use and fast: every step calls it.
	Route func(q *sdk.Query) Route
	// OptionalTools are types of tools that only one API has, such as web_search: a model behind another
	// API is asked without them. A type also covers those that begin with it and "_". A model that lacks
	// any other tool of the caller's is not asked.
	OptionalTools []string

	Breaker BreakerConfig
	Stream  StreamMode
	// CancelDrafts cancels a call while its answer arrives if a default check will reject the answer and
	// another model will then be asked.
	CancelDrafts bool
	// MinTokenProbability lets CancelDrafts also reject uncertain answers: those whose tokens so far, 32
	// or more, have a geometric mean probability below this. It needs log-probabilities. 0 rejects none.
	MinTokenProbability float64
	Session             SessionConfig
	// Circuits and Conversations are shared with other processes; nil shares nothing.
	Circuits      Circuits
	Conversations Conversations

	Mode Mode
	// Baseline names the model that the application would have called, for the
	// modes other than Enforce; empty means the last candidate.
	Baseline string
	Shadow   ShadowConfig
	// Holdout, when not nil, decides in the mode Enforce whether the run of a query goes to the baseline;
	// then only Baseline is asked. It returns nil for a query that is in no holdout. It is not called for
	// a step that is pinned to a model or that the baseline cannot serve.
	Holdout func(q *sdk.Query) *sdk.Holdout

	// After, when not nil, is the Model that this one replaces. Its memory of conversations and the
	// spending of its shadows are taken over; both may run at the same time. A conversation's model counts
	// as the same if its name, provider and served name are.
	After *Model

	// Redact removes secrets from error messages; nil removes what looks like one.
	Redact *redact.Redactor

	// Callbacks gets the LLM events of a step once, however many models it asks.
	Callbacks callbacks.Handler
	// Interceptors wrap the step, the first outermost.
	Interceptors []func(Handler) Handler
}
