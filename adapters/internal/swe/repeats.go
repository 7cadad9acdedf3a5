package swe

import (
	"crypto/sha256"

	"github.com/tmc/langchaingo/llms"
)

// maxRepeats is how often a model may make the same calls with the same results before its attempt ends: it is in a
// loop, and pays for each round.
const maxRepeats = 3

// repeats counts turns by the hash of their calls and results.
type repeats map[[sha256.Size]byte]int

// isLoop counts the last turn, whose results are the last messages, and reports whether it has occurred maxRepeats
// times.
func (r repeats) isLoop(calls []llms.ToolCall, messages []llms.MessageContent) bool {
	hash := sha256.New()
	for i, c := range calls {
		hash.Write([]byte(c.FunctionCall.Name + "\x00" + c.FunctionCall.Arguments + "\x00"))
		for _, part := range messages[len(messages)-len(calls)+i].Parts {
			if result, ok := part.(llms.ToolCallResponse); ok {
				hash.Write([]byte(result.Content + "\x00"))
			}
		}
	}
	key := [sha256.Size]byte(hash.Sum(nil))
	r[key]++
	return r[key] >= maxRepeats
}
