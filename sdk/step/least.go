package step

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/stepfall/stepfall/sdk"
)

// What leastTokens counts. Tokenizers divide a text where words begin and where digits and
// letters meet before they join what is between. Per piece two thirds are left to those that
// join words, and spareTokens for what is cut off a text.
const (
	perPiece    = 2. / 3
	perHan      = 0.4     // further pieces: a character of a script without spaces
	perDigit    = 1. / 4  // a digit beyond the first of a number
	perSign     = 1. / 32 // another byte that is not the one before once more
	leastBytes  = 6       // no more than a token for so many bytes are counted
	spareTokens = 8
)

// The kinds of bytes that pieces are divided by.
const (
	spaceByte = iota
	letterByte
	digitByte
	otherByte
)

// byteKinds are the kinds of bytes, byteWeights what each adds within a piece.
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

// leastTokens returns how many tokens a text has at the least. Of prose and code it is about
// half of what tokenizers make, of base64 and Chinese a quarter. White space and runs of one
// sign count nothing.
func leastTokens(s string) float64 {
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

// textCount adds up the tokens that texts have at the least, or so far only their bytes.
type textCount struct {
	isRead        bool
	bytes, tokens float64
}

func (c *textCount) add(s string) {
	if c.isRead {
		c.tokens += leastTokens(s)
	} else {
		c.bytes += float64(len(s))
	}
}

// addPrompt adds a conversation, without images, files and signatures, whose tokens are unknown.
func (c *textCount) addPrompt(messages []sdk.Message) {
	for i := range messages {
		for k := range messages[i].Parts {
			switch p := &messages[i].Parts[k]; p.Kind {
			case sdk.PartToolCall:
				c.add(p.ToolCall.Arguments)
			case sdk.PartToolResult:
				c.add(p.ToolResult.Content)
			default:
				c.add(p.Text)
			}
		}
	}
}

// addAnswer adds an answer, and its reasoning where the server reports none: the summary of
// one that it reports may be longer.
func (c *textCount) addAnswer(a *sdk.Answer, hasReasoning bool) {
	c.add(a.Text)
	if !hasReasoning {
		c.add(a.Reasoning)
	}
	for i := range a.ToolCalls {
		c.add(a.ToolCalls[i].Arguments)
	}
	for _, s := range a.Choices {
		c.add(s)
	}
}

// mayExceed reports whether texts of so many bytes can have more than n tokens at the least;
// then they have to be read.
func (c *textCount) mayExceed(n float64) bool {
	c.isRead = c.bytes/leastBytes-spareTokens > n
	return c.isRead
}

// least returns the lower bound on the tokens of what was read, at most most.
func (c *textCount) least(most float64) float64 { return min(math.Ceil(c.tokens-spareTokens), most) }

// raise compares u with the lower bound on the tokens of the answer and, if all of it is billed, the prompt. It raises
// what is below to the estimated tokens, within d, and returns why, or "".
func (d *demand) raise(u *sdk.Usage, a *sdk.Answer) (doubt string) {
	var in, out textCount
	input := float64(u.InputTokens) + float64(u.CachedInputTokens) + float64(u.CacheWriteTokens)
	if in.addPrompt(d.prompt); in.mayExceed(input) {
		in.addPrompt(d.prompt)
	}
	output := float64(u.OutputTokens) + float64(u.ReasoningTokens)
	if out.addAnswer(a, u.ReasoningTokens > 0); out.mayExceed(output) {
		out.addAnswer(a, u.ReasoningTokens > 0)
	}
	if n := in.least(d.input); n > input {
		u.InputTokens += int(min(max(n, float64(d.promptTokens)), d.input) - input)
		doubt = fmt.Sprintf("%.0f input tokens are reported of a prompt of at least %.0f", input, n)
	}
	// Each log-probability is of a token.
	if n := max(out.least(d.output), min(float64(len(a.LogProbs)-spareTokens), d.output)); n > output {
		u.OutputTokens += int(min(max(n, float64(answerTokens(a))), d.output) - output)
		doubt = fmt.Sprintf("%.0f output tokens are reported beside an answer of at least %.0f", output, n)
	}
	u.Estimated = u.Estimated || doubt != ""
	return doubt
}
