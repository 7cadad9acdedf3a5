package step

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/stepfall/stepfall/sdk"
)

// Weights of minTokens. Before they merge anything, tokenizers split a text into pieces where words
// begin and where digits and letters meet.
const (
	perPiece    = 2. / 3  // below 1 for tokenizers that merge words
	perHan      = 0.4     // pieces per character of a script without spaces
	perDigit    = 1. / 4  // pieces per digit beyond the first of a number
	perSign     = 1. / 32 // pieces per other byte that differs from the one before
	leastBytes  = 6       // at most one token is counted per so many bytes
	spareTokens = 8       // subtracted for trimmed texts
)

// The kinds of bytes whose changes divide pieces.
const (
	spaceByte = iota
	letterByte
	digitByte
	otherByte
)

// byteKinds has the kind of each byte, and byteWeights the pieces that it counts for within a piece.
var byteKinds, byteWeights = func() (kinds [256]uint8, weights [256]float64) {
	for i := range kinds {
		kinds[i], weights[i] = otherByte, perSign
		switch c := byte(i); {
		case c <= ' ':
			kinds[i], weights[i] = spaceByte, 0
		case '0' <= c && c <= '9':
			kinds[i], weights[i] = digitByte, perDigit
		case c >= utf8.RuneSelf || 'a' <= c|0x20 && c|0x20 <= 'z':
			kinds[i] = letterByte
		}
		if 0xE3 <= i && i <= 0xED { // the first byte of Han, kana and Hangul
			weights[i] = perHan
		}
	}
	return kinds, weights
}()

// minTokens returns a lower bound on the tokens of s: about half of what tokenizers produce for prose
// and code, a quarter for base64 and Chinese. White space and runs of one character do not count.
func minTokens(s string) float64 {
	pieces, before, last := 0.0, uint8(spaceByte), byte(' ')
	for i := range len(s) {
		c := s[i]
		kind := byteKinds[c]
		switch {
		case c == last:
		case kind == before || kind == spaceByte || kind == letterByte && before == otherByte:
			pieces += byteWeights[c]
		default:
			pieces++
		}
		before, last = kind, c
	}
	return min(perPiece*pieces, float64(len(s))/leastBytes)
}

// sumPrompt adds up a function of the texts of a conversation, except images, files and signatures, whose
// tokens are unknown.
func sumPrompt(messages []sdk.Message, of func(string) float64) (sum float64) {
	for i := range messages {
		for k := range messages[i].Parts {
			switch p := &messages[i].Parts[k]; p.Kind {
			case sdk.PartToolCall:
				sum += of(p.ToolCall.Arguments)
			case sdk.PartToolResult:
				sum += of(p.ToolResult.Content)
			default:
				sum += of(p.Text)
			}
		}
	}
	return sum
}

// sumAnswer is sumPrompt for an answer. Its reasoning counts only if the server reports no reasoning tokens:
// what it shows of reported ones is a summary, which can be longer.
func sumAnswer(a *sdk.Answer, hasReasoning bool, of func(string) float64) float64 {
	sum := of(a.Text)
	if !hasReasoning {
		sum += of(a.Reasoning)
	}
	for i := range a.ToolCalls {
		sum += of(a.ToolCalls[i].Arguments)
	}
	for _, s := range a.Choices {
		sum += of(s)
	}
	return sum
}

// leastTokens returns a lower bound on the tokens of texts, or 0 if their bytes alone show that it does not
// exceed the reported tokens: that is far faster.
func leastTokens(sum func(of func(string) float64) float64, reported float64) float64 {
	if sum(func(s string) float64 { return float64(len(s)) })/leastBytes <= reported {
		return 0
	}
	return math.Ceil(sum(minTokens) - spareTokens)
}

// raise compares u with lower bounds on the tokens of the answer and, if all of it is billed, the prompt.
// It raises counts below them to the estimated tokens, within d, and returns why, or "".
func (d *demand) raise(u *sdk.Usage, a *sdk.Answer) (doubt string) {
	input := float64(u.InputTokens) + float64(u.CachedInputTokens) + float64(u.CacheWriteTokens)
	output := float64(u.OutputTokens) + float64(u.ReasoningTokens)
	prompt := func(of func(string) float64) float64 { return sumPrompt(d.prompt, of) }
	answer := func(of func(string) float64) float64 { return sumAnswer(a, u.ReasoningTokens > 0, of) }
	if n := min(leastTokens(prompt, input), d.input); n > input {
		u.InputTokens += int(min(max(n, float64(d.promptTokens)), d.input) - input)
		doubt = fmt.Sprintf("%.0f input tokens are reported of a prompt of at least %.0f", input, n)
	}
	// There is one log-probability per token.
	if n := min(max(leastTokens(answer, output), float64(len(a.LogProbs)-spareTokens)), d.output); n > output {
		u.OutputTokens += int(min(max(n, float64(answerTokens(a))), d.output) - output)
		doubt = fmt.Sprintf("%.0f output tokens are reported beside an answer of at least %.0f", output, n)
	}
	u.Estimated = u.Estimated || doubt != ""
	return doubt
}
