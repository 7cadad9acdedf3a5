package sdk

import (
	"cmp"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// StopReason says why a step ended.
type StopReason string

// The reasons for which a step ends.
const (
	// StopNotWorth: no further model is worth its price.
	StopNotWorth StopReason = "not_worth_more"
	// StopExhausted: every feasible model has run.
	StopExhausted StopReason = "all_models_run"
	// StopDepth: the strategy's limit on models per step is reached.
	StopDepth StopReason = "max_depth"
	// StopBudget: a hard cap leaves no room for another call.
	StopBudget StopReason = "budget_cap"
	// StopDeadline: the caller's context ended.
	StopDeadline StopReason = "context_done"
	// StopError: nothing could be called.
	StopError StopReason = "error"
	// StopRefused: models refused the request itself, and all answers were rejected. The step fails.
	StopRefused StopReason = "request_refused"
)

// StopReasonRefused is the stop reason of a call whose server refused the request itself: a fault in
// the request, not an answer of the model.
const StopReasonRefused = "request_refused"

// StopReasonCancelled is the stop reason of an answer that was cut off in mid-stream because a check
// would have rejected it; its verdict names the check, and its usage counts what had arrived. It is also
// the stop reason of a call that the step cancelled because it no longer needed the answer: see
// [Call.Failed].
const StopReasonCancelled = "cancelled"

// ModeEmbeddings is the mode in the trace of a call for embeddings, which has no decisions and no
// answer to judge.
const ModeEmbeddings = "embeddings"

// ModeVerdict is the mode of a trace that reports how a run ended. It has the run's name and the
// verdict, and no calls.
const ModeVerdict = "verdict"

// The modes of agents whose attempt at a task is judged as a whole, as in `stepfall swe`.
const (
	// ModeAttempt is the mode of an attempt by a model that a strategy chose for the whole task. Its
	// call is the attempt, whose cost is the sum of its [ModeAttemptCall] traces.
	ModeAttempt = "attempt"
	// ModeAttemptCall is the mode of a call within an attempt, for which the strategy had no choice.
	ModeAttemptCall = "attempt_call"
	// ModeRoutedAttempt is the mode of an attempt whose calls are themselves steps of the same run, each
	// decided like any other. Its one call is the attempt, and its verdict is one on the run.
	ModeRoutedAttempt = "step"
)

// IsStep reports whether a trace of that mode records a step, which all but [ModeVerdict] do. Use it
// wherever steps are counted, logged or listed.
func IsStep(mode string) bool { return mode != ModeVerdict }

// HasChoice reports whether a trace of that mode records a step in which a strategy could choose between
// models. Use it wherever decisions are compared, replayed or learned from.
func HasChoice(mode string) bool {
	switch mode {
	case ModeVerdict, ModeEmbeddings, ModeAttemptCall, ModeRoutedAttempt:
		return false
	}
	return true
}

// Trace is the full record of one step. It marshals to stable JSON; fields are
// added, never renamed.
type Trace struct {
	ID      string    `json:"id"`
	Start   time.Time `json:"start"`
	QueryID string    `json:"query_id,omitempty"`
	Group   string    `json:"group,omitempty"`
	Run     string    `json:"run,omitempty"`
	Session string    `json:"session,omitempty"`
	Tenant  string    `json:"tenant,omitempty"`
	// Conversation is the query's Conversation, set if neither Run nor Session is.
	Conversation string `json:"conversation,omitempty"`

	Policy   string `json:"policy,omitempty"`
	Profile  string `json:"profile,omitempty"`
	Mode     string `json:"mode,omitempty"`
	Strategy string `json:"strategy"`
	// Setting holds the strategy's parameters.
	Setting Setting `json:"setting,omitzero"`

	// Prompt is the last user text, empty when the policy redacts prompts.
	Prompt      string             `json:"prompt,omitempty"`
	InputTokens int                `json:"input_tokens,omitempty"`
	Features    map[string]float64 `json:"features,omitempty"`
	// Labels are the query's labels, and Tools the names of the tools that it offers: the match blocks of
	// a policy select by them.
	Labels map[string]string `json:"labels,omitempty"`
	Tools  []string          `json:"tools,omitempty"`

	// Holdout says whether the run uses the baseline, if the policy has a holdout.
	Holdout *Holdout `json:"holdout,omitempty"`
	// Verdict is the verdict on the run, in a trace of [ModeVerdict].
	Verdict *Verdict `json:"verdict,omitempty"`

	// Infeasible lists the models that were excluded before the first decision.
	Infeasible []Infeasible `json:"infeasible,omitempty"`
	Decisions  []Decision   `json:"decisions"`
	Calls      []Call       `json:"calls"`

	// Chosen is the model whose answer was returned; empty when none was.
	Chosen string     `json:"chosen,omitempty"`
	Stop   StopReason `json:"stop"`
	// Error is why no answer was returned.
	Error string `json:"error,omitempty"`

	Usage Usage `json:"usage"`
	// CostUSD is the total cost in US dollars: model calls, including failed ones, and verification.
	CostUSD  float64       `json:"cost_usd"`
	Duration time.Duration `json:"duration_ns"`
	// Overhead is Duration minus the time spent waiting for models, estimators and verifiers.
	Overhead time.Duration `json:"overhead_ns"`
}

// Setting holds the parameters of a strategy. Together with the beliefs of a [Decision] it is enough to
// reproduce the decision.
type Setting struct {
	cascade.Setting

	// Coin is the number in [0, 1) that was drawn for ties.
	Coin float64 `json:"coin,omitempty"`
}

// Holdout says whether a run uses the baseline or is decided by the policy.
type Holdout struct {
	// Share is the share of runs that use the baseline: the propensity.
	Share float64 `json:"share"`
	// Baseline is true if this run uses the baseline.
	Baseline bool `json:"baseline"`
	// Fallback is true if it does so because measurements show that the policy does harm, not by chance.
	Fallback bool `json:"fallback,omitempty"`
	// BaselineFailed is true if the baseline gave no answer, so that the policy decided the step after all.
	BaselineFailed bool `json:"baseline_failed,omitempty"`
}

// UsesBaseline reports whether the step is the baseline's; a nil Holdout has none.
func (h *Holdout) UsesBaseline() bool { return h != nil && h.Baseline && !h.BaselineFailed }

// Infeasible is a model that could not serve this query, and why.
type Infeasible struct {
	Model  string `json:"model"`
	Reason string `json:"reason"`
}

// Decision is one turn of the loop: the beliefs and the decision based on them.
type Decision struct {
	// Run is the model to run next; empty means stop.
	Run string `json:"run,omitempty"`
	// Look names a model that has run if a look at its answer was bought instead of running a model or
	// stopping.
	Look string `json:"look,omitempty"`
	// Answer is the model whose answer is best so far, if any.
	Answer string  `json:"answer,omitempty"`
	Lambda float64 `json:"lambda"`
	// Models are the beliefs that the decision is based on, one for each feasible model.
	Models []Belief `json:"models"`
	// Alternatives are the ranked alternatives if explanations are on.
	Alternatives []Alternative `json:"alternatives,omitempty"`
	// Approximate is true if the search hit its node limit.
	Approximate bool `json:"approximate,omitempty"`
	// Note records incidents that the numbers do not show, such as "estimator logprob unavailable, abstained".
	Note string `json:"note,omitempty"`
}

// Belief returns the belief about a model, or nil.
func (d *Decision) Belief(model string) *Belief {
	for i := range d.Models {
		if d.Models[i].Model == model {
			return &d.Models[i]
		}
	}
	return nil
}

// Belief is the strategy's input about one model at one decision.
type Belief struct {
	Model   string   `json:"model"`
	Quality Estimate `json:"quality"`
	CostUSD float64  `json:"cost_usd"`
	// Price is the price of the model's tokens in this step; only the first decision has it.
	Price *Price `json:"price,omitempty"`
	// OutputTokens is the expected length of the model's answer; only the first decision has it.
	OutputTokens float64 `json:"output_tokens,omitempty"`
	Ran          bool    `json:"ran,omitempty"`
	// Judged is set for a model that has not run if a verifier will judge its answer: then Quality.Mean is
	// the probability that the answer is right.
	Judged bool `json:"judged,omitempty"`
	// Judge holds that verifier's error rates; they are 0 if its verdicts are final.
	Judge cascade.Rates `json:"judge,omitzero"`
	// Shared is the share of its verdict's information that also applies to the best answer so far.
	Shared float64 `json:"shared,omitempty"`
	// Look is the look at its answer that can be bought; nil means none.
	Look *Look `json:"look,omitempty"`
}

// Alternative is a supermodel that was considered, or a model with its reservation value.
type Alternative struct {
	Models      []string `json:"models"`
	ExpectedMax float64  `json:"expected_max,omitempty"`
	CostUSD     float64  `json:"cost_usd"`
	// Tau is ExpectedMax less lambda times the cost.
	Tau float64 `json:"tau,omitempty"`
	// Reservation is the index strategy's reservation value.
	Reservation float64 `json:"reservation,omitempty"`
}

// Call is one call of one model within a step, answered or failed.
type Call struct {
	Model      string `json:"model"`
	Deployment string `json:"deployment,omitempty"`
	// Provider and Served name the provider and the model that it served.
	Provider string `json:"provider,omitempty"`
	Served   string `json:"served,omitempty"`
	// Attempt counts the tries at the same model in this step, from 1.
	Attempt int       `json:"attempt"`
	Start   time.Time `json:"start,omitzero"`
	Usage   Usage     `json:"usage"`
	// UsageDoubt is why the usage of a completed call is estimated: the server reported none, or an
	// impossible one. Under a cap the call is charged what was reserved for it.
	UsageDoubt string        `json:"usage_doubt,omitempty"`
	CostUSD    float64       `json:"cost_usd"`
	Latency    time.Duration `json:"latency_ns"`
	StopReason string        `json:"stop_reason,omitempty"`
	// ShownTokens is the approximate length of the visible answer, in the model's tokens, if far more is
	// billed as output because the provider counts hidden reasoning among OutputTokens. Later prompts
	// contain only the visible part. 0 means all of Usage.OutputTokens.
	ShownTokens int `json:"shown_tokens,omitempty"`
	// NotSent lists options that the caller requested but the model's API cannot express.
	NotSent []string `json:"not_sent,omitempty"`
	// Answer is the text, empty when the policy redacts answers.
	Answer string `json:"answer,omitempty"`
	// Tools are the names of the tools that the answer calls.
	Tools []string `json:"tools,omitempty"`
	// Key is equal for equivalent answers to one query: a hash of the tool calls or the final answer in
	// canonical form. It is recorded even if answers are redacted.
	Key     string             `json:"key,omitempty"`
	Signals map[string]float64 `json:"signals,omitempty"`
	// Quality is the post-hoc estimate.
	Quality Estimate `json:"quality"`
	Verdict *Verdict `json:"verdict,omitempty"`
	// Propensity is the probability with which the model was called, given the answers before: 1 if the
	// strategy chose it, less if it was drawn at random for the record. 0 means that the step involved no
	// random choice.
	Propensity float64 `json:"propensity,omitempty"`
	// Error is why the call gave no answer.
	Error string `json:"error,omitempty"`
}

// maxCostUSD is more than any step costs.
const maxCostUSD = 1e6

// HasCosts reports whether the costs in t are plausible for a step. A damaged or foreign trace file can
// contain any number, which would dominate every sum.
func (t *Trace) HasCosts() bool {
	isCost := func(usd float64) bool { return usd >= 0 && usd <= maxCostUSD }
	for i := range t.Calls {
		c := &t.Calls[i]
		if !isCost(c.CostUSD) || c.Verdict != nil && !isCost(c.Verdict.CostUSD) {
			return false
		}
	}
	return isCost(t.CostUSD)
}

// Belief returns the belief about a model at the step's first decision, or nil if it is not recorded.
func (t *Trace) Belief(model string) *Belief {
	if len(t.Decisions) == 0 {
		return nil
	}
	return t.Decisions[0].Belief(model)
}

// IsCacheable reports whether a provider with these prices caches the step's prompt: one that charges for writing to its
// cache caches only what is marked, which prompts without tools are not, unless the client does.
func (t *Trace) IsCacheable(p *Price) bool {
	return len(t.Tools) > 0 || !p.needsMarks() || t.HasMarks()
}

// HasMarks reports whether a provider cached a part of a prompt without tools that only the client can have marked.
func (t *Trace) HasMarks() bool {
	return len(t.Tools) == 0 && slices.ContainsFunc(t.Calls, func(c Call) bool {
		b := t.Belief(c.Model)
		return b != nil && b.Price.needsMarks() && c.Usage.CachedInputTokens+c.Usage.CacheWriteTokens > 0
	})
}

func (p *Price) needsMarks() bool { return p != nil && p.CacheWrite > p.Input }

// CallUSD returns the cost of one of the step's calls at another price of its model; see [Price.ConvertUSD].
func (t *Trace) CallUSD(c *Call, at Price) float64 {
	if b := t.Belief(c.Model); b != nil {
		return at.ConvertUSD(c.CostUSD, c.Usage, b.Price)
	}
	return c.CostUSD
}

// VerdictsUSD returns the part of CostUSD spent on verdicts and signals.
func (t *Trace) VerdictsUSD() float64 {
	usd := t.CostUSD
	for i := range t.Calls {
		usd -= t.Calls[i].CostUSD
	}
	if usd < 1e-9*t.CostUSD {
		return 0 // rounding
	}
	return usd
}

// ForSums returns t as it counts in sums over traces. This is t itself, except for an attempt: since its
// calls have traces of their own, it is a copy without their cost and usage.
func (t *Trace) ForSums() *Trace {
	if t.Mode != ModeAttempt && t.Mode != ModeRoutedAttempt {
		return t
	}
	own := *t
	own.CostUSD, own.Usage, own.Calls = t.VerdictsUSD(), Usage{}, slices.Clone(t.Calls)
	for i := range own.Calls {
		own.Calls[i].CostUSD, own.Calls[i].Usage = 0, Usage{}
	}
	return &own
}

// RunVerdict returns the verdict that t reports on its run, which can be nil. isReport is false if t
// reports none.
func (t *Trace) RunVerdict() (v *Verdict, isReport bool) {
	switch t.Mode {
	case ModeVerdict:
		return t.Verdict, true
	case ModeRoutedAttempt:
		for i := range t.Calls {
			v = cmp.Or(t.Calls[i].Verdict, v)
		}
		return v, v != nil
	}
	return nil, false
}

// PromptedTokens returns how many tokens of the answer later prompts contain.
func (c *Call) PromptedTokens() int { return cmp.Or(c.ShownTokens, c.Usage.OutputTokens) }

// Failed reports whether the model or the connection to it failed. A call that the step itself cancelled
// has an Error and no answer, but has not failed.
func (c *Call) Failed() bool { return c.Error != "" && c.StopReason != StopReasonCancelled }
