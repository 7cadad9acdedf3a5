package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// errHopelessDraft ends a call whose answer a check is certain to reject.
var errHopelessDraft = errors.New("no check would accept this answer")

// draft is a partial answer whose call is ended once a default check is certain to reject it.
type draft struct {
	call *call
	text []byte
	// otherBytes is the length of everything but the text: reasoning, refusal, tool calls.
	otherBytes int
	// tokens counts the tokens with a log-probability, logProb is their sum.
	tokens  int
	logProb float64
	// next is the length of the text at which to check again whether it is JSON.
	next    int
	verdict *sdk.Verdict
}

// tokensToJudge is the minimum number of tokens for judging their mean probability.
const tokensToJudge = 32

// isHopeless adds a piece and reports whether a check is certain to reject the answer; verdict then has the reason.
func (d *draft) isHopeless(piece *Delta) bool {
	d.text = append(d.text, piece.Text...)
	d.otherBytes += len(piece.Reasoning) + len(piece.Refusal)
	if piece.Tool != nil {
		d.otherBytes += len(piece.Tool.Name) + len(piece.Tool.Arguments)
	}
	for _, t := range piece.LogProbs {
		d.tokens++
		d.logProb += t.LogProb
	}
	check, why := d.fault(piece)
	if why == "" {
		return false
	}
	d.verdict = &sdk.Verdict{Verifier: check, Outcome: sdk.Failed, Evidence: why + " (canceled while streaming)"}
	return true
}

// isUndecided reports whether more tokens are needed to judge the answer's probability.
func (d *draft) isUndecided() bool {
	return d.call.m.c.MinTokenProbability > 0 && d.tokens > 0 && d.tokens < tokensToJudge
}

// fault returns the check that is certain to reject the answer and why, or "".
func (d *draft) fault(piece *Delta) (check, why string) {
	c := d.call
	if d.tokens >= tokensToJudge && math.Exp(d.logProb/float64(d.tokens)) < c.m.c.MinTokenProbability {
		return "check:token_probability", "low token probability"
	}
	// With tools on offer a tool call can follow, and the text does not count.
	if c.m.ownChecks || len(c.query.Tools) > 0 {
		return "", ""
	}
	if piece.Refusal != "" && len(d.text) == 0 {
		return "check:refusal", "refused: " + firstLine(piece.Refusal)
	}
	if why = refusalIn(string(d.text[:min(len(d.text), 160)])); why != "" {
		return "check:refusal", why
	}
	if d.breaksJSON() {
		return "check:json", "is not JSON: " + firstLine(string(d.text))
	}
	return "", ""
}

func (d *draft) breaksJSON() bool {
	f := &d.call.query.Format
	if !f.JSON && len(f.Schema) == 0 || len(d.call.resolved.StopWords) > 0 || len(d.text) < d.next {
		return false
	}
	if !beginsJSON(d.text) { // next is unchanged, so a client that streams on gets the same result
		return true
	}
	d.next = len(d.text) + len(d.text)/4 + 1
	return false
}

func beginsJSON(text []byte) bool {
	from := json.NewDecoder(bytes.NewReader(text))
	var value json.RawMessage
	if err := from.Decode(&value); err != nil {
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	}
	return len(bytes.TrimSpace(text[from.InputOffset():])) == 0
}

func (d *draft) answer(from *deployment) *sdk.Answer {
	const perToken = 4 // bytes
	tokens := max(d.tokens, (len(d.text)+d.otherBytes+perToken-1)/perToken)
	return &sdk.Answer{
		Text: strings.ToValidUTF8(string(d.text), ""), Deployment: from.Name,
		Usage: sdk.Usage{InputTokens: d.call.query.InputTokens, OutputTokens: tokens, Estimated: true},
	}
}
