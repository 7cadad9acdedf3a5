package feature

import "github.com/stepfall/stepfall/sdk"

// argumentsPrefix begins the names of the features of a tool call's arguments, so
// that they can be weighted apart from those of the whole answer: the rest of a tool
// call is form, and nearly certain.
const argumentsPrefix = "args_"

// OfAnswer returns the features of an answer's tokens by name: of all of them, and
// with [argumentsPrefix] of those that spell the arguments of its tool calls. Without
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
