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

// Candidate is a langchaingo model that may be asked, with what is known about it.
type Candidate struct {
	// Model names and describes the candidate. Capabilities that are not set are
	// not asked of it: an agent with tools needs Capabilities.Tools.
	Model sdk.Model
	// LLM is the model itself. Give it no callbacks handler: its events would
	// come once for each draft. Deployments is used instead when there are several.
	LLM llms.Model
	// Deployments are several servers of the same model, in order of preference.
	Deployments []Deployment
	// Quality is the prior belief; the zero value means mean 0.5, deviation 0.25.
	Quality sdk.Estimate
	// OutputTokens is the expected length of an answer; 0 means 500.
	OutputTokens int
	// Timeout bounds one call; 0 is no bound but the caller's. A call that took
	// longer is a failed call, not the end of the step.
	Timeout time.Duration
	// SampleTemperature is the least temperature of a further answer of another
	// candidate: one called NAME#2, NAME#3 and so on, where NAME is a candidate before
	// it. Such a candidate has no LLM and no Deployments but those of NAME. 0 means 1.
	SampleTemperature float64
	// ReasoningEffort is what the candidate is asked to think, in the provider's word; ""
	// leaves it to the caller. Candidates called NAME@ARM are arms of one model: those after
	// the first need no LLM and no Deployments, and share those of the first, with their
	// circuits and limits.
	ReasoningEffort string
	// OverrideEffort asks for ReasoningEffort even where the caller states an effort. Else
	// the caller's is sent, and of the arms of a model only the first is asked.
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
	// Shadow calls the baseline, and on a sample of the steps runs the strategy's
	// choice as well, in the background and within a cap on its spending.
	Shadow Mode = "shadow"
)

// ShadowAlternative is the mode in the traces of steps that Shadow ran beside the
// baseline; those of the baseline say Shadow.
const ShadowAlternative = "shadow_alternative"

// StreamMode says when a caller that streams gets to see an answer.
type StreamMode string

// The streaming modes. In none of them is a token of a rejected draft shown.
const (
	// Buffer shows the chosen answer in one piece when it is chosen. The empty
	// StreamMode means Buffer.
	Buffer StreamMode = "buffer"
	// Commit streams an answer live when no further model can be worth running
	// after it, whatever it says, and a plain answer (no tools, no JSON, no text
	// agent) also where nothing but the default checks looks at it: what begins like
	// a refusal is held back. What was shown is the step's answer.
	Commit StreamMode = "commit"
	// Passthrough streams live when there is only one model to ask, and is
	// Buffer otherwise.
	Passthrough StreamMode = "passthrough"
)

// ShadowCapUsedUp ends the error in the trace of the first step whose shadow the cap left no room.
const ShadowCapUsedUp = "the cap of the shadow leaves no room for a call; further steps that have no shadow leave no trace of it"

// ShadowConfig bounds the shadow mode.
type ShadowConfig struct {
	// Sample is the share of steps that are shadowed, in [0, 1].
	Sample float64
	// CapUSD is the most that shadow calls may spend in the life of the Model;
	// it must be set.
	CapUSD float64
	// Concurrency is how many shadows run at once, 0 means 16; 64 times as many wait. A
	// step beyond that has no shadow, but a trace that says so.
	Concurrency int
	// Coin returns a number in [0, 1) that decides whether a step is shadowed; nil means random.
	Coin func() float64
}

// SessionConfig is about staying with the model of a conversation.
type SessionConfig struct {
	// Off forgets sessions: every step is decided as if it were the first.
	Off bool
	// IgnoreCache leaves prompt caches out of the predicted costs.
	IgnoreCache bool
	// CountDisputes counts the steps of each run whose answers differed, or of which one
	// was rejected, and gives later steps the feature disputed_steps; also where Off. A run
	// that nobody names is told by how its conversation begins.
	CountDisputes bool
	// DoubtUpTo, above 0, has steps counted in which two answers that call a tool differ, and gives
	// later ones the features that begin with [feature.Doubt], and [feature.HeldBack] where the steps
	// cost more than this share of what always asking the model Dearest would.
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
	// IdleTimeout is after how long a session is forgotten; 0 means 30 minutes.
	IdleTimeout time.Duration
	// MaxSessions bounds the memory; 0 means 65,536.
	MaxSessions int
}

// BreakerConfig is about deployments that keep failing.
type BreakerConfig struct {
	// Failures in a row open the circuit; 0 means 5, a negative number never.
	Failures int
	// Delay is how long an open circuit stays open; 0 means 30 s.
	Delay time.Duration
}

// Handler answers one step: the signature of [Model.GenerateContent].
type Handler func(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error)

// Route is what Config.Route says of one query. The zero value changes nothing.
type Route struct {
	// Strategy, when not nil, takes the place of the configured one, with Parallel, and
	// Done is told of the step; see [step.Request].
	Strategy cascade.Strategy
	Parallel bool
	Done     func(*sdk.Trace)
	// Match names what made the difference, for messages.
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

// Config configures New. Models is the only field that must be set.
type Config struct {
	Models []Candidate
	// Embedders turn texts into vectors, each by its name; see [Model.Embed]. They are an
	// [Embedder] and take no part in steps: of them only the Model, the LLM or the
	// Deployments, and the Timeout are read.
	Embedders []Candidate
	// Step is how steps are run. Its Candidates are made of Models. Nil Checks mean
	// [DefaultChecks], an empty slice none.
	Step step.Config
	// Lambda is the price of one US dollar in quality, where Step has no Strategy and
	// cascade_route decides: 10 means that a gain of 0.1 in quality is worth a cent.
	Lambda float64

	// Route, when not nil, may give a query a plan and candidates of its own. It
	// must be safe for concurrent use and cheap: it is called in every step.
	Route func(q *sdk.Query) Route
	// OptionalTools are types of tools that one API alone has, such as web_search: a model
	// behind another API is asked without them. A type stands for those too that begin
	// with it and "_". A model that lacks any other tool of the caller's is not asked.
	OptionalTools []string

	Breaker BreakerConfig
	Stream  StreamMode
	// CancelDrafts ends the call of an answer that a default check will reject, while it
	// comes, where another model will then be asked.
	CancelDrafts bool
	// MinTokenProbability has CancelDrafts reject also what its model is not sure of: an
	// answer whose tokens so far, 32 or more, are less probable in their geometric mean.
	// It needs log-probabilities. 0 rejects none.
	MinTokenProbability float64
	Session             SessionConfig
	// Circuits and Conversations are shared with other processes; nil is with none.
	Circuits      Circuits
	Conversations Conversations

	Mode Mode
	// Baseline names the model that the application would have called, for the
	// modes other than Enforce; empty means the last candidate.
	Baseline string
	Shadow   ShadowConfig
	// Holdout, when not nil, says in the mode Enforce which way the run of a query goes. Where
	// it says the baseline's, Baseline alone is asked. It returns nil for a query that has no part in
	// a holdout, and is not asked about a step that is pinned to a model, or that the baseline cannot do.
	Holdout func(q *sdk.Query) *sdk.Holdout

	// After, when not nil, is the Model that this one takes the place of. What it
	// remembers of conversations, and what its shadows have spent, holds here too;
	// both may work at the same time. A conversation's model counts as the same
	// when its name, provider and served name are.
	After *Model

	// Redact takes secrets out of the messages of errors; nil takes out what looks like one.
	Redact *redact.Redactor

	// Callbacks gets the LLM events of a step once, however many models it asks.
	Callbacks callbacks.Handler
	// Interceptors wrap the step, the first outermost.
	Interceptors []func(Handler) Handler
}
