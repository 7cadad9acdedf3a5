package middleware

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"reflect"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// Params holds request parameters that [llms.CallOptions] cannot express. A nil pointer or an empty
// value is unset and not sent, so that temperature 0 differs from no temperature. [WithParams] sets them
// and [Resolve] reads them; the slices and maps are shared and must not be modified.
type Params struct {
	// Sampling. Fields that llms.CallOptions has too are also set there, for models that
	// do not read Params. If both are given, the later option counts.
	Temperature, TopP, FrequencyPenalty, PresencePenalty, RepetitionPenalty *float64
	TopK, Seed                                                              *int
	// MaxTokens limits one answer, including reasoning. The provider sends it in the field that its server
	// expects.
	MaxTokens *int
	// N is the number of answers.
	N         *int
	LogitBias map[string]float64
	// LogProbs requests the log-probabilities of the answer's tokens, TopLogProbs the number of
	// alternatives for each.
	LogProbs    *bool
	TopLogProbs *int

	// Schema is the schema that the answer must satisfy.
	Schema            *Schema
	ParallelToolCalls *bool
	// RawTools are tools in the form of Dialect that llms.Tool cannot express, such as a provider's own
	// web search. Models of other dialects are not called.
	RawTools []json.RawMessage

	// ReasoningEffort is a level in the provider's terms: "none", "minimal", "low", "medium", "high".
	// ReasoningTokens is a limit in tokens, for providers that have one. ReasoningSummary requests a
	// summary of the reasoning.
	ReasoningEffort  string
	ReasoningTokens  *int
	ReasoningSummary string

	User, ServiceTier, Verbosity, SafetyIdentifier, PromptCacheKey string
	Store                                                          *bool
	// Metadata is sent to the provider. The metadata of llms.CallOptions is not.
	Metadata map[string]string
	// Prediction is OpenAI's predicted output, in OpenAI's own form.
	Prediction json.RawMessage

	// Extra holds request fields that Params does not have, in the form of Dialect. They are sent to
	// models of that dialect unchanged and replace fields of the same names; for other models see
	// [Extra.NotSent].
	Extra   map[string]json.RawMessage
	Dialect Dialect

	// OnDelta receives the streamed answer in place of the streaming functions of llms.CallOptions, which
	// only handle text. d is valid until OnDelta returns. An error ends the call.
	OnDelta func(ctx context.Context, d *Delta) error
}

// Schema is a JSON schema for an answer.
type Schema struct {
	Name, Description string
	// Schema is the JSON schema itself.
	Schema json.RawMessage
	// Strict turns the provider's strict mode on or off; nil leaves it to the provider.
	Strict *bool
}

// Dialect is the API through which a model is called.
type Dialect string

// The dialects of the providers under adapters/provider.
const (
	DialectChat      Dialect = "openai.chat"
	DialectResponses Dialect = "openai.responses"
	DialectAnthropic Dialect = "anthropic"
	DialectGemini    Dialect = "gemini"
	DialectOllama    Dialect = "ollama"
)

// NativeModel is a model that reads [Params] and the message parts of this package, and returns
// [Extra]. A wrapper of such a model must forward Dialect. All other models are called with
// langchaingo's own types only.
type NativeModel interface {
	Dialect() Dialect
}

// limiter is an optional interface of models that know which requests their vendor rejects.
// Exclude returns the reason, or "".
type limiter interface {
	Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *Params) string
}

// Delta is one piece of a streamed answer.
type Delta struct {
	// From is the candidate that answers, if a cascade was called.
	From string
	// Choice is the index of the answer, if several were requested.
	Choice                   int
	Text, Reasoning, Refusal string
	// Tool is a piece of a tool call, or nil.
	Tool     *ToolDelta
	LogProbs []sdk.TokenLogProb
	// Raw is a complete part in the API's own form, such as reasoning with its signature, or nil. It
	// replaces the Reasoning in this delta and those before it. A part with text and citations comes with
	// its Text or after it.
	Raw *RawPart
	// Extra is what the server reported about the whole answer before its first piece. Only the first delta
	// has it. It must not be modified.
	Extra *Extra
}

// ToolDelta is a piece of a tool call. ID and Name come with the first piece.
type ToolDelta struct {
	Index               int
	ID, Name, Arguments string
}

const paramsKey = "stepfall.params"

// WithParams sets the parameters that p sets. Parameters of an earlier WithParams that p leaves unset are kept.
func WithParams(p Params) llms.CallOption {
	own := any(p) // copied once, however often the option is applied
	return func(o *llms.CallOptions) {
		all := own
		if earlier, ok := o.Metadata[paramsKey].(Params); ok {
			all = earlier.merge(&p)
		}
		metadata := maps.Clone(o.Metadata)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata[paramsKey] = all
		o.Metadata = metadata
		set(&o.Temperature, p.Temperature)
		set(&o.TopP, p.TopP)
		set(&o.FrequencyPenalty, p.FrequencyPenalty)
		set(&o.PresencePenalty, p.PresencePenalty)
		set(&o.RepetitionPenalty, p.RepetitionPenalty)
		set(&o.TopK, p.TopK)
		set(&o.Seed, p.Seed)
		set(&o.MaxTokens, p.MaxTokens)
		set(&o.N, p.N)
		o.JSONMode = o.JSONMode || p.Schema != nil
	}
}

// merge returns a copy of p in which the parameters that other sets replace those of p.
func (p Params) merge(other *Params) Params {
	from, to := reflect.ValueOf(other).Elem(), reflect.ValueOf(&p).Elem()
	for i := range from.NumField() {
		if f := from.Field(i); !f.IsZero() {
			to.Field(i).Set(f)
		}
	}
	return p
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// unsetInt marks integers that no option has set. NaN marks the floating-point ones.
const unsetInt = math.MinInt

// Resolve applies the options of a call and returns them together with the parameters, in which 0 differs
// from unset. A provider calls it instead of applying the options itself.
func Resolve(options ...llms.CallOption) (llms.CallOptions, Params) {
	o := llms.CallOptions{
		Temperature: math.NaN(), TopP: math.NaN(), FrequencyPenalty: math.NaN(), PresencePenalty: math.NaN(), RepetitionPenalty: math.NaN(),
		TopK: unsetInt, Seed: unsetInt, MaxTokens: unsetInt, N: unsetInt,
	}
	apply(&o, options)
	p, _ := o.Metadata[paramsKey].(Params)
	decimal := func(from float64, to **float64) {
		if *to = nil; !math.IsNaN(from) {
			*to = new(from)
		}
	}
	whole := func(from int, to **int, zero bool) {
		if *to = nil; from != unsetInt && (from != 0 || zero) {
			*to = new(from)
		}
	}
	decimal(o.Temperature, &p.Temperature)
	decimal(o.TopP, &p.TopP)
	decimal(o.FrequencyPenalty, &p.FrequencyPenalty)
	decimal(o.PresencePenalty, &p.PresencePenalty)
	decimal(o.RepetitionPenalty, &p.RepetitionPenalty)
	whole(o.Seed, &p.Seed, true)
	// For these, 0 means no request.
	whole(o.TopK, &p.TopK, false)
	whole(o.MaxTokens, &p.MaxTokens, false)
	whole(o.N, &p.N, false)
	if p.N == nil && o.CandidateCount > 0 {
		p.N = &o.CandidateCount
	}
	for _, f := range []*float64{&o.Temperature, &o.TopP, &o.FrequencyPenalty, &o.PresencePenalty, &o.RepetitionPenalty} {
		if math.IsNaN(*f) {
			*f = 0
		}
	}
	for _, n := range []*int{&o.TopK, &o.Seed, &o.MaxTokens, &o.N} {
		if *n == unsetInt {
			*n = 0
		}
	}
	delete(o.Metadata, paramsKey) // the map is a copy that apply made
	return o, p
}
