package middleware

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// KeyExtra is where the GenerationInfo of a choice holds its [Extra].
const KeyExtra = "extra"

// Extra is what an answer says beyond llms.ContentChoice. What belongs to the whole
// response is the same in each of its choices.
type Extra struct {
	// ID is the answer's, RequestID the one of the request, for the provider's support.
	ID, RequestID string
	// Served is the model that the provider says it used, Speed Anthropic's word for how fast.
	Served, Fingerprint, ServiceTier, Speed string
	// Created is when, in Unix seconds; 0 is unknown.
	Created int64
	// StopReason is the provider's own word, StopSequence the stop word that was met.
	StopReason, StopSequence string
	// Refusal is what the model said when it declined, Blocked why the provider let
	// nothing through.
	Refusal, Blocked string
	LogProbs         []sdk.TokenLogProb
	// Usage is the whole response's. Its counts do not overlap.
	Usage sdk.Usage
	// Parts are the answer in the order in which it came, with what llms.ContentChoice
	// has no place for: reasoning with its signatures, citations, results of the
	// provider's own tools. A later turn sends them back as the parts of the AI message.
	// They are nil where content, reasoning and tool calls say it all.
	Parts []llms.ContentPart
	// NotSent are the fields of [Params] that were asked for and that the model's API
	// has no word for.
	NotSent []string
	// Unknown is what the answer has beyond the members that are known here: an object of
	// its form with nothing but them.
	Unknown RawPart
	// Raw is the answer as the provider wrote it. It is nil for a streamed answer.
	Raw json.RawMessage
}

// texts are those that the provider wrote.
func (x *Extra) texts() []*string {
	return []*string{&x.ID, &x.RequestID, &x.Served, &x.Fingerprint, &x.ServiceTier, &x.Speed, &x.StopReason, &x.StopSequence, &x.Refusal, &x.Blocked}
}

// StopError begins the stop reason of an answer that its server did not finish; the server's word
// follows.
const StopError = "error: "

// ExtraOf returns what the model that gave the choice said beyond it: nil when that is
// nothing, as with langchaingo's own clients. It must not be modified.
func ExtraOf(c *llms.ContentChoice) *Extra {
	if c == nil {
		return nil
	}
	x, _ := c.GenerationInfo[KeyExtra].(*Extra)
	return x
}
