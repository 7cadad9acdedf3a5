package sdk

import "time"

// Answer is one model's output for a query.
type Answer struct {
	Model      string         `json:"model"`
	Text       string         `json:"text,omitempty"`
	Reasoning  string         `json:"reasoning,omitempty"`
	ToolCalls  []ToolCall     `json:"tool_calls,omitempty"`
	StopReason string         `json:"stop_reason,omitempty"`
	LogProbs   []TokenLogProb `json:"log_probs,omitempty"`
	Usage      Usage          `json:"usage"`
	CostUSD    float64        `json:"cost_usd"`
	// PriceFactor is how many times dearer the answer was than what was asked for, as where a
	// server says that it took a faster tier. 0 is 1.
	PriceFactor float64 `json:"-"`
	// ListsHostedCalls is set where the answer says how often the provider's tools ran, also
	// where that is never: then no more of them are billed than its usage counts.
	ListsHostedCalls bool          `json:"-"`
	Latency          time.Duration `json:"latency_ns"`
	// Signals are numbers measured on the answer after it came, by name, for
	// estimators to use: perplexity, agreement with earlier answers.
	Signals map[string]float64 `json:"signals,omitempty"`
	// Key is the answer in the form in which two of them are compared, as the step engine
	// found it: [github.com/stepfall/stepfall/sdk/feature.AnswerKey], hashed. Plugins are
	// not told: they find their own.
	Key string `json:"key,omitempty"`
	// Deployment is who served the model, where several do.
	Deployment string `json:"deployment,omitempty"`
	// NotSent are what the query's caller asked for and the model's API has no word for.
	// Plugins are not told.
	NotSent []string `json:"-"`
	// Choices are the texts of the call's further answers, where several were asked for.
	Choices []string `json:"-"`
	// Raw is the caller's own form of the answer. It stays in the process: it
	// is neither sent to plugins nor written to traces.
	Raw any `json:"-"`
}

// SignalCostUSD ends the name of the signal that holds what another one cost, such as
// "judge_cost_usd" for "judge". A signal that has a price is bought where that is worth
// it; see cascade.Look.
const SignalCostUSD = "_cost_usd"

// TokenLogProb is the log-probability of one generated token.
type TokenLogProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"log_prob"`
	// Top holds the most probable tokens at this place, the chosen one included
	// when the provider reports it.
	Top []TopLogProb `json:"top,omitempty"`
}

// TopLogProb is one alternative for a token.
type TopLogProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"log_prob"`
}

// Attempt is one model's try at a query: its answer and, when one was given,
// the verdict on it.
type Attempt struct {
	Answer  Answer   `json:"answer"`
	Verdict *Verdict `json:"verdict,omitempty"`
}
