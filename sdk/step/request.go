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
	// Model is the model to ask, and Index its index among the candidates.
	Model *sdk.Model
	Index int
	// Attempt counts the tries at this model in this step, from 1.
	Attempt int
	// MaxOutputTokens is the limit that the caller must send for each completion instead of the query's;
	// it is what was reserved. 0 is no limit.
	MaxOutputTokens int
	// Earlier are the answers that the step has so far, in order.
	Earlier []sdk.Attempt
	// Final is set, for a request with Commit, if this answer will be the step's, so that it may be shown
	// as it arrives. A caller that has shown a part and then fails returns a CallError that is Fatal.
	Final bool
	// Unseen is set, for a request with Commit, if only the engine's checks will judge this answer: it
	// will be the step's unless they find a fault. A caller may show it as it arrives, once it can tell
	// that they will find none; it then sets Shown, and the step ends with that answer. With Final as
	// well, it may be shown at once.
	Unseen, Shown bool
	// Spare is set, for a request with Cancel, if another model will be asked when a check finds a fault
	// in this answer, whatever this call costs. A caller that can tell from a partial answer that a check
	// will reject it may end the call: it sets Cut to the verdict of that check and returns the partial
	// answer.
	Spare bool
	Cut   *sdk.Verdict
}

// Caller makes calls. The answer is non-nil if and only if the error is nil. The engine fills in what
// the caller leaves empty: Model, Latency, and CostUSD from Usage. Errors are retried if they allow it
// ([CallError]).
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
	// PromptBytes is the length of the prompt in bytes for the worst-case cost. 0 means four bytes for
	// each of the query's InputTokens, and that a call may be more than one completion: then only
	// impossible usage is refused.
	PromptBytes int
	// Choices is how many completions one call asks for; 0 means 1.
	Choices int
	// PredictedTokens is what each completion may be billed in addition to its length: unused tokens of a
	// predicted output.
	PredictedTokens int
	// Images is the number of images in the prompt, in addition to its bytes.
	Images int
	// ContextReads is how often within a call the provider may read up to the model's whole context in
	// addition to the prompt: once for a file whose tokens only the server can count, more often if it
	// runs its own tools.
	ContextReads int
	// HostedCalls is how often within a call the provider may run its own tools, each for the model's
	// HostedCallUSD.
	HostedCalls int
	// Tariff, when not nil, returns candidate i's prices for this request, which depend on the service
	// tier.
	Tariff func(i int, p sdk.Price) sdk.Price
	// Surcharge, when not nil, returns by how much candidate i may cost more than its prices: 1 is nothing. It
	// is reserved; the answer's PriceFactor says whether it is paid.
	Surcharge func(i int) float64
	// CostOffsets, when not nil, are added to the predicted costs, one for each candidate, in US dollars:
	// the cost of switching models, minus the savings of a prompt cache.
	CostOffsets []float64
	// Exclude returns why candidate i must not be asked, or ""; nil excludes none.
	Exclude func(i int) string
	// NotBefore returns when candidate i may be asked again after its server asked for a pause, or the
	// zero time; nil means that all may be asked now. A candidate with a longer wait than
	// Retry.SwitchAfter is avoided while another can be asked.
	NotBefore func(i int) time.Time
	// Strategy, when not nil, replaces the engine's for this step.
	Strategy cascade.Strategy
	// Parallel replaces the engine's if Strategy does.
	Parallel bool
	// Done, when not nil, is called with the step's trace, unless Only decided the step. It must not keep
	// the trace.
	Done func(*sdk.Trace)
	// Only, when not empty, names the model to call whatever the strategy decides. The strategy's first
	// decision is in the trace. The answer is not judged unless Observe is set.
	Only string
	// Holdout, when not nil, is recorded in the trace.
	Holdout *sdk.Holdout
	// Paid, when not nil, is an answer that another step has paid for, with its verdict. It stands for a call
	// of its model and for the verifiers, costs nothing, and is no call in the trace.
	Paid *sdk.Attempt
	// Observe lets estimators and verifiers judge the answer of Only, as if the strategy had chosen it, so
	// that the trace has all that a fit or a forecast needs. They cannot fail the step, whatever their
	// policy says.
	Observe bool
	// DropsInput says that the provider may omit part of the prompt, so that less than the whole prompt
	// may be billed.
	DropsInput bool
	// Commit marks calls as Final if the strategy would accept their answer whatever it is, so that the
	// step ends with it, and as Unseen if only checks will judge it.
	Commit bool
	// Cancel marks calls as Spare, which the Caller may end before the answer is complete. A partial
	// answer is never the step's: if there is no better one in the end, its model is asked again.
	Cancel bool
	// NoRetry replaces Retry.MaxAttempts: a call is not retried after a pause, because the caller retries
	// the step itself.
	NoRetry bool
	// Mode is recorded in the trace.
	Mode string
}

// Result is the result of a step.
type Result struct {
	// Answer is the answer chosen, nil when the step failed.
	Answer *sdk.Answer
	// Index is the index of the candidate that gave the answer, or -1.
	Index int
	// Verdict is the verdict on it, nil if there is none.
	Verdict *sdk.Verdict
	// Quality is the post-hoc estimate of the answer.
	Quality sdk.Estimate
	// Attempts are all answers of the step, in the order in which they came.
	Attempts []sdk.Attempt
	Trace    *sdk.Trace
}
