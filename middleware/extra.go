package middleware

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// KeyExtra is the key of [Extra] in the GenerationInfo of a choice.
const KeyExtra = "extra"

// Extra is the part of an answer that llms.ContentChoice has no fields for. Values that belong to the whole
// response are repeated in each of its choices.
type Extra struct {
	// ID identifies the answer, RequestID the request, for the provider's support.
	ID, RequestID string
	// Served is the model that the provider reports, Speed Anthropic's name for the speed of the answer, Geo
	// the place of inference.
	Served, Fingerprint, ServiceTier, Speed, Geo string
	// Created is the time of the answer, in Unix seconds; 0 means unknown.
	Created int64
	// StopReason is the provider's own name for it, StopSequence the stop sequence that was reached.
	StopReason, StopSequence string
	// Refusal is the model's text when it refused, Blocked the provider's reason for blocking the answer.
	Refusal, Blocked string
	LogProbs         []sdk.TokenLogProb
	// Usage is the usage of the whole response, in counts that do not overlap. HourWriteTokens is how many of
	// its CacheWriteTokens are cached for an hour; nil means not reported. AudioTokens is how many of its
	// InputTokens are audio.
	Usage           sdk.Usage
	HourWriteTokens *int
	AudioTokens     int
	// Parts are the parts of the answer in order, including those that llms.ContentChoice cannot hold:
	// reasoning with its signatures, citations, results of the provider's own tools. A later turn sends them
	// back as the parts of the AI message. Nil means that content, reasoning and tool calls are complete.
	Parts []llms.ContentPart
	// NotSent lists the fields of [Params] that were set but that the model's API cannot express.
	NotSent []string
	// Unknown is a JSON object with the members of the answer that are not recognized.
	Unknown RawPart
	// Raw is the answer as the provider sent it. It is nil for a streamed answer.
	Raw json.RawMessage
}

// texts returns the texts that the provider wrote.
func (x *Extra) texts() []*string {
	return []*string{&x.ID, &x.RequestID, &x.Served, &x.Fingerprint, &x.ServiceTier, &x.Speed, &x.Geo, &x.StopReason, &x.StopSequence, &x.Refusal, &x.Blocked}
}

// StopError begins the stop reason of an answer that its server did not finish; the server's own reason
// follows.
const StopError = "error: "

// ExtraOf returns the Extra of a choice, or nil if it has none, as with langchaingo's own clients. The
// caller must not modify it.
func ExtraOf(c *llms.ContentChoice) *Extra {
	if c == nil {
		return nil
	}
	x, _ := c.GenerationInfo[KeyExtra].(*Extra)
	return x
}
