package middleware

import (
	"maps"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// findStopWord returns the position of the first stop word in a text, and the word; -1 if there is none.
func findStopWord(text string, words []string) (at int, word string) {
	at = -1
	for _, w := range words {
		if i := strings.Index(text, w); w != "" && i >= 0 && (at < 0 || i < at) {
			at, word = i, w
		}
	}
	return at, word
}

// cutAtStopWords ends an answer at the caller's stop words, because not every provider does, and drops the
// tool calls after that point.
func (c *call) cutAtStopWords(resp *llms.ContentResponse) *llms.ContentResponse {
	for i, choice := range resp.Choices {
		at, word := findStopWord(choice.Content, c.resolved.StopWords)
		if at < 0 {
			continue
		}
		calls := 0
		own := editExtra(choice, func(x *Extra) {
			x.Parts, calls = partsUntil(x.Parts, at)
			x.StopReason, x.StopSequence, x.LogProbs = stopSequence, word, tokensUntil(x.LogProbs, at)
		})
		own.Content, own.StopReason, own.FuncCall = choice.Content[:at], stopSequence, nil
		own.ToolCalls = slices.Clip(choice.ToolCalls[:min(calls, len(choice.ToolCalls))])
		resp = &llms.ContentResponse{Choices: slices.Clone(resp.Choices)}
		resp.Choices[i] = own
	}
	return resp
}

const stopSequence = "stop_sequence"

// editExtra returns a copy of a choice, with a copy of its [Extra], if any, changed by edit.
func editExtra(choice *llms.ContentChoice, edit func(x *Extra)) *llms.ContentChoice {
	own := *choice
	if x := ExtraOf(choice); x != nil {
		extra := *x
		edit(&extra)
		own.GenerationInfo = maps.Clone(choice.GenerationInfo)
		own.GenerationInfo[KeyExtra] = &extra
	}
	return &own
}

// partsUntil returns the parts of an answer up to the given length of its text, and how many of them are
// tool calls.
func partsUntil(parts []llms.ContentPart, length int) (own []llms.ContentPart, calls int) {
	for _, p := range parts {
		text := textOf(p)
		if len(text) > length {
			if length > 0 {
				own = append(own, llms.TextContent{Text: text[:length]})
			}
			return own, calls
		}
		if _, isCall := p.(llms.ToolCall); isCall {
			calls++
		}
		length -= len(text)
		own = append(own, p)
	}
	return own, calls
}

func tokensUntil(tokens []sdk.TokenLogProb, length int) []sdk.TokenLogProb {
	for i := range tokens {
		if length -= len(tokens[i].Token); length < 0 {
			return tokens[:i:i]
		}
	}
	return tokens
}

// stopper ends the streamed text of a choice at a stop word.
type stopper struct {
	held  string // may be the beginning of a stop word
	ended bool
}

// next returns the part of a text that can be shown after its next piece.
func (s *stopper) next(piece string, words []string) string {
	text := s.held + piece
	s.held = ""
	if at, _ := findStopWord(text, words); at >= 0 {
		s.ended = true
		return text[:at]
	}
	longest := 0
	for _, w := range words {
		longest = max(longest, len(w))
	}
	for n := min(len(text), longest-1); n > 0; n-- {
		tail := text[len(text)-n:]
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, tail) }) {
			s.held = tail
			return text[:len(text)-n]
		}
	}
	return text
}

// cutAtStopWord returns the part of a piece that precedes a stop word, or nil if nothing is left.
func (s *streamState) cutAtStopWord(d *Delta) *Delta {
	if s.stops == nil {
		s.stops = map[int]*stopper{}
	}
	stop := s.stops[d.Choice]
	if stop == nil {
		stop = &stopper{}
		s.stops[d.Choice] = stop
	}
	if stop.ended {
		return nil
	}
	text := d.Text
	if text != "" {
		text = stop.next(text, s.call.resolved.StopWords)
	} else if d.Tool != nil || d.Raw != nil { // the text before it is complete
		text, stop.held = stop.held, ""
	}
	if text == d.Text {
		return d
	}
	own := *d
	own.Text, own.LogProbs = text, nil // log-probabilities repeat the text
	if own.Tool == nil {
		return own.unlessEmpty()
	}
	return &own // an empty piece of a tool call can begin that call
}
