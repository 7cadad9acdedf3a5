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
	// MaxOutputTokens is the limit that the caller must send for each completion instead of the query's,
	// since the reservation is based on it. 0 is no limit.
	MaxOutputTokens int
	// Earlier are the answers that the step has so far, in order.
	Earlier []sdk.Attempt
	// Final is set, for a request with Commit, if this answer will be the step's, so that it may be shown
	// as it arrives. A caller that fails after it has shown a part returns a CallError that is Fatal.
	Final bool
	// Unseen is set, for a request with Commit, if only the engine's checks will judge this answer: it
	// will be the step's unless they reject it. A caller may show it as it arrives once it can tell that
	// they will not; it then sets Shown, and the step ends with that answer. If Final is set as well, it
	// may be shown at once.
	Unseen, Shown bool
	// Spare is set, for a request with Cancel, if another model will be called should a check reject this
	// answer, whatever this call costs. A caller that can tell from a partial answer that a check will
	// reject it may end the call: it sets Cut to the verdict of that check and returns the partial answer.
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
	// PromptBytes is the length of the prompt in bytes, for the worst-case cost. 0 means four bytes for
	// each of the query's InputTokens, and that a call can be several completions, so that reported usage
	// is hardly bounded.
	PromptBytes int
	// Choices is how many completions one call asks for; 0 means 1.
	Choices int
	// PredictedTokens is how many tokens each completion can be billed in addition to its length: the
	// unused tokens of a predicted output.
	PredictedTokens int
	// Images is the number of images in the prompt, in addition to its bytes.
	Images int
	// ContextReads is how often within a call the provider can read up to the model's whole context in
	// addition to the prompt: once for a file whose tokens only the server can count, more often if it
	// runs its own tools.
	ContextReads int
	// HostedCalls is how often within a call the provider can run its own tools, at the model's
	// HostedCallUSD each.
	HostedCalls int
	// Tariff, when not nil, returns candidate i's prices for this request, which depend on the service
	// tier.
	Tariff func(i int, p sdk.Price) sdk.Price
	// Surcharge, when not nil, returns the factor by which candidate i can exceed its prices; 1 means not
	// at all. It is included in the reservation; the answer's PriceFactor says whether it was charged.
	Surcharge func(i int) float64
	// CostOffsets, when not nil, are added to the predicted costs, one for each candidate, in US dollars:
	// the cost of switching models, minus the savings of a prompt cache.
	CostOffsets []float64
	// Exclude returns why candidate i must not be called, or ""; nil excludes none.
	Exclude func(i int) string
	// NotBefore returns when candidate i can be called again after its server asked for a pause, or the
	// zero time; nil means that all can be called now. A candidate with a longer wait than
	// Retry.SwitchAfter is avoided while another can be called.
	NotBefore func(i int) time.Time
	// Strategy, when not nil, replaces the engine's for this step.
	Strategy cascade.Strategy
	// Parallel replaces Config.Parallel if Strategy is set.
	Parallel bool
	// Done, when not nil, is called with the step's trace unless Only decided the step. It must not retain
	// the trace.
	Done func(*sdk.Trace)
	// Only, when not empty, names the model to call whatever the strategy decides. The strategy's first
	// decision is in the trace. The answer is not judged unless Observe is set.
	Only string
	// Holdout, when not nil, is recorded in the trace. It says why Only is set: if that model gives no
	// answer and another can be called, the strategy decides the step.
	Holdout *sdk.Holdout
	// Paid, when not nil, is an answer that another step has paid for, with its verdict. It replaces a call
	// of its model and the verifiers' verdict, costs nothing, and is not among the trace's calls.
	Paid *sdk.Attempt
	// Observe lets estimators and verifiers judge the answer of Only, as if the strategy had chosen it, so
	// that the trace has all that a fit or a forecast needs. They cannot fail the step, whatever their
	// policy says.
	Observe bool
	// DropsInput says that the provider can omit part of the prompt, and then bills less than all of it.
	DropsInput bool
	// Commit marks calls as Final if the strategy would accept their answer whatever it is, so that the
	// step ends with it, and as Unseen if only checks will judge it.
	Commit bool
	// Cancel marks calls as Spare, which the Caller may end before the answer is complete. A partial
	// answer is never returned: if there is no better one in the end, its model is called again.
	Cancel bool
	// NoRetry overrides Retry.MaxAttempts: a call is not retried after a pause, because the caller retries
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
	// Attempts are all answers of the step, in order.
	Attempts []sdk.Attempt
	// IsDecided reports whether the strategy decided the step, and not Request.Only.
	IsDecided bool
	Trace     *sdk.Trace
}
