package dialect

import (
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// usageFields are where an API counts tokens: paths within its usage. Of several with
// spaces between them the largest counts, and the first is written.
type usageFields struct {
	input, cached, written, output, reasoning, total string
	more                                             string // input that is counted apart
	hosted                                           string // uses of tools that the server ran
	// inputAll is set where the input counts what is cached, too, outputAll where the output
	// counts the reasoning.
	inputAll, outputAll bool
	zeros               string // what is written besides
}

var (
	chatUsage = usageFields{
		input: "prompt_tokens", cached: "prompt_tokens_details.cached_tokens prompt_cache_hit_tokens", written: "prompt_tokens_details.cache_write_tokens",
		output: "completion_tokens", reasoning: "completion_tokens_details.reasoning_tokens", total: "total_tokens", hosted: "num_sources_used", inputAll: true, outputAll: true,
		zeros: "prompt_tokens_details.audio_tokens completion_tokens_details.audio_tokens completion_tokens_details.accepted_prediction_tokens completion_tokens_details.rejected_prediction_tokens",
	}
	responsesUsage = usageFields{
		input: "input_tokens", cached: "input_tokens_details.cached_tokens", written: "input_tokens_details.cache_write_tokens",
		output: "output_tokens", reasoning: "output_tokens_details.reasoning_tokens", total: "total_tokens", inputAll: true, outputAll: true,
	}
	messagesUsage = usageFields{
		input: "input_tokens", cached: "cache_read_input_tokens", written: "cache_creation_input_tokens cache_creation.ephemeral_1h_input_tokens cache_creation.ephemeral_5m_input_tokens", output: "output_tokens", reasoning: "output_tokens_details.thinking_tokens", hosted: "server_tool_use.web_search_requests", outputAll: true,
	}
	geminiUsage = usageFields{
		input: "promptTokenCount", more: "toolUsePromptTokenCount", cached: "cachedContentTokenCount", output: "candidatesTokenCount", reasoning: "thoughtsTokenCount", total: "totalTokenCount", inputAll: true,
	}
	ollamaUsage = usageFields{input: "prompt_eval_count", output: "eval_count"}
)

// EmbeddingUsage is what an answer with embeddings used.
func EmbeddingUsage(api middleware.Dialect, answer []byte) sdk.Usage {
	if api == middleware.DialectOllama {
		return ollamaUsage.read(gjson.ParseBytes(answer))
	}
	u := chatUsage.read(gjson.GetBytes(answer, "usage"))
	u.InputTokens, u.ReasoningTokens = u.InputTokens+u.ReasoningTokens, 0 // where the total alone is reported
	return u
}

// read reads a usage. One with a count that is no number of tokens is none that the engine
// believes.
func (f *usageFields) read(v gjson.Result) sdk.Usage {
	in, more, cached, written := tokensAt(v, f.input), tokensAt(v, f.more), tokensAt(v, f.cached), tokensAt(v, f.written)
	out, reasoning, total := tokensAt(v, f.output), tokensAt(v, f.reasoning), tokensAt(v, f.total)
	hosted := tokensAt(v, f.hosted)
	if min(in, more, cached, written, out, reasoning, total, hosted) < 0 {
		return sdk.Usage{InputTokens: -1}
	}
	// xAI counts reasoning beside the output; what is more than the output is no part of it.
	isBeside := reasoning > 0 && total == in+out+reasoning || reasoning > out
	beyond := max(0, total-in-more-out) // Google's OpenAI-compatible API counts reasoning in the total alone
	if f.inputAll {
		in = max(0, in+more-cached-written)
	}
	if f.outputAll && !isBeside {
		out -= reasoning
		reasoning += beyond
	} else {
		reasoning = max(reasoning, beyond)
	}
	u := sdk.Usage{InputTokens: in, CachedInputTokens: cached, CacheWriteTokens: written, OutputTokens: out, ReasoningTokens: reasoning, HostedCalls: hosted}
	// What Anthropic took to compact a context is not in its other numbers.
	for _, one := range v.Get("iterations").Array() {
		if one.Get("type").Str == "compaction" {
			more := f.read(one)
			if more.InputTokens < 0 {
				return more
			}
			u = u.Add(more)
		}
	}
	return u
}

// tokensAt returns a number of tokens, the largest of several. Some servers write 12.0, 1.2e1 or
// "12". What is no whole number, or below 0, is -1: no answer is lost for its bill, and the engine
// sees that the bill cannot be right.
func tokensAt(v gjson.Result, paths string) (most int) {
	for path := range strings.FieldsSeq(paths) {
		count := v.Get(path)
		if count.Type == gjson.Null {
			continue
		}
		n, err := strconv.ParseFloat(strings.Trim(count.Raw, `"`), 64)
		const limit = 1 << 50
		switch {
		case math.IsInf(n, 1), n > limit: // also too large for a float
			n = limit
		case err != nil, !(n >= 0), n != math.Trunc(n):
			return -1
		}
		most = max(most, int(n))
	}
	return most
}

// write returns a usage as a server writes it.
func (f *usageFields) write(u sdk.Usage) Object {
	o := Object{}
	set := func(paths string, n int) {
		path, _, _ := strings.Cut(paths, " ")
		o.setPath(path, n)
	}
	in, out := u.InputTokens, u.OutputTokens+u.ReasoningTokens
	if f.inputAll {
		in += u.CachedInputTokens + u.CacheWriteTokens
		set(f.total, in+out)
	}
	if f.inputAll || u.ReasoningTokens > 0 {
		set(f.reasoning, u.ReasoningTokens)
	}
	set(f.written, u.CacheWriteTokens)
	set(f.input, in)
	set(f.cached, u.CachedInputTokens)
	set(f.output, out)
	if u.HostedCalls > 0 && f.hosted != "" {
		set(f.hosted, u.HostedCalls)
	}
	for path := range strings.FieldsSeq(f.zeros) {
		set(path, 0)
	}
	return o
}

// known returns the paths that are written of a usage, below a name, for [newKnown].
func (f *usageFields) known(name string) string {
	var b strings.Builder
	for _, paths := range []string{f.input, f.cached, f.written, f.output, f.reasoning, f.total} { // uses of tools are written only where there are any

		if path, _, _ := strings.Cut(paths, " "); path != "" {
			b.WriteString(" " + name + "." + path)
		}
	}
	for path := range strings.FieldsSeq(f.zeros) {
		b.WriteString(" " + name + "." + path)
	}
	return b.String()
}
