package feature

import "github.com/stepfall/stepfall/sdk"

// argumentsPrefix is the prefix of the features of tool calls' arguments, which are
// separate from those of the whole answer because the rest of a tool call is syntax
// and nearly certain.
const argumentsPrefix = "args_"

// OfAnswer returns the features of an answer's tokens by name: those of all tokens and,
// with the prefix "args_", those of the tokens of its tool calls' arguments. Without
// log-probabilities there are none.
func OfAnswer(a *sdk.Answer) map[string]float64 {
	out := map[string]float64{}
	add := func(prefix string, tokens []sdk.TokenLogProb) {
		if f, ok := OfTokens(tokens); ok {
			for i, v := range f.Values(nil) {
				out[prefix+Names()[i]] = v
			}
		}
	}
	add("", a.LogProbs)
	var arguments []sdk.TokenLogProb
	for _, call := range a.ToolCalls {
		arguments = append(arguments, tokensOf(a.LogProbs, call.Arguments)...)
	}
	add(argumentsPrefix, arguments)
	return out
}
