package scripted

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Reply is the server's answer to a request. The zero value is an empty answer.
type Reply struct {
	Text      string
	Reasoning string
	ToolCalls []ToolCall
	// StopReason defaults to "tool_calls" if there are tool calls, to "length" if MaxTokens truncated the text, and
	// otherwise to "stop".
	StopReason string
	// Usage overrides the counted tokens.
	Usage *Usage
	// Confidence is the typical probability of a token, in (0, 1). The log-probabilities are drawn around it,
	// deterministically for each text. 0 means 0.9.
	Confidence float64
	// Delay is the time before the first byte is sent.
	Delay time.Duration
	Fault Fault
}

// Usage is the token count of one reply. As in OpenAI's API, cached tokens are included in InputTokens,
// and reasoning in OutputTokens.
type Usage struct {
	InputTokens       int
	CachedInputTokens int
	OutputTokens      int
	ReasoningTokens   int
}

// faultKind is the kind of a fault.
type faultKind int

// The kinds of fault.
const (
	// FaultStatus sends the HTTP status Fault.Status with an error object.
	FaultStatus faultKind = iota + 1
	// FaultGarbage sends status 200 and bytes that are not JSON.
	FaultGarbage
	// FaultClose closes the connection without an answer.
	FaultClose
	// FaultHang sends nothing until the client gives up or the server closes.
	FaultHang
	// FaultTruncate ends the answer in the middle. A stream ends regularly but without its last events, which
	// clients mistake for success.
	FaultTruncate
	// FaultStreamError sends an error object within the stream, after a part of the answer. Without streaming
	// it is the same as FaultStatus with 500.
	FaultStreamError
)

// Fault describes an injected error. The zero value is none.
type Fault struct {
	Kind faultKind
	// Status is the HTTP status of FaultStatus; 0 means 500.
	Status int
	// RetryAfter, if positive, is sent as a header with FaultStatus, rounded up to whole seconds.
	RetryAfter time.Duration
	// Message is the text of the error object; empty means the status text.
	Message string
}

// tokenPattern matches words, runs of spaces and signs, each of at most eight characters.
var tokenPattern = regexp.MustCompile(`[\pL\pN_]{1,8}|[\pZ\s]{1,8}|(?s:.)`)

// tokens splits text into tokens. Concatenated, they give the text again.
func tokens(text string) []string { return tokenPattern.FindAllString(text, -1) }

func countTokens(text string) int { return len(tokens(text)) }

func usage(req *Request, r *Reply, choices int) Usage {
	if r.Usage != nil {
		return *r.Usage
	}
	out := countTokens(r.Text)
	for _, c := range r.ToolCalls {
		out += countTokens(c.Name) + countTokens(c.Arguments)
	}
	reasoning := countTokens(r.Reasoning)
	return Usage{InputTokens: countTokens(req.Text()), OutputTokens: (out + reasoning) * choices, ReasoningTokens: reasoning * choices}
}

// logProbs generates log-probabilities for tokens around confidence. They depend only on the arguments.
func logProbs(list []string, confidence float64, top int) []sdk.TokenLogProb {
	if confidence <= 0 || confidence >= 1 {
		confidence = 0.9
	}
	out := make([]sdk.TokenLogProb, len(list))
	for i, token := range list {
		h := fnv.New64a()
		h.Write([]byte(token + "\x00" + strconv.Itoa(i)))
		// FNV spreads short inputs poorly over the high bits, which PCG corrects.
		u := rand.New(rand.NewPCG(h.Sum64(), uint64(i))).Float64()
		// A power of the confidence with mean exponent 1 keeps the typical probability, and gives both certain and
		// uncertain tokens, as real models do.
		p := math.Pow(confidence, 2*u)
		out[i] = sdk.TokenLogProb{Token: token, LogProb: math.Log(p)}
		rest := 1 - p
		for k := range top {
			alternative := sdk.TopLogProb{Token: token, LogProb: out[i].LogProb}
			if k > 0 {
				rest *= 0.6
				alternative = sdk.TopLogProb{Token: token + "~" + strconv.Itoa(k), LogProb: math.Log(max(rest, 1e-9))}
			}
			out[i].Top = append(out[i].Top, alternative)
		}
	}
	return out
}
