package step

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk"
)

// demand is the most that one call can use. It is reserved before the call, and reported usage beyond
// it is treated as impossible.
type demand struct {
	// limit is the completion limit that the caller sends; 0 is no limit.
	limit int
	// input and output are upper bounds in tokens.
	input, output float64
	// price is the request's price, and usd the cost of the demand at that price.
	price sdk.Price
	usd   float64
	// hostedCalls is how often the provider's own tools can run, and hosted the cost of that in USD.
	hostedCalls int
	hosted      float64
	// prompt is the conversation if all of it is billed, promptTokens its estimated length.
	prompt       []sdk.Message
	promptTokens int
}

// Upper bounds on tokens that the length of a prompt does not show.
const (
	// templateTokens allows for a server that adds instructions of its own; the chat templates of
	// known models add at most 100.
	templateTokens = 2000
	// contextMargin is the part of the context that prompt and answer leave free.
	contextMargin = 256
	// toolTokens bounds the instructions that providers add for tools: Anthropic documents up to 806.
	toolTokens = 1000
	// An image costs up to imageTokens or imageUSD, whichever is more: models with cheap tokens count
	// more of them for an image.
	imageTokens, imageUSD = 10_000, 0.01
	// unknownContext is assumed for a model whose context length is not configured.
	unknownContext = 200_000
	// unknownTokens bounds the usage of a call whose prompt and context are both unknown.
	unknownTokens = 20_000_000
)

// demandOf returns the demand of one call of candidate i.
func (r *run) demandOf(i int) demand {
	d := r.req.demandOf(&r.e.models[i], *r.priceOf(i), r.hasCap)
	if r.req.Surcharge != nil {
		d.usd *= r.req.Surcharge(i)
	}
	return d
}

// demandOf returns the demand of one call of m at a price.
func (q *Request) demandOf(m *sdk.Model, price sdk.Price, isCapped bool) demand {
	d := demand{limit: q.outputLimit(m, isCapped), input: q.inputDemand(m), price: price, promptTokens: q.Query.InputTokens}
	if d.promptTokens == 0 {
		d.promptTokens = (q.PromptBytes + bytesPerToken - 1) / bytesPerToken
	}
	if !q.DropsInput && price.Input > 0 {
		d.prompt = q.Query.Messages
	}
	choices, unlimited := float64(max(q.Choices, 1)), cmp.Or(float64(m.ContextTokens), unknownTokens)
	d.output = choices * unlimited
	if d.limit > 0 {
		d.output = choices * float64(d.limit+q.PredictedTokens)
	}
	d.hostedCalls = max(q.HostedCalls, 0)
	d.hosted = float64(d.hostedCalls) * max(d.price.HostedCallUSD, d.price.SearchUSD)
	d.usd = worstCost(d.price, d.input, d.output) + d.hosted
	switch {
	case q.PromptBytes == 0: // any number of completions, which their caller accounts for
		d.input = max(float64(m.ContextTokens), unknownTokens)
		d.output = d.input
	case !isCapped: // nothing is reserved, and some servers bill thinking and images beyond any limit that is known here
		d.output = max(d.output, choices*unlimited)
		if q.Images > 0 {
			d.input = max(d.input, float64(m.ContextTokens))
		}
	}
	return d
}

// inputDemand returns the most input tokens that a call of m can cause.
func (q *Request) inputDemand(m *sdk.Model) float64 {
	if q.PromptBytes == 0 {
		return 4 * float64(q.Query.InputTokens)
	}
	input := float64(q.PromptBytes)
	if len(q.Query.Messages) > 0 {
		input = promptDemand(q.PromptBytes, len(q.Query.Tools) > 0)
	}
	context := cmp.Or(float64(m.ContextTokens), unknownContext)
	image := min(max(imageTokens, imageUSD*1e6/m.Price.Input), context) // without a price of input, the context
	return input + min(float64(q.Images)*image, context) + float64(q.ContextReads)*context
}

// promptDemand returns an upper bound on the tokens of a conversation: one per byte. That is three times
// what tokenizers produce, which leaves room for what a server adds, unless the prompt is short: then
// the allowances for that are counted separately.
func promptDemand(promptBytes int, hasTools bool) float64 {
	added := float64(templateTokens)
	if hasTools {
		added += toolTokens
	}
	return max(float64(promptBytes), float64(promptBytes)/3+added)
}

// outputLimit returns the completion limit to send to m: the least of the caller's limit, the model's,
// and what the prompt leaves of the model's context. Without a cap it is 0 if the caller sets no limit,
// since providers' rate limits count the requested maximum.
func (q *Request) outputLimit(m *sdk.Model, isCapped bool) int {
	limit := max(q.Query.MaxOutputTokens, 0)
	if limit == 0 && !isCapped {
		return 0
	}
	if most := m.MaxOutputTokens; most > 0 {
		limit = min(most, cmp.Or(limit, most))
	}
	if m.ContextTokens > 0 && q.PromptBytes > 0 {
		const perToken = 3 // bytes, of code; plain English has more
		limit = min(limit, max(m.ContextTokens-q.PromptBytes/perToken-contextMargin, 1+limit/8))
	}
	return limit
}

const unboundedReason = "has no output limit, which a cap needs: set max_tokens in the call or max_output_tokens in the policy"

// isUnbounded reports whether neither m nor the caller's limit bounds what an answer costs.
func isUnbounded(m *sdk.Model, limit int) bool {
	return m.Price.Output > 0 && m.MaxOutputTokens <= 0 && limit <= 0
}

// HasCap reports whether calls for the query are made under a reservation.
func (e *Engine) HasCap(ctx context.Context, q *sdk.Query) bool {
	return e.c.StepCapUSD > 0 || e.c.Ledger != nil && (e.caps == nil || e.caps.HasCapOn(ctx, q))
}

// refute returns why a call with demand d cannot have used u, or "". The answer is nil if the call did
// not complete.
func (d *demand) refute(u sdk.Usage, answer *sdk.Answer) string {
	if min(u.InputTokens, u.CachedInputTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens, u.HostedCalls, u.Searches) < 0 {
		return "the reported usage has a count below zero or a broken one"
	}
	input := float64(u.InputTokens) + float64(u.CachedInputTokens) + float64(u.CacheWriteTokens)
	output := float64(u.OutputTokens) + float64(u.ReasoningTokens)
	switch {
	case input > d.input:
		return fmt.Sprintf("%.0f input tokens are reported for a request that can cause %.0f", input, math.Floor(d.input))
	case output > d.output:
		return fmt.Sprintf("%.0f output tokens are reported of a request for %.0f", output, d.output)
	case u.HostedCalls > d.hostedCalls:
		return fmt.Sprintf("%d uses of the provider's tools are reported of a request that can cause %d", u.HostedCalls, d.hostedCalls)
	case answer != nil && (u.Estimated || u == (sdk.Usage{HostedCalls: u.HostedCalls, Searches: u.Searches})):
		return "no usage is reported"
	case answer != nil && output == 0 && answerTokens(answer) > 0:
		return "no output tokens are reported beside an answer"
	}
	return ""
}

// bookAnswer checks the usage of an answer, complete or cut off, and sets its cost unless the caller has
// set one. It returns why the usage is doubtful, or "". Doubtful usage is replaced by an estimate, and
// under a cap the answer then costs everything that was reserved.
func (d *demand) bookAnswer(a *sdk.Answer, isWhole, isCapped bool) (doubt string) {
	ended := a
	if !isWhole {
		ended = nil
	}
	if doubt = d.refute(a.Usage, ended); doubt != "" {
		a.Usage = d.estimateUsage(a)
	} else if isWhole {
		doubt = d.raise(&a.Usage, a)
	}
	factor := cmp.Or(a.PriceFactor, 1)
	if doubt != "" { // a discount rests on the same doubtful report
		factor = max(factor, 1)
	}
	switch a.CostUSD = plausibleUSD(a.CostUSD); {
	case a.CostUSD > 0:
	case doubt != "" && isCapped:
		a.CostUSD = d.usd
	default:
		a.CostUSD = sdk.RoundUSD(d.price.CostUSD(a.Usage) * factor)
	}
	return doubt
}

// estimateUsage estimates a call's usage from the lengths of prompt and answer. Hosted calls are capped
// at what d allows; if only their count was impossible, the reported tokens are kept.
func (d *demand) estimateUsage(a *sdk.Answer) sdk.Usage {
	u := a.Usage
	if u.HostedCalls = min(u.HostedCalls, d.hostedCalls); d.refute(u, a) == "" {
		u.Estimated = true
		return u
	}
	return sdk.Usage{InputTokens: d.promptTokens, OutputTokens: answerTokens(a), HostedCalls: max(u.HostedCalls, 0), Searches: max(u.Searches, 0), Estimated: true}
}

// bytesPerToken is about the average of English prose, for estimates.
const bytesPerToken = 4

// answerTokens estimates the tokens of everything the model wrote, reasoning included.
func answerTokens(a *sdk.Answer) int {
	n := len(a.Text) + len(a.Reasoning)
	for _, t := range a.ToolCalls {
		n += len(t.Name) + len(t.Arguments)
	}
	for _, text := range a.Choices {
		n += len(text)
	}
	return (n + bytesPerToken - 1) / bytesPerToken
}

// WorstCostUSD returns the most, in US dollars, that one completion of m can cost for a conversation
// with tools: the prompt at the most expensive input price, with one token per byte of promptBytes
// plus what servers add, and the longest answer. It is infinite where neither m nor maxOutputTokens
// bounds an answer that has a price.
func WorstCostUSD(m *sdk.Model, promptBytes, maxOutputTokens int) float64 {
	if isUnbounded(m, maxOutputTokens) {
		return math.Inf(1)
	}
	output := m.MaxOutputTokens
	if maxOutputTokens > 0 {
		output = min(maxOutputTokens, cmp.Or(output, maxOutputTokens))
	}
	return worstCost(m.Price, promptDemand(promptBytes, true), float64(output))
}

func worstCost(p sdk.Price, input, output float64) float64 {
	in, out := input*max(p.Input, p.CachedInput, p.CacheWrite), output*max(p.Output, p.Reasoning)
	if p.Long.Tokens > 0 && input > float64(p.Long.Tokens) {
		in, out = in*max(p.Long.InputFactor, 1), out*max(p.Long.OutputFactor, 1)
	}
	return (in+out)/1e6 + p.RequestUSD
}

// plausibleUSD returns an amount that other code reports as spent, or 0 if it is not plausible.
func plausibleUSD(usd float64) float64 {
	const most = 1e6
	if usd <= most {
		return max(usd, 0)
	}
	return 0 // NaN as well
}
