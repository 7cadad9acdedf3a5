package sdk

import (
	"cmp"
	"math"
)

// Model describes a candidate. It is data, not a client.
type Model struct {
	// Name is the model's name in the policy, unique there.
	Name string `json:"name"`
	// Provider names the provider that serves the model, and Served the model's name there.
	Provider string `json:"provider,omitempty"`
	Served   string `json:"served,omitempty"`

	Price Price `json:"price"`
	// ContextTokens limits the prompt and the answer together; 0 means unknown.
	ContextTokens int `json:"context_tokens,omitempty"`
	// MaxOutputTokens limits one answer; 0 means unknown.
	MaxOutputTokens int          `json:"max_output_tokens,omitempty"`
	Capabilities    Capabilities `json:"capabilities"`
}

// Capabilities says what a model can do. A request that needs a capability that the model lacks is not
// sent to it.
type Capabilities struct {
	Tools      bool `json:"tools,omitempty"`
	Images     bool `json:"images,omitempty"`
	JSONMode   bool `json:"json_mode,omitempty"`
	JSONSchema bool `json:"json_schema,omitempty"`
	LogProbs   bool `json:"log_probs,omitempty"`
	Reasoning  bool `json:"reasoning,omitempty"`
}

// Price is in US dollars per million tokens. A step replaces a CachedInput or CacheWrite of 0 by Input and
// a Reasoning of 0 by Output; CostUSD does not.
type Price struct {
	Input       float64 `json:"input_usd_per_million"`
	CachedInput float64 `json:"cached_input_usd_per_million,omitempty"`
	CacheWrite  float64 `json:"cache_write_usd_per_million,omitempty"`
	// AudioInput is the price of audio tokens in the prompt; 0 means Input. CostUSD ignores it: the answer's
	// PriceFactor accounts for it.
	AudioInput float64 `json:"audio_input_usd_per_million,omitempty"`
	Output     float64 `json:"output_usd_per_million"`
	Reasoning  float64 `json:"reasoning_usd_per_million,omitempty"`
	// Long holds the surcharge on long prompts.
	Long LongContext `json:"long_context,omitzero"`
	// FastFactor multiplies the prices on the provider's faster tier; 0 means unknown.
	FastFactor float64 `json:"fast_factor,omitempty"`
	// FlexFactor multiplies the prices of an answer from the provider's slower tier, flex; 0 means 1.
	FlexFactor float64 `json:"flex_factor,omitempty"`
	// RequestUSD is charged per request, and HostedCallUSD per use of a tool that the provider runs, such
	// as a search; both are in US dollars. SearchUSD is the price of a web search; 0 means HostedCallUSD.
	// PreviewSearchUSD is that of OpenAI's tool web_search_preview; 0 means SearchUSD.
	RequestUSD       float64 `json:"request_usd,omitempty"`
	HostedCallUSD    float64 `json:"hosted_call_usd,omitempty"`
	SearchUSD        float64 `json:"search_usd,omitempty"`
	PreviewSearchUSD float64 `json:"preview_search_usd,omitempty"`
}

// LongContext holds the price factors for requests whose prompt has more than Tokens tokens. If Tokens
// is 0, they never apply.
type LongContext struct {
	Tokens       int     `json:"tokens"`
	InputFactor  float64 `json:"input_factor"`
	OutputFactor float64 `json:"output_factor"`
}

// Usage counts the tokens of one call. The counts do not overlap: InputTokens excludes cached tokens and
// cache writes, and OutputTokens excludes reasoning.
type Usage struct {
	InputTokens       int `json:"input_tokens"`
	CachedInputTokens int `json:"cached_input_tokens,omitempty"`
	CacheWriteTokens  int `json:"cache_write_tokens,omitempty"`
	OutputTokens      int `json:"output_tokens"`
	ReasoningTokens   int `json:"reasoning_tokens,omitempty"`
	// HostedCalls counts the uses of tools that the provider ran within the call, and Searches those of
	// them that were web searches.
	HostedCalls int `json:"hosted_calls,omitempty"`
	Searches    int `json:"searches,omitempty"`
	// Estimated is true if the provider reported no usage and the counts were estimated from the texts.
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
		Searches:          u.Searches + v.Searches,
		Estimated:         u.Estimated || v.Estimated,
	}
}

// CostUSD returns the cost of a request with usage u at price p, in US dollars. It is 0 if u is empty.
func (p Price) CostUSD(u Usage) float64 {
	input := float64(u.InputTokens)*p.Input + float64(u.CachedInputTokens)*p.CachedInput + float64(u.CacheWriteTokens)*p.CacheWrite
	output := float64(u.OutputTokens)*p.Output + float64(u.ReasoningTokens)*p.Reasoning
	if p.Long.Tokens > 0 && u.InputTokens+u.CachedInputTokens+u.CacheWriteTokens > p.Long.Tokens {
		input, output = input*p.Long.InputFactor, output*p.Long.OutputFactor
	}
	searches := min(u.Searches, u.HostedCalls)
	usd := (input+output)/1e6 + float64(u.HostedCalls-searches)*p.HostedCallUSD + float64(searches)*cmp.Or(p.SearchUSD, p.HostedCallUSD)
	if p.RequestUSD > 0 && u != (Usage{Estimated: u.Estimated}) {
		usd += p.RequestUSD
	}
	return usd
}

// ColdUSD returns how much less a request with usage u would have cost, in US dollars, with a larger share of its prompt
// cached; 0 if the share is not larger.
func (p Price) ColdUSD(u Usage, share float64) float64 {
	u.OutputTokens, u.ReasoningTokens = 0, 0
	total := u.InputTokens + u.CachedInputTokens + u.CacheWriteTokens
	cached := int(share * float64(total))
	if cached <= u.CachedInputTokens {
		return 0
	}
	rest := float64(total-cached) / float64(total-u.CachedInputTokens)
	warm := u
	warm.CachedInputTokens, warm.CacheWriteTokens = cached, int(rest*float64(u.CacheWriteTokens))
	warm.InputTokens = total - cached - warm.CacheWriteTokens
	return max(0, p.CostUSD(u)-p.CostUSD(warm))
}

// CachedUSD returns how much less a request with usage u cost, in US dollars, because part of its prompt was cached: without
// a cache, the model would have read that part too, and written it to the cache.
func (p Price) CachedUSD(u Usage) float64 {
	empty := u
	empty.CachedInputTokens, empty.CacheWriteTokens = 0, u.CacheWriteTokens+u.CachedInputTokens
	p.CacheWrite = cmp.Or(p.CacheWrite, p.Input)
	return max(0, p.CostUSD(empty)-p.CostUSD(u))
}

// ConvertUSD returns at price p an amount that was billed for usage u at price was: it changes in the ratio of
// the two prices of u, so service tiers and estimates of the bill still count. Without was, or without any
// tokens to price, the amount is returned as it is.
func (p Price) ConvertUSD(usd float64, u Usage, was *Price) float64 {
	if was == nil || *was == p {
		return usd
	}
	if before := was.CostUSD(u); before > 0 {
		return RoundUSD(usd * p.CostUSD(u) / before)
	}
	return cmp.Or(usd, p.CostUSD(u))
}

// RoundUSD rounds an amount below 1000 dollars to the nearest 1e-12, which removes rounding noise from
// sums of prices times tokens.
func RoundUSD(usd float64) float64 {
	const parts, many = 1e12, 1e3
	if math.Abs(usd) >= many {
		return usd
	}
	return math.Round(usd*parts) / parts
}
