package middleware

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// KeyExtra is where the GenerationInfo of a choice holds its [Extra].
const KeyExtra = "extra"

// Extra is the part of an answer that llms.ContentChoice has no fields for. What belongs to the whole
// response is the same in each of its choices.
type Extra struct {
	// ID is the answer's, RequestID that of the request, for the provider's support.
	ID, RequestID string
	// Served is the model that the provider says it used, Speed Anthropic's name for its speed, Geo for where
	// it ran.
	Served, Fingerprint, ServiceTier, Speed, Geo string
	// Created is the time of the answer, in Unix seconds; 0 is unknown.
	Created int64
	// StopReason is the provider's own word, StopSequence the stop sequence that was reached.
	StopReason, StopSequence string
	// Refusal is the model's text when it declined, Blocked the reason why the provider blocked the
	// answer.
	Refusal, Blocked string
	LogProbs         []sdk.TokenLogProb
	// Usage is the whole response's. Its counts do not overlap. HourWriteTokens of its CacheWriteTokens
	// are kept for an hour; nil is not stated. AudioTokens of its InputTokens are audio.
	Usage           sdk.Usage
	HourWriteTokens *int
	AudioTokens     int
	// Parts are the parts of the answer in order, with what llms.ContentChoice cannot hold: reasoning with
	// its signatures, citations, results of the provider's own tools. A later turn sends them back as the
	// parts of the AI message. They are nil if content, reasoning and tool calls are complete.
	Parts []llms.ContentPart
	// NotSent lists the fields of [Params] that were set and that the model's API cannot express.
	NotSent []string
	// Unknown is a JSON object with the members of the answer that are not known here.
	Unknown RawPart
	// Raw is the answer as the provider wrote it. It is nil for a streamed answer.
	Raw json.RawMessage
}

// texts returns the texts that the provider wrote.
func (x *Extra) texts() []*string {
	return []*string{&x.ID, &x.RequestID, &x.Served, &x.Fingerprint, &x.ServiceTier, &x.Speed, &x.Geo, &x.StopReason, &x.StopSequence, &x.Refusal, &x.Blocked}
}

// StopError begins the stop reason of an answer that its server did not finish; the server's word
// follows.
const StopError = "error: "

// ExtraOf returns the Extra of a choice, nil if it has none, as with langchaingo's own clients. It
// must not be modified.
func ExtraOf(c *llms.ContentChoice) *Extra {
	if c == nil {
		return nil
	}
	x, _ := c.GenerationInfo[KeyExtra].(*Extra)
	return x
}
