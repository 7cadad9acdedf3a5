package policies

import (
	"cmp"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// A Model is a candidate: a model that can be called.
type Model struct {
	Name string `policy:"name,label"`
	// Who serves the model. openai is any server with OpenAI's chat API; go is a model that the
	// application provides in code under this name.
	Provider string `policy:"provider" required:"true" oneof:"openai anthropic gemini ollama mistral go"`
	// Which of OpenAI's APIs to use.
	API string `policy:"api" oneof:"chat responses" default:"chat"`
	// The request field that limits the length of an answer, for chat completions. When absent,
	// max_completion_tokens for OpenAI and Azure, and max_tokens for all others.
	MaxTokensField string `policy:"max_tokens_field" oneof:"max_tokens max_completion_tokens"`
	// The provider's name for the model; the block's label when absent.
	Served string `policy:"served"`
	// Address of the server, for instance "http://127.0.0.1:8080/v1"; the provider's own when absent.
	BaseURL string `policy:"base_url"`
	// The key, as env("NAME").
	APIKey Secret `policy:"api_key"`
	// Maximum number of tokens of prompt and answer together. From the catalogue when absent; 0 means unknown.
	ContextTokens int `policy:"context_tokens" min:"0"`
	// Maximum number of tokens of an answer. From the catalogue when absent; 0 means unknown.
	MaxOutputTokens int `policy:"max_output_tokens" min:"0"`
	// Typical length of an answer, in tokens, to estimate costs before a profile is fitted.
	ExpectedOutputTokens int `policy:"expected_output_tokens" min:"1" default:"500"`
	// What the model can do. Requests that need something else are not sent to it. From the catalogue when
	// absent. A model with embeddings serves embeddings through the gateway and is not a candidate.
	Capabilities []string `policy:"capabilities" oneof:"tools images json_mode json_schema log_probs reasoning embeddings"`
	// Time limit for one call; "0s" leaves it to the caller.
	Timeout time.Duration `policy:"timeout" min:"0" default:"0s"`
	// Maximum number of answers that one step can request from the model. Further answers are separate
	// candidates, NAME#2 and so on: a second attempt is made if it is worth its price.
	Samples int `policy:"samples" min:"1" max:"8" default:"1"`
	// Temperature of the further answers, if the caller's is lower. Callers that set top_p keep theirs.
	SampleTemperature float64 `policy:"sample_temperature" above:"0" max:"2" default:"1"`

	// Whose reasoning effort is used when a request sets one and the model has arms. client: the
	// request's; only the first arm is called, with that effort. arm: the arm's.
	Effort string `policy:"effort" oneof:"client arm" default:"client"`

	Price       Price        `policy:"price,block"`
	Quality     Quality      `policy:"quality,block"`
	Deployments []Deployment `policy:"deployment,block"`
	Arms        []Arm        `policy:"arm,block"`

	// label is the label of the candidate's block. If a model is several candidates, arm and sample are the
	// numbers of this one, from 1.
	label       string
	arm, sample int
}

// An Arm is one way to call a model. Each arm is a candidate, NAME@ARM, that shares the model's price,
// key, circuit breaker and limits, so reasoning effort is chosen like a model. The model's name refers
// to all its arms; as the baseline, to the last.
type Arm struct {
	Name string `policy:"name,label"`
	// The reasoning effort, in the provider's terms.
	ReasoningEffort string `policy:"reasoning_effort" required:"true" oneof:"none minimal low medium high xhigh max"`
	// Typical length of an answer, in tokens, to estimate costs before a profile is fitted; the model's
	// when absent.
	ExpectedOutputTokens int `policy:"expected_output_tokens" min:"1"`
	// Expected quality before a profile is fitted, in [0, 1]; the model's when absent.
	Quality float64 `policy:"quality" above:"0" max:"1"`
}

// Price is what a model costs, in US dollars per million tokens. Without this block, prices come from
// the catalogue; a model with neither is an error.
type Price struct {
	// Prompt tokens.
	Input float64 `policy:"input_usd_per_million" min:"0" json:"input,omitempty"`
	// Prompt tokens read from the provider's cache; the input price when absent.
	CachedInput float64 `policy:"cached_input_usd_per_million" min:"0" json:"cached_input,omitempty"`
	// Prompt tokens written to the provider's cache; the input price when absent.
	CacheWrite float64 `policy:"cache_write_usd_per_million" min:"0" json:"cache_write,omitempty"`
	// Prompt tokens that are audio; the input price when absent.
	AudioInput float64 `policy:"audio_input_usd_per_million" min:"0" json:"audio_input,omitempty"`
	// Tokens of the answer.
	Output float64 `policy:"output_usd_per_million" min:"0" json:"output,omitempty"`
	// Tokens of hidden reasoning; the output price when absent.
	Reasoning float64 `policy:"reasoning_usd_per_million" min:"0" json:"reasoning,omitempty"`
	// Prompt length, in tokens, above which the whole request costs more; 0 means none.
	LongContextTokens int `policy:"long_context_tokens" min:"0" json:"long_context_tokens,omitempty"`
	// Factor on the prompt's prices above that length; 2 when absent.
	LongContextInputFactor float64 `policy:"long_context_input_factor" min:"0" json:"long_context_input_factor,omitempty"`
	// Factor on the answer's prices above that length; 2 when absent.
	LongContextOutputFactor float64 `policy:"long_context_output_factor" min:"0" json:"long_context_output_factor,omitempty"`
	// Factor on all prices on the provider's faster tier (`service_tier` of `fast` or `priority`,
	// Anthropic's `speed` of `fast`). The highest known factor when absent.
	FastFactor float64 `policy:"fast_factor" min:"1" json:"fast_factor,omitempty"`
	// Factor on all prices of an answer from the provider's slower tier (`service_tier` of `flex`); 1 when
	// absent. Caps reserve the full price, since the provider can answer on another tier.
	FlexFactor float64 `policy:"flex_factor" above:"0" max:"1" json:"flex_factor,omitempty"`
	// Fee per request, in US dollars.
	RequestUSD float64 `policy:"request_usd" min:"0" json:"request_usd,omitempty"`
	// Fee per use of a tool that the provider runs, such as a search, in US dollars; 0.035 when absent.
	// Caps reserve it for each use that the request allows.
	HostedCallUSD float64 `policy:"hosted_call_usd" min:"0" json:"hosted_call_usd,omitempty"`
	// Fee per web search that the provider reports, in US dollars; hosted_call_usd when absent.
	SearchUSD float64 `policy:"search_usd" min:"0" json:"search_usd,omitempty"`
	// Fee per search with OpenAI's tool `web_search_preview`, in US dollars; search_usd when absent.
	PreviewSearchUSD float64 `policy:"preview_search_usd" min:"0" json:"preview_search_usd,omitempty"`
	// Confirms that the model costs nothing. Prices of 0 are an error without it.
	Free bool `policy:"free" json:"free,omitempty"`
}

// Quality is what is assumed about a model's answers before a profile is fitted.
type Quality struct {
	// Expected quality, in [0, 1].
	Mean float64 `policy:"mean" min:"0" max:"1" default:"0.5"`
	// Standard deviation, around the mean, of the estimate that a verifier or estimator is expected to give
	// to an answer. It is not the uncertainty of the mean. It is not used if there is neither a verifier nor an
	// estimator nor a profile.
	StdDev float64 `policy:"std_dev" min:"0" max:"1" default:"0.25"`
}

// A Deployment is another server of the same model. Calls are sent to the first that works: the model's
// own server, then deployments in the order of the file.
type Deployment struct {
	Name string `policy:"name,label"`
	// The provider's name for the model there; the model's when absent.
	Served string `policy:"served"`
	// Address of the server.
	BaseURL string `policy:"base_url" required:"true"`
	// The key, as env("NAME").
	APIKey Secret `policy:"api_key"`
}

// A Catalog block states facts about an existing model. Its label is the provider and the served name,
// such as "openai/gpt-4o-mini". The built-in catalogue has dates and sources and is read first; a
// policy can change entries or add its own.
type Catalog struct {
	Name string `policy:"name,label" json:"model"`
	// The day on which the facts were correct, as "2025-08-07".
	AsOf string `policy:"as_of" required:"true" json:"as_of"`
	// Where the facts come from.
	Source string `policy:"source" required:"true" json:"source"`
	// Maximum number of tokens of prompt and answer together; 0 means unknown.
	ContextTokens int `policy:"context_tokens" min:"0" json:"context_tokens,omitempty"`
	// Maximum number of tokens of an answer; 0 means unknown.
	MaxOutputTokens int `policy:"max_output_tokens" min:"0" json:"max_output_tokens,omitempty"`
	// What the model can do.
	Capabilities []string `policy:"capabilities" oneof:"tools images json_mode json_schema log_probs reasoning embeddings" json:"capabilities,omitempty"`

	Price Price `policy:"price,block" json:"usd_per_million"`
}

// IsFurtherSample reports whether the candidate is a further sample of the preceding candidate, such as NAME#2 of
// NAME.
func (m *Model) IsFurtherSample() bool { return m.sample > 1 }

// SharesServers reports whether the candidate uses the servers of a preceding one: a further sample, or an
// arm after the first.
func (m *Model) SharesServers() bool { return m.sample > 1 || m.arm > 1 }

// Label returns the label of the candidate's block: the name without arm and sample.
func (m *Model) Label() string { return cmp.Or(m.label, m.Name) }

// ReasoningEffort returns the effort of the candidate's arm, or "" if the model has no arms.
func (m *Model) ReasoningEffort() string {
	if m.arm == 0 {
		return ""
	}
	return m.Arms[m.arm-1].ReasoningEffort
}

func (m *Model) embeds() bool { return slices.Contains(m.Capabilities, "embeddings") }

// SDK returns the model as a type of package sdk, with prices that follow from others filled in.
func (m *Model) SDK() sdk.Model {
	can := func(what string) bool { return slices.Contains(m.Capabilities, what) }
	return sdk.Model{
		Name: m.Name, Provider: m.Provider, Served: m.Served,
		Price:         m.Price.SDK(),
		ContextTokens: m.ContextTokens, MaxOutputTokens: m.MaxOutputTokens,
		Capabilities: sdk.Capabilities{
			Tools: can("tools"), Images: can("images"), JSONMode: can("json_mode"), JSONSchema: can("json_schema"), LogProbs: can("log_probs"), Reasoning: can("reasoning"),
		},
	}
}

// SDK returns the price as a type of package sdk. A price of 0 for cached input, cache writes or reasoning is
// replaced by that of input or output.
func (p Price) SDK() sdk.Price {
	s := sdk.Price{
		Input: p.Input, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, AudioInput: p.AudioInput, Output: p.Output, Reasoning: p.Reasoning,
		FastFactor: p.FastFactor, FlexFactor: p.FlexFactor, RequestUSD: p.RequestUSD, HostedCallUSD: p.HostedCallUSD, SearchUSD: p.SearchUSD, PreviewSearchUSD: p.PreviewSearchUSD,
	}
	if p.LongContextTokens > 0 {
		s.Long = sdk.LongContext{Tokens: p.LongContextTokens, InputFactor: cmp.Or(p.LongContextInputFactor, 2), OutputFactor: cmp.Or(p.LongContextOutputFactor, 2)}
	}
	s.CachedInput = cmp.Or(s.CachedInput, s.Input)
	s.CacheWrite = cmp.Or(s.CacheWrite, s.Input)
	s.Reasoning = cmp.Or(s.Reasoning, s.Output)
	return s
}

// SDK returns the prior estimate as a type of package sdk.
func (q Quality) SDK() sdk.Estimate { return sdk.Estimate{Mean: q.Mean, StdDev: q.StdDev} }
