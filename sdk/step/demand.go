package step

import (
	"cmp"
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk"
)

// demand is the most that one call can use: exactly that is reserved before the call, and
// reported usage beyond it is not believed.
type demand struct {
	// limit is the longest completion, which the caller sends; 0 is no limit.
	limit int
	// input and output are the greatest numbers of tokens.
	input, output float64
	// price is that of the request, usd what the demand costs by it.
	price sdk.Price
	usd   float64
	// hostedCalls is how often the provider's own tools can run, and hosted what that costs.
	hostedCalls int
	hosted      float64
}

// Tokens that servers add to a prompt.
const (
	// templateTokens is what a server may add that has instructions of its own; the chat
	// templates of known models add at most 100.
	templateTokens = 2000
	// contextMargin is kept free of the context beside prompt and answer.
	contextMargin = 256
	// toolTokens is more than the instructions that come with tools: Anthropic documents up
	// to 806.
	toolTokens = 1000
	// imageTokens and imageUSD bound a picture, which costs up to the greater of the two:
	// models whose tokens are cheap count more of them.
	imageTokens, imageUSD = 10_000, 0.01
	// unknownContext stands for the context of a model that states none.
	unknownContext = 200_000
	// unknownTokens bounds the usage of a call of which neither prompt nor context is known.
	unknownTokens = 20_000_000
)

// demandOf returns what one call of candidate i can use.
func (r *run) demandOf(i int) demand {
	m := &r.e.models[i]
	d := demand{limit: r.outputLimit(i), input: r.inputDemand(m), price: *r.priceOf(i)}
	completion := float64(d.limit + r.req.PredictedTokens)
	if d.limit == 0 {
		completion = cmp.Or(float64(m.ContextTokens), unknownTokens)
	}
	d.output = float64(max(r.req.Choices, 1)) * completion
	d.hostedCalls = max(r.req.HostedCalls, 0)
	d.hosted = float64(d.hostedCalls) * d.price.HostedCallUSD
	d.usd = worstCost(d.price, d.input, d.output) + d.hosted
	switch {
	case r.req.PromptBytes == 0: // any number of completions, which their caller accounts for
		d.input = max(float64(m.ContextTokens), unknownTokens)
		d.output = d.input
	case !r.e.HasCap() && r.req.Images > 0:
		d.input = max(d.input, float64(m.ContextTokens))
	}
	return d
}

// inputDemand returns the most input tokens that a call of m can cause.
func (r *run) inputDemand(m *sdk.Model) float64 {
	if r.req.PromptBytes == 0 {
		return 4 * float64(r.q.InputTokens)
	}
	input := float64(r.req.PromptBytes)
	if len(r.q.Messages) > 0 {
		input = promptDemand(r.req.PromptBytes, len(r.q.Tools) > 0)
	}
	context := cmp.Or(float64(m.ContextTokens), unknownContext)
	return input + min(float64(r.req.Images)*imageDemand(m), context) + float64(r.req.ContextReads)*context
}

func imageDemand(m *sdk.Model) float64 { return max(imageTokens, imageUSD*1e6/m.Price.Input) }

// promptDemand returns the most tokens that a conversation can have: one for each byte,
// three times as many as tokenizers make, which leaves room for what a server adds except
// where the prompt is short.
func promptDemand(promptBytes int, hasTools bool) float64 {
	added := float64(templateTokens)
	if hasTools {
		added += toolTokens
	}
	return max(float64(promptBytes), float64(promptBytes)/3+added)
}

// outputLimit returns the longest completion to ask candidate i for: the least of what the
// caller, the model and what the prompt leaves of the model's context allow. Without a cap a
// caller who sets no limit gets none, since rate limits count what is asked for.
func (r *run) outputLimit(i int) int {
	m := &r.e.models[i]
	limit := max(r.q.MaxOutputTokens, 0)
	if limit == 0 && !r.e.HasCap() {
		return 0
	}
	if most := m.MaxOutputTokens; most > 0 && (limit == 0 || limit > most) {
		limit = most
	}
	if m.ContextTokens > 0 && r.req.PromptBytes > 0 && limit > 0 {
		const perToken = 3 // bytes, of code; plain English has more
		limit = min(limit, max(m.ContextTokens-r.req.PromptBytes/perToken-contextMargin, 1+limit/8))
	}
	return limit
}

// unboundedReason is why a model without a worst case is not asked.
const unboundedReason = "has no longest answer, which a cap needs: set max_tokens in the call or max_output_tokens in the policy"

// isUnbounded reports whether neither m nor the caller's limit bounds what an answer costs.
func isUnbounded(m *sdk.Model, limit int) bool {
	return m.Price.Output > 0 && m.MaxOutputTokens <= 0 && limit <= 0
}

// HasCap reports whether calls are made under a reservation.
func (e *Engine) HasCap() bool { return e.c.StepCapUSD > 0 || e.c.Ledger != nil }

// refute returns why a call that demands d cannot have used u, or "". The answer is nil where
// the call did not end.
func (d *demand) refute(u sdk.Usage, answer *sdk.Answer) string {
	if min(u.InputTokens, u.CachedInputTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens, u.HostedCalls) < 0 {
		return "the reported usage has a count below zero or a broken one"
	}
	input := float64(u.InputTokens) + float64(u.CachedInputTokens) + float64(u.CacheWriteTokens)
	output := float64(u.OutputTokens) + float64(u.ReasoningTokens)
	switch {
	case input > d.input:
		return fmt.Sprintf("%.0f input tokens are reported of a request that can cause %.0f", input, math.Floor(d.input))
	case output > d.output:
		return fmt.Sprintf("%.0f output tokens are reported of a request for %.0f", output, d.output)
	case u.HostedCalls > d.hostedCalls:
		return fmt.Sprintf("%d uses of the provider's tools are reported of a request that can cause %d", u.HostedCalls, d.hostedCalls)
	case answer != nil && (u.Estimated || u == (sdk.Usage{HostedCalls: u.HostedCalls})):
		return "no usage is reported"
	case answer != nil && output == 0 && answerBytes(answer) > 0:
		return "no output tokens are reported beside an answer"
	}
	return ""
}

// estimateUsage estimates a call's usage by the lengths of prompt and answer. Hosted calls are cut to
// what most allows; if they alone were impossible, the reported tokens are kept.
func (r *run) estimateUsage(a *sdk.Answer, most *demand) sdk.Usage {
	u := a.Usage
	if u.HostedCalls = min(u.HostedCalls, most.hostedCalls); most.refute(u, a) == "" {
		u.Estimated = true
		return u
	}
	const perToken = 4 // bytes
	in := r.q.InputTokens
	if in == 0 {
		in = (r.req.PromptBytes + perToken - 1) / perToken
	}
	return sdk.Usage{InputTokens: in, OutputTokens: (answerBytes(a) + perToken - 1) / perToken, HostedCalls: min(max(a.Usage.HostedCalls, 0), most.hostedCalls), Estimated: true}
}

// answerBytes is the length of all that a model wrote.
func answerBytes(a *sdk.Answer) int {
	n := len(a.Text) + len(a.Reasoning)
	for _, t := range a.ToolCalls {
		n += len(t.Name) + len(t.Arguments)
	}
	return n
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
	if maxOutputTokens > 0 && (output == 0 || maxOutputTokens < output) {
		output = maxOutputTokens
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

// plausibleUSD returns an amount that others report as spent, or 0 if it is implausible.
func plausibleUSD(usd float64) float64 {
	const most = 1e6
	if usd > 0 && usd <= most {
		return usd
	}
	return 0
}
