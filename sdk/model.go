package sdk

import "math"

// Model describes a candidate: what is known about a model without calling it.
type Model struct {
	// Name is the model's name in the policy, unique there.
	Name string `json:"name"`
	// Provider and Served say which provider serves the model, and under which name.
	Provider string `json:"provider,omitempty"`
	Served   string `json:"served,omitempty"`

	Price Price `json:"price"`
	// ContextTokens limits prompt and answer together; 0 means unknown.
	ContextTokens int `json:"context_tokens,omitempty"`
	// MaxOutputTokens limits one answer; 0 means unknown.
	MaxOutputTokens int          `json:"max_output_tokens,omitempty"`
	Capabilities    Capabilities `json:"capabilities"`
}

// Capabilities says what a model can do. Requests that need a capability that is false do not go to
// the model.
type Capabilities struct {
	Tools      bool `json:"tools,omitempty"`
	Images     bool `json:"images,omitempty"`
	JSONMode   bool `json:"json_mode,omitempty"`
	JSONSchema bool `json:"json_schema,omitempty"`
	LogProbs   bool `json:"log_probs,omitempty"`
	Reasoning  bool `json:"reasoning,omitempty"`
}

// Price is in US dollars per million tokens. A step takes a CachedInput or CacheWrite
// of 0 as Input and a Reasoning of 0 as Output; CostUSD takes them as they are.
type Price struct {
	Input       float64 `json:"input_usd_per_million"`
	CachedInput float64 `json:"cached_input_usd_per_million,omitempty"`
	CacheWrite  float64 `json:"cache_write_usd_per_million,omitempty"`
	// AudioInput is the price of prompt tokens that are audio; 0 is Input. CostUSD does not know of them: the
	// answer's PriceFactor does.
	AudioInput float64 `json:"audio_input_usd_per_million,omitempty"`
	Output     float64 `json:"output_usd_per_million"`
	Reasoning  float64 `json:"reasoning_usd_per_million,omitempty"`
	// Long holds the surcharge on long prompts.
	Long LongContext `json:"long_context,omitzero"`
	// FastFactor multiplies the prices on the provider's faster tier; 0 is unknown.
	FastFactor float64 `json:"fast_factor,omitempty"`
	// RequestUSD is charged for each request, HostedCallUSD for each use of a tool that
	// the provider runs, such as a search; both in US dollars.
	RequestUSD    float64 `json:"request_usd,omitempty"`
	HostedCallUSD float64 `json:"hosted_call_usd,omitempty"`
}

// LongContext holds the factors on the prices of a request whose prompt has more than Tokens tokens.
// Tokens of 0 means never.
type LongContext struct {
	Tokens       int     `json:"tokens"`
	InputFactor  float64 `json:"input_factor"`
	OutputFactor float64 `json:"output_factor"`
}

// Usage counts the tokens of one call. The counts do not overlap:
// InputTokens excludes cached ones and OutputTokens excludes reasoning.
type Usage struct {
	InputTokens       int `json:"input_tokens"`
	CachedInputTokens int `json:"cached_input_tokens,omitempty"`
	CacheWriteTokens  int `json:"cache_write_tokens,omitempty"`
	OutputTokens      int `json:"output_tokens"`
	ReasoningTokens   int `json:"reasoning_tokens,omitempty"`
	// HostedCalls are uses of tools that the provider ran within the call, such as searches.
	HostedCalls int `json:"hosted_calls,omitempty"`
	// Estimated is true when the provider reported no usage and the counts
	// were estimated from the texts.
	Estimated bool `json:"estimated,omitempty"`
}

// Add returns the sum of two usages; it is Estimated when either is.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:       u.InputTokens + v.InputTokens,
		CachedInputTokens: u.CachedInputTokens + v.CachedInputTokens,
		CacheWriteTokens:  u.CacheWriteTokens + v.CacheWriteTokens,
		OutputTokens:      u.OutputTokens + v.OutputTokens,
		ReasoningTokens:   u.ReasoningTokens + v.ReasoningTokens,
		HostedCalls:       u.HostedCalls + v.HostedCalls,
		Estimated:         u.Estimated || v.Estimated,
	}
}

// CostUSD returns what a request with usage u costs at price p, in US dollars. Without usage
// it is 0.
func (p Price) CostUSD(u Usage) float64 {
	input := float64(u.InputTokens)*p.Input + float64(u.CachedInputTokens)*p.CachedInput + float64(u.CacheWriteTokens)*p.CacheWrite
	output := float64(u.OutputTokens)*p.Output + float64(u.ReasoningTokens)*p.Reasoning
	if p.Long.Tokens > 0 && u.InputTokens+u.CachedInputTokens+u.CacheWriteTokens > p.Long.Tokens {
		input, output = input*p.Long.InputFactor, output*p.Long.OutputFactor
	}
	usd := (input+output)/1e6 + float64(u.HostedCalls)*p.HostedCallUSD
	if p.RequestUSD > 0 && u != (Usage{Estimated: u.Estimated}) {
		usd += p.RequestUSD
	}
	return usd
}

// RoundUSD rounds an amount to the nearest 1e-12 dollars, which removes the meaningless last digits of
// sums of prices times tokens.
func RoundUSD(usd float64) float64 {
	const parts, many = 1e12, 1e3
	if math.Abs(usd) >= many {
		return usd
	}
	return math.Round(usd*parts) / parts
}
