package feature

import (
	"maps"

	"github.com/stepfall/stepfall/sdk"
)

// argumentsPrefix begins the names of the features of a tool call's arguments, so
// that they can be weighted apart from those of the whole answer: the rest of a tool
// call is form, and nearly certain.
const argumentsPrefix = "args_"

// OfAnswer returns the features of an answer's tokens by name: of all of them, and
// with [argumentsPrefix] of those that spell the arguments of its tool calls. Without
// log-probabilities there are none.
func OfAnswer(a *sdk.Answer) map[string]float64 {
	out := map[string]float64{}
	maps.Insert(out, features("", a.LogProbs))
	var arguments []sdk.TokenLogProb
	for _, call := range a.ToolCalls {
		arguments = append(arguments, tokensOf(a.LogProbs, call.Arguments)...)
	}
	maps.Insert(out, features(argumentsPrefix, arguments))
	return out
}

func features(prefix string, tokens []sdk.TokenLogProb) func(yield func(string, float64) bool) {
	return func(yield func(string, float64) bool) {
		f, ok := OfTokens(tokens)
		if !ok {
			return
		}
		for i, v := range f.Values(nil) {
			if !yield(prefix+Names()[i], v) {
				return
			}
		}
	}
}
