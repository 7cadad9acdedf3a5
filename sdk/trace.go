package sdk

import (
	"cmp"
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
	// StopRefused: models refused the request as it was put to them, and no other answer
	// was left than one that had been rejected. Such a step fails.
	StopRefused StopReason = "request_refused"
)

// StopReasonRefused is the stop reason of a call whose server refused the request itself:
// a fault of how it was put together, and no answer of the model.
const StopReasonRefused = "request_refused"

// StopReasonCancelled is the stop reason of an answer that was cut off while it came,
// since a check would have rejected it: its verdict says which. Its usage is counted by
// what had come. It is also that of a call that the step ended, since it had come to need
// no answer: see [Call.Failed].
const StopReasonCancelled = "cancelled"

// ModeEmbeddings is the mode in the trace of a call that made embeddings: nothing was
// decided, and there is no answer to judge.
const ModeEmbeddings = "embeddings"

// ModeVerdict is the mode in the trace that reports how a run ended: it names the run, and
// holds the verdict; nothing was asked.
const ModeVerdict = "verdict"

// IsStep reports whether a trace of the mode records a step, as all do but those of
// [ModeVerdict]. What counts, logs or lists steps goes by it.
func IsStep(mode string) bool { return mode != ModeVerdict }

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
	// Conversation is the query's, where neither Run nor Session says what it belongs to.
	Conversation string `json:"conversation,omitempty"`

	Policy   string `json:"policy,omitempty"`
	Profile  string `json:"profile,omitempty"`
	Mode     string `json:"mode,omitempty"`
	Strategy string `json:"strategy"`
	// Setting is what the strategy went by.
	Setting Setting `json:"setting,omitzero"`

	// Prompt is the last user text, empty when the policy redacts prompts.
	Prompt      string             `json:"prompt,omitempty"`
	InputTokens int                `json:"input_tokens,omitempty"`
	Features    map[string]float64 `json:"features,omitempty"`
	// Labels are the query's, and Tools the names of the tools that it offers: what
	// a policy's match rules go by.
	Labels map[string]string `json:"labels,omitempty"`
	Tools  []string          `json:"tools,omitempty"`

	// Holdout says which way the run goes, where the policy has a holdout.
	Holdout *Holdout `json:"holdout,omitempty"`
	// Verdict is what was reported of the run, in a trace of [ModeVerdict].
	Verdict *Verdict `json:"verdict,omitempty"`

	// Infeasible are the models that left before the first decision.
	Infeasible []Infeasible `json:"infeasible,omitempty"`
	Decisions  []Decision   `json:"decisions"`
	Calls      []Call       `json:"calls"`

	// Chosen is the model whose answer was returned; empty when none was.
	Chosen string     `json:"chosen,omitempty"`
	Stop   StopReason `json:"stop"`
	// Error is why no answer was returned.
	Error string `json:"error,omitempty"`

	Usage Usage `json:"usage"`
	// CostUSD is all that was spent: model calls, failed ones included, and verification.
	CostUSD  float64       `json:"cost_usd"`
	Duration time.Duration `json:"duration_ns"`
	// Overhead is Duration less the time spent waiting for models, estimators and verifiers.
	Overhead time.Duration `json:"overhead_ns"`
}

// Setting is what a strategy goes by: with it and the beliefs of a [Decision] the
// decision can be taken again.
type Setting struct {
	cascade.Setting

	// Coin is the number in [0, 1) that was drawn for ties.
	Coin float64 `json:"coin,omitempty"`
}

// Holdout says which way a run goes.
type Holdout struct {
	// Share is the share of runs that go the baseline's way: the propensity.
	Share float64 `json:"share"`
	// Baseline is true where this run does.
	Baseline bool `json:"baseline"`
	// Fallback is true where it does because the policy was seen to do harm, and not by chance.
	Fallback bool `json:"fallback,omitempty"`
}

// Infeasible is a model that could not be asked this query, and why.
type Infeasible struct {
	Model  string `json:"model"`
	Reason string `json:"reason"`
}

// Decision is one turn of the loop: what was believed and what was decided.
type Decision struct {
	// Run is the model to run next; empty means stop.
	Run string `json:"run,omitempty"`
	// Look is the model that has run of whose answer a look was bought, in place of a run
	// or a stop.
	Look string `json:"look,omitempty"`
	// Answer is the model whose answer is best so far, if any.
	Answer string  `json:"answer,omitempty"`
	Lambda float64 `json:"lambda"`
	// Models are the beliefs that the decision rests on, one for each feasible model.
	Models []Belief `json:"models"`
	// Alternatives are the ranked alternatives when explanations are on.
	Alternatives []Alternative `json:"alternatives,omitempty"`
	// Approximate is true when the search hit its node limit.
	Approximate bool `json:"approximate,omitempty"`
	// Note says what no number shows: "estimator logprob unavailable: abstained".
	Note string `json:"note,omitempty"`
}

// Belief is what was believed about one model at one decision.
type Belief struct {
	Model   string   `json:"model"`
	Quality Estimate `json:"quality"`
	CostUSD float64  `json:"cost_usd"`
	// Price is what the model's tokens cost in this step; the first decision says it.
	Price *Price `json:"price,omitempty"`
	Ran   bool   `json:"ran,omitempty"`
	// Judged says of a model that has not run that a verifier will judge its answer:
	// Quality.Mean is then the probability that it is right.
	Judged bool `json:"judged,omitempty"`
	// Judge is how often that verifier errs; zeros where it is taken at its word.
	Judge cascade.Rates `json:"judge,omitzero"`
	// Shared is the share of what its verdict would tell that it would tell of the best
	// answer at hand as well.
	Shared float64 `json:"shared,omitempty"`
	// Look is what could be bought about its answer; nil is nothing.
	Look *Look `json:"look,omitempty"`
}

// Alternative is one supermodel, or one model with its reservation value, that
// was considered.
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
	// Provider and Served say who was asked for which model.
	Provider string `json:"provider,omitempty"`
	Served   string `json:"served,omitempty"`
	// Attempt counts the tries at the same model in this step, from 1.
	Attempt int       `json:"attempt"`
	Start   time.Time `json:"start,omitzero"`
	Usage   Usage     `json:"usage"`
	// UsageDoubt is why the usage is estimated although the call ended: the server reported
	// none, or one that cannot be. Under a cap the call costs what was reserved for it.
	UsageDoubt string        `json:"usage_doubt,omitempty"`
	CostUSD    float64       `json:"cost_usd"`
	Latency    time.Duration `json:"latency_ns"`
	StopReason string        `json:"stop_reason,omitempty"`
	// ShownTokens is about how long the answer reads, in the model's tokens, where far more is
	// billed as output: by a provider that counts what the model thinks among OutputTokens. It is what
	// later prompts hold. 0 is all of Usage.OutputTokens.
	ShownTokens int `json:"shown_tokens,omitempty"`
	// NotSent are what the caller asked for and the model's API has no word for.
	NotSent []string `json:"not_sent,omitempty"`
	// Answer is the text, empty when the policy redacts answers.
	Answer string `json:"answer,omitempty"`
	// Tools are the names of the tools that the answer calls.
	Tools []string `json:"tools,omitempty"`
	// Key is equal for answers to one query that say the same: a hash of the tool calls or
	// the final answer in canonical form, also where answers are redacted.
	Key     string             `json:"key,omitempty"`
	Signals map[string]float64 `json:"signals,omitempty"`
	// Quality is the post-hoc estimate.
	Quality Estimate `json:"quality"`
	Verdict *Verdict `json:"verdict,omitempty"`
	// Propensity is the probability with which the model was asked, given the answers
	// before: 1 where the strategy chose it, less where chance did so for the record.
	// 0 is that nothing is left to chance.
	Propensity float64 `json:"propensity,omitempty"`
	// Error is why the call gave no answer.
	Error string `json:"error,omitempty"`
}

// PromptedTokens returns how many tokens of the answer later prompts hold.
func (c *Call) PromptedTokens() int { return cmp.Or(c.ShownTokens, c.Usage.OutputTokens) }

// Failed reports whether the call gave no answer by a fault of the model or the way to it.
// One that the step ended itself has an Error and no answer too, but has not failed.
func (c *Call) Failed() bool { return c.Error != "" && c.StopReason != StopReasonCancelled }
