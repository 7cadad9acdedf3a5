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
	// PriceFactor multiplies the cost of this answer if the server reports another service tier or cache
	// lifetime than requested. 0 means 1.
	PriceFactor float64 `json:"-"`
	// ListsHostedCalls is set if the answer states how often the provider's tools ran, even if they did
	// not: then only the uses in its usage are billed.
	ListsHostedCalls bool          `json:"-"`
	Latency          time.Duration `json:"latency_ns"`
	// Signals are numbers measured on the finished answer, by name, for estimators to use: perplexity,
	// agreement with earlier answers.
	Signals map[string]float64 `json:"signals,omitempty"`
	// Key is the canonical form in which the step engine compares answers:
	// [github.com/stepfall/stepfall/sdk/feature.AnswerKey], hashed. It is not sent to plugins, which
	// compute their own.
	Key string `json:"key,omitempty"`
	// Deployment names the server that answered, if the model has several.
	Deployment string `json:"deployment,omitempty"`
	// NotSent lists options that the caller requested but the model's API cannot express. It is not sent
	// to plugins.
	NotSent []string `json:"-"`
	// Choices are the texts of the call's other answers, if several were requested.
	Choices []string `json:"-"`
	// Raw is the caller's own representation of the answer. It is neither sent to plugins nor written to
	// traces.
	Raw any `json:"-"`
}

// SignalCostUSD is the suffix of the name of the signal that holds another signal's cost, such as
// "judge_cost_usd" for "judge". A signal with a cost is bought only if it is worth its price; see
// cascade.Look.
const SignalCostUSD = "_cost_usd"

// TokenLogProb is the log-probability of one generated token.
type TokenLogProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"log_prob"`
	// Top holds the most probable tokens at this position, including the chosen one if the provider
	// reports it.
	Top []TopLogProb `json:"top,omitempty"`
}

// TopLogProb is one alternative for a token.
type TopLogProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"log_prob"`
}

// Attempt is one model's attempt at a query: its answer, and the verdict on it if there is one.
type Attempt struct {
	Answer  Answer   `json:"answer"`
	Verdict *Verdict `json:"verdict,omitempty"`
}
