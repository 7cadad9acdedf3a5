package dialect

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// usageFields are the paths of an API's token counts within its usage, of one or two names. If there are several
// paths, separated by spaces, the largest count is read, and the first path is written.
type usageFields struct {
	input, cached, written, output, reasoning, total string
	more                                             string // input that is counted separately
	hosted                                           string // uses of tools hosted by the server
	// inputAll is set if the input includes cached tokens, outputAll if the output includes reasoning.
	inputAll, outputAll bool
	zeros               string // members that clients expect in addition, written as 0

	counts map[string]int // the count that each path is read into
	paths  []countPath    // the paths to write
}

type countPath struct {
	path  string
	count int
}

// The counts of a usage, in the order of newUsageFields.
const (
	countInput = iota
	countMore
	countCached
	countWritten
	countOutput
	countReasoning
	countTotal
	countHosted
	countZero
	counts
)

func newUsageFields(f usageFields) *usageFields {
	f.counts = map[string]int{}
	for i, paths := range [counts]string{f.input, f.more, f.cached, f.written, f.output, f.reasoning, f.total, f.hosted, f.zeros} {
		for k, path := range strings.Fields(paths) {
			if i != countZero {
				f.counts[path] = i
			}
			if (k == 0 || i == countZero) && i != countHosted { // hosted calls are written with the unknown members
				f.paths = append(f.paths, countPath{path, i})
			}
		}
	}
	return &f
}

var (
	chatUsage = newUsageFields(usageFields{
		input: "prompt_tokens", cached: "prompt_tokens_details.cached_tokens prompt_cache_hit_tokens", written: "prompt_tokens_details.cache_write_tokens",
		output: "completion_tokens", reasoning: "completion_tokens_details.reasoning_tokens", total: "total_tokens", hosted: "num_sources_used", inputAll: true, outputAll: true,
		zeros: "prompt_tokens_details.audio_tokens completion_tokens_details.audio_tokens completion_tokens_details.accepted_prediction_tokens completion_tokens_details.rejected_prediction_tokens",
	})
	responsesUsage = newUsageFields(usageFields{
		input: "input_tokens", cached: "input_tokens_details.cached_tokens", written: "input_tokens_details.cache_write_tokens",
		output: "output_tokens", reasoning: "output_tokens_details.reasoning_tokens", total: "total_tokens", inputAll: true, outputAll: true,
	})
	messagesUsage = newUsageFields(usageFields{
		input: "input_tokens", cached: "cache_read_input_tokens", written: "cache_creation_input_tokens cache_creation.ephemeral_1h_input_tokens cache_creation.ephemeral_5m_input_tokens", output: "output_tokens", reasoning: "output_tokens_details.thinking_tokens", hosted: "server_tool_use.web_search_requests", outputAll: true,
	})
	geminiUsage = newUsageFields(usageFields{
		input: "promptTokenCount", more: "toolUsePromptTokenCount", cached: "cachedContentTokenCount", output: "candidatesTokenCount", reasoning: "thoughtsTokenCount", total: "totalTokenCount", inputAll: true,
	})
	ollamaUsage = newUsageFields(usageFields{input: "prompt_eval_count", output: "eval_count"})
)

// EmbeddingUsage returns the usage of an answer with embeddings.
func EmbeddingUsage(api middleware.Dialect, answer []byte) sdk.Usage {
	if api == middleware.DialectOllama {
		return ollamaUsage.read(gjson.ParseBytes(answer))
	}
	u := chatUsage.read(gjson.GetBytes(answer, "usage"))
	u.InputTokens, u.ReasoningTokens = u.InputTokens+u.ReasoningTokens, 0 // if only the total is reported, read counts the input as reasoning
	return u
}

// read reads a usage. If a count is invalid, it returns -1 input tokens, which the engine rejects.
func (f *usageFields) read(v gjson.Result) sdk.Usage {
	n := f.countsIn(v)
	if slices.Min(n[:]) < 0 {
		return sdk.Usage{InputTokens: -1}
	}
	in, more, cached, written := n[countInput], n[countMore], n[countCached], n[countWritten]
	out, reasoning, total, hosted := n[countOutput], n[countReasoning], n[countTotal], n[countHosted]
	// xAI counts reasoning separately from the output; reasoning that exceeds the output is not part of it.
	isBeside := total == in+out+reasoning || reasoning > out
	beyond := max(0, total-in-more-out) // Google's OpenAI-compatible API includes reasoning only in the total
	if f.inputAll {
		in = max(0, in+more-cached-written)
	}
	if f.outputAll && !isBeside {
		out -= reasoning
		reasoning += beyond
	} else {
		reasoning = max(reasoning, beyond)
	}
	u := sdk.Usage{InputTokens: in, CachedInputTokens: cached, CacheWriteTokens: written, OutputTokens: out, ReasoningTokens: reasoning, HostedCalls: hosted, Searches: hosted}
	// Anthropic's other counts do not include the tokens for compacting a context.
	for _, one := range v.Get("iterations").Array() {
		if one.Get("type").Str != "compaction" {
			continue
		}
		more := f.read(one)
		if more.InputTokens < 0 {
			return more
		}
		u = u.Add(more)
	}
	return u
}

// countsIn returns the counts of a usage: the largest of alternative paths, or -1 if one is invalid.
func (f *usageFields) countsIn(v gjson.Result) (n [counts]int) {
	take := func(path string, v gjson.Result) {
		i, isKnown := f.counts[path]
		if !isKnown || v.Type == gjson.Null || n[i] < 0 {
			return
		}
		if tokens := tokensOf(v); tokens < 0 {
			n[i] = -1
		} else {
			n[i] = max(n[i], tokens)
		}
	}
	v.ForEach(func(name, v gjson.Result) bool {
		take(name.Str, v)
		if v.IsObject() {
			v.ForEach(func(inner, v gjson.Result) bool {
				take(name.Str+"."+inner.Str, v)
				return true
			})
		}
		return true
	})
	return n
}

// tokensOf returns a number of tokens, which some servers write as 12.0, 1.2e1 or "12", or -1 for anything else:
// an invalid count must not lose the answer, and -1 tells the engine that the bill is wrong.
func tokensOf(count gjson.Result) int {
	n, err := strconv.ParseFloat(strings.Trim(count.Raw, `"`), 64)
	const limit = 1 << 50
	switch {
	case math.IsInf(n, 1), n > limit: // including numbers too large for a float
		n = limit
	case err != nil, !(n >= 0), n != math.Trunc(n):
		return -1
	}
	return int(n)
}

func (f *usageFields) write(u sdk.Usage) json.RawMessage {
	const isLeftOut = -1
	n := [counts]int{countInput: u.InputTokens, countMore: isLeftOut, countCached: u.CachedInputTokens, countWritten: u.CacheWriteTokens,
		countOutput: u.OutputTokens + u.ReasoningTokens, countReasoning: u.ReasoningTokens, countTotal: isLeftOut}
	if f.inputAll {
		n[countInput] += u.CachedInputTokens + u.CacheWriteTokens
		n[countTotal] = n[countInput] + n[countOutput]
	} else if u.ReasoningTokens == 0 {
		n[countReasoning] = isLeftOut
	}
	usage := Object{}
	for _, p := range f.paths {
		if n[p.count] != isLeftOut {
			usage.setPath(p.path, n[p.count])
		}
	}
	return rawJSON(usage)
}

// known returns the paths of a usage below a name, for [newKnown], except those that are always 0.
func (f *usageFields) known(name string) string {
	var b strings.Builder
	for _, p := range f.paths {
		if p.count != countZero && p.count != countMore {
			b.WriteString(" " + name + "." + p.path)
		}
	}
	return b.String()
}
