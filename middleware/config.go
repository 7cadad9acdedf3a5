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

// Candidate describes one langchaingo model that steps can call.
type Candidate struct {
	// Model names and describes the candidate. A request that needs a capability which is not set here is
	// not sent to the candidate: an agent with tools needs Capabilities.Tools.
	Model sdk.Model
	// LLM is the model itself. It must have no callbacks handler, which would get the events of every
	// draft. If the model runs on several servers, set Deployments instead.
	LLM llms.Model
	// Deployments are the servers of the model, in order of preference.
	Deployments []Deployment
	// Quality is the prior estimate of the quality; the zero value means mean 0.5, standard deviation 0.25.
	Quality sdk.Estimate
	// OutputTokens is the expected length of an answer; 0 means 500.
	OutputTokens int
	// Timeout limits one call; 0 leaves the limit to the caller's context. A call that times out is a
	// failed call and does not end the step.
	Timeout time.Duration
	// SampleTemperature is the minimum temperature of a further sample: of a candidate called NAME#2,
	// NAME#3 and so on, where NAME is an earlier candidate. Such a candidate sets neither LLM nor
	// Deployments and uses those of NAME. 0 means 1.
	SampleTemperature float64
	// ReasoningEffort is the reasoning effort to request, in the provider's own terms; "" leaves it to the
	// caller. Candidates called NAME@ARM are arms of one model: those after the first can omit LLM and
	// Deployments, and share the first one's together with its circuits and limits.
	ReasoningEffort string
	// OverrideEffort requests ReasoningEffort even if the caller sets an effort. Without it, the caller's
	// effort is sent, and only the first arm of a model can be called.
	OverrideEffort bool
}

// Deployment is one server of a model.
type Deployment struct {
	Name string
	LLM  llms.Model
}

// Mode says whether the strategy's decisions are carried out.
type Mode string

// The modes.
const (
	// Enforce calls the models that the strategy chooses. The empty Mode means Enforce.
	Enforce Mode = "enforce"
	// Off calls the baseline. Nothing else is called, decided or judged; caps, retries and traces remain, and
	// answers are streamed live.
	Off Mode = "off"
	// Observe calls the baseline and records what the strategy would have decided. Estimators and verifiers
	// judge the baseline's answer before it is returned, but only for the record: they cannot fail the step.
	Observe Mode = "observe"
	// Shadow calls the baseline and, on a sample of the steps, also runs the strategy's choice, in the
	// background and within a spending cap.
	Shadow Mode = "shadow"
)

// ShadowAlternative is the mode in the traces of the steps that Shadow runs in addition to the
// baseline's, whose traces have the mode Shadow.
const ShadowAlternative = "shadow_alternative"

// StreamMode says when a streaming caller is shown an answer.
type StreamMode string

// The streaming modes. None of them shows a token of a rejected draft.
const (
	// Buffer shows the answer in one piece once it is chosen. The empty StreamMode means Buffer.
	Buffer StreamMode = "buffer"
	// Commit streams an answer live if no further model can be worth calling after it, whatever it says.
	// A plain answer (no tools, no JSON, no text agent) is also streamed live if only the default checks
	// will judge it, unless it begins like a refusal. An answer that was shown is the step's answer.
	Commit StreamMode = "commit"
	// Passthrough streams live if there is only one model to call, and otherwise does the same as Buffer.
	Passthrough StreamMode = "passthrough"
)

// ShadowCapUsedUp is the end of the error in the trace of the first step that was not shadowed because
// the cap was used up.
const ShadowCapUsedUp = "the shadow's cap has no room for a call; further steps without a shadow are not recorded"

// ShadowConfig limits the shadow mode.
type ShadowConfig struct {
	// Sample is the share of steps to shadow, above 0 and at most 1.
	Sample float64
	// CapUSD is the most, in US dollars, that shadow calls can spend in the lifetime of the Model. It is
	// required.
	CapUSD float64
	// Concurrency is the number of shadows that run at once; 0 means 16. Up to 64 times as many wait in a
	// queue. A step that finds the queue full is not shadowed, and its trace says so.
	Concurrency int
	// Coin returns a number in [0, 1) that decides whether a step is shadowed; nil means random.
	Coin func() float64
}

// SessionConfig configures how a conversation stays with its model.
type SessionConfig struct {
	// Off disables sessions: every step is decided as if it were the first.
	Off bool
	// IgnoreCache leaves prompt caches out of the predicted costs.
	IgnoreCache bool
	// CachedUSD is by model the mean saving of a prompt cache, in US dollars, that the predicted costs contain already, and
	// FirstCachedUSD that on the first step of a conversation.
	CachedUSD, FirstCachedUSD map[string]float64
	// CountDisputes counts the steps of each run in which answers differed or were rejected, and reports
	// the number to later steps as the feature disputed_steps, even if Off is set. A run without a name is
	// recognized by the beginning of its conversation.
	CountDisputes bool
	// DoubtUpTo, if above 0, measures for each tool how often two answers that call it differ, and reports
	// that to later steps as the features that begin with [feature.Doubt]. [feature.HeldBack] is added once the
	// steps have cost more than this share of what Dearest alone would have cost.
	DoubtUpTo float64
	// Dearest names the most expensive model, which is called when answers differ.
	Dearest string
	// SwitchCostUSD is added to the predicted cost of every model but the one that the session used last.
	SwitchCostUSD float64
	// CacheTTL is how long providers cache a prompt prefix; 0 means 5 minutes. Within it, a model that has
	// seen the conversation is expected to read it at the cached price.
	CacheTTL time.Duration
	// IdleTimeout is the idle time after which a session is forgotten; 0 means 30 minutes.
	IdleTimeout time.Duration
	// MaxSessions limits the number of sessions in memory; 0 means 65,536.
	MaxSessions int
}

// BreakerConfig configures the circuit breakers of deployments.
type BreakerConfig struct {
	// Failures is the number of consecutive failures that opens the circuit; 0 means 5, a negative number disables the breaker.
	Failures int
	// Delay is how long a circuit stays open; 0 means 30 s.
	Delay time.Duration
}

// Handler answers one step: the signature of [Model.GenerateContent].
type Handler func(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error)

// Route is the result of Config.Route for one query. The zero value changes nothing.
type Route struct {
	// Strategy, when not nil, replaces the configured one, Parallel included, and Done is called with the
	// trace of the step; see [step.Request].
	Strategy cascade.Strategy
	Parallel bool
	Done     func(*sdk.Trace)
	// Match names the match block that applied, for messages.
	Match string
	// Models marks the candidates, by index, that can be called; nil means all.
	Models []bool
}

// Exclude returns why candidate i must not be called, or "".
func (r *Route) Exclude(i int) string {
	switch {
	case r.Models == nil || r.Models[i]:
		return ""
	case r.Match == "":
		return "is not a candidate for this query"
	}
	return "is not a candidate of match " + r.Match
}

// Config configures New. Only Models must be set.
type Config struct {
	Models []Candidate
	// Embedders turn texts into vectors, each under its own name; see [Model.Embed]. Each LLM implements
	// [Embedder] and takes no part in steps. Only Model, LLM or Deployments, and Timeout are used.
	Embedders []Candidate
	// Step configures how steps run. New sets its Candidates from Models. Nil Checks mean [DefaultChecks],
	// an empty slice means none.
	Step step.Config
	// Lambda is the price of one US dollar in units of quality: at 10, a gain of 0.1 in quality is worth a
	// cent. It applies if Step has no Strategy, which then is cascade_route.
	Lambda float64

	// Route, when not nil, can give a query its own strategy and candidates. It must be safe for
	// concurrent use and fast, because every step calls it.
	Route func(q *sdk.Query) Route
	// OptionalTools are types of tools that only one API has, such as web_search. A model behind another
	// API is called without them. A type also covers the types that begin with it and "_". A model that
	// lacks any other tool of the request is not called.
	OptionalTools []string

	Breaker BreakerConfig
	Stream  StreamMode
	// CancelDrafts cancels a call while its answer is still arriving if a default check is certain to reject
	// the answer and another model will then be called.
	CancelDrafts bool
	// MinTokenProbability lets CancelDrafts also reject uncertain answers: those whose tokens so far (at
	// least 32) have a geometric mean probability below this. It needs log-probabilities; 0 disables it.
	MinTokenProbability float64
	Session             SessionConfig
	// Circuits and Conversations share state with other processes; nil shares nothing.
	Circuits      Circuits
	Conversations Conversations

	Mode Mode
	// Baseline names the model that the application would have called, for the
	// modes other than Enforce; empty means the last candidate.
	Baseline string
	Shadow   ShadowConfig
	// Holdout, when not nil, decides in the mode Enforce whether the run of a query is sent to the baseline;
	// then only Baseline is called, unless it gives no answer. It returns nil for a query outside any
	// holdout. It is not called for a step that is pinned to a model or that the baseline cannot serve.
	Holdout func(q *sdk.Query) *sdk.Holdout

	// Replaces, when not nil, is the Model that this one replaces. New takes over its memory of conversations
	// and its shadows' spending; both Models can run at the same time. A conversation's last model counts as
	// the same one if name, provider and served name are equal.
	Replaces *Model

	// Redact removes secrets from error messages; nil removes whatever looks like a credential.
	Redact *redact.Redactor

	// Callbacks gets the LLM events of a step once, however many models are called.
	Callbacks callbacks.Handler
	// Interceptors wrap the step, the first outermost.
	Interceptors []func(Handler) Handler
}
