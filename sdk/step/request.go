package step

import (
	"context"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// Call is one call that a Caller is to make. It is valid until the caller returns.
type Call struct {
	Query *sdk.Query
	// Model is who to ask and Index its place among the candidates.
	Model *sdk.Model
	Index int
	// Attempt counts the tries at this model in this step, from 1.
	Attempt int
	// MaxOutputTokens is the limit of each completion, which the caller sends in place of
	// the query's: so much is reserved. 0 is no limit.
	MaxOutputTokens int
	// Earlier are the answers that the step has so far, in order.
	Earlier []sdk.Attempt
	// Final is true, for a request with Commit, when this answer will be the
	// step's, so that it may be shown while it comes. A caller that has shown a
	// part and fails returns a CallError that is Fatal.
	Final bool
	// Unseen is true, for a request with Commit, when nothing but the engine's checks
	// will look at this answer: it will be the step's unless they find a fault. A
	// caller may show it while it comes, once it sees that they will find none; it
	// then sets Shown, and the step ends with that answer. With Final as well, it may
	// be shown at once.
	Unseen, Shown bool
	// Spare is true, for a request with Cancel, when another model will be asked if a
	// check finds a fault in this answer, whatever this call turns out to cost. A caller
	// that sees while the answer comes that a check will find one may end the call: it
	// sets Cut to the verdict of that check, and returns what had come.
	Spare bool
	Cut   *sdk.Verdict
}

// Caller makes calls. The answer is non-nil if and only if the error is nil. The
// engine fills in what the caller leaves open: Model, Latency, and CostUSD from
// Usage. Errors are retried as far as they say ([CallError]).
type Caller interface {
	Call(ctx context.Context, c *Call) (*sdk.Answer, error)
}

// CallerFunc is a function that is a Caller.
type CallerFunc func(ctx context.Context, c *Call) (*sdk.Answer, error)

// Call calls f.
func (f CallerFunc) Call(ctx context.Context, c *Call) (*sdk.Answer, error) { return f(ctx, c) }

// Request is one step to run.
type Request struct {
	Query  *sdk.Query
	Caller Caller
	// PromptBytes is the length of the prompt for the worst-case cost. 0 means four bytes for
	// each of the query's InputTokens, and that a call may be more than one completion: only
	// usage that no call has is refused then.
	PromptBytes int
	// Choices is how many completions one call asks for; 0 means 1.
	Choices int
	// PredictedTokens is what each completion may be billed for beyond its length: a
	// predicted output that it does not use.
	PredictedTokens int
	// DropsInput says that the provider may leave out some of the prompt, so that less of it
	// than there is may be billed.
	DropsInput bool
	// Images is how many pictures the prompt holds besides its bytes.
	Images int
	// ContextReads is how often within a call the provider may read as much as the model's
	// context besides the prompt: once for a file whose tokens only the server can count,
	// more often where it runs tools of its own.
	ContextReads int
	// HostedCalls is how often within a call the provider may run tools of its own, each for
	// the model's HostedCallUSD.
	HostedCalls int
	// Tariff, when not nil, returns what candidate i's prices are for this request: another
	// service tier has others.
	Tariff func(i int, p sdk.Price) sdk.Price
	// CostOffsets, when not nil, are added to the predicted costs, one for each
	// candidate: what switching models would cost, or what a prompt cache saves.
	CostOffsets []float64
	// Exclude returns why candidate i must not be asked, or ""; nil excludes none.
	Exclude func(i int) string
	// NotBefore returns when candidate i may be asked again after its server asked for
	// a pause, or the zero time; nil stands for all that may be asked now. One that has
	// to be waited for longer than Retry.SwitchAfter stands aside while another can be
	// asked.
	NotBefore func(i int) time.Time
	// Strategy, when not nil, takes the place of the engine's in this step.
	Strategy cascade.Strategy
	// Parallel takes the place of the engine's where Strategy does.
	Parallel bool
	// Done, when not nil, is told of the step in the trace that it leaves, unless Only
	// decided it. It must not keep the trace.
	Done func(*sdk.Trace)
	// Only, when not empty, names the model to call whatever the strategy says.
	// What it would have done first is in the trace. Nothing looks at the answer,
	// unless Observe says so.
	Only string
	// Holdout, when not nil, goes into the trace: which way the run goes.
	Holdout *sdk.Holdout
	// Observe has estimators and verifiers look at the answer of Only, as they would
	// if the strategy had chosen it, so that the trace tells all that a fit or a
	// forecast needs. They cannot fail the step, whatever their policy says.
	Observe bool
	// Commit makes calls Final whose answer no outcome can make the strategy
	// reject, the step then ends with that answer, and calls Unseen where nothing
	// but checks will look.
	Commit bool
	// Cancel makes calls Spare, whose caller may end them before the answer is whole. An
	// answer that was cut off is never the step's: if no other is better in the end, its
	// model is asked again.
	Cancel bool
	// NoRetry takes the place of Retry.MaxAttempts: a call is not tried again after a
	// pause, since who asks will ask again.
	NoRetry bool
	// Mode is recorded in the trace.
	Mode string
}

// Result is what a step came to.
type Result struct {
	// Answer is the answer chosen, nil when the step failed.
	Answer *sdk.Answer
	// Index is the candidate that gave it, or -1.
	Index int
	// Verdict is the verdict on it, nil when there is none.
	Verdict *sdk.Verdict
	// Quality is the post-hoc estimate of the answer.
	Quality sdk.Estimate
	// Attempts are all answers of the step, in the order in which they came.
	Attempts []sdk.Attempt
	Trace    *sdk.Trace
}
