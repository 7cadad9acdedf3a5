package swe

import (
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// Usage reads the tokens of one response as the providers report them. Each choice
// repeats the usage of the whole response, so that only the first is read. It is
// Estimated when there is nothing to read.
func Usage(r *llms.ContentResponse) sdk.Usage {
	info := map[string]any{}
	if len(r.Choices) > 0 && r.Choices[0].GenerationInfo != nil {
		info = r.Choices[0].GenerationInfo
	}
	number := func(names ...string) int {
		for _, name := range names {
			switch v := info[name].(type) {
			case int:
				return v
			case int32:
				return int(v)
			case int64:
				return int(v)
			case float64:
				return int(v)
			}
		}
		return 0
	}
	u := sdk.Usage{
		InputTokens:       number("PromptTokens", "InputTokens", "input_tokens"),
		OutputTokens:      number("CompletionTokens", "OutputTokens", "output_tokens"),
		CachedInputTokens: number("PromptCachedTokens", "CacheReadInputTokens"),
		CacheWriteTokens:  number("CacheCreationInputTokens"),
		ReasoningTokens:   number("CompletionReasoningTokens", "ReasoningTokens"),
	}
	// OpenAI counts cached tokens among the prompt's and reasoning among the answer's.
	if _, openai := info["PromptTokens"]; openai {
		u.InputTokens = max(0, u.InputTokens-u.CachedInputTokens)
		u.OutputTokens = max(0, u.OutputTokens-u.ReasoningTokens)
	}
	if u == (sdk.Usage{}) {
		text, _ := joined(r)
		u = sdk.Usage{OutputTokens: len(text) / 4, Estimated: true}
	}
	return u
}
