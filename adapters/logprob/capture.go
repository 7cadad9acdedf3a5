package logprob

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Options says what the tap changes in a request. The zero value changes
// nothing and only listens.
type Options struct {
	// TopLogProbs asks for log-probabilities with that many alternatives at each
	// token, 1 to 20; 0 asks for none.
	TopLogProbs int
	// TopP restores the nucleus sampling parameter, which langchaingo's OpenAI
	// client drops; 0 leaves the request as it is.
	TopP float64
	// DropTemperature removes the temperature, which reasoning models refuse.
	DropTemperature bool
}

// Choice is what the tap saw of one of the answer's choices.
type Choice struct {
	LogProbs     []sdk.TokenLogProb
	FinishReason string
	// ToolCalls are assembled by index, so that calls which are streamed in turns
	// do not run into each other.
	ToolCalls []sdk.ToolCall
}

// Capture is what the tap saw of one call. When the client repeats a request,
// the last one counts. It is safe for concurrent use.
type Capture struct {
	options Options

	mu   sync.Mutex
	sent bool // guarded by mu
	seen seen // guarded by mu
}

// seen is what one request brought.
type seen struct {
	status    int
	header    http.Header
	received  time.Time
	served    string
	choices   []Choice
	usage     sdk.Usage
	hasUsage  bool
	streamed  bool
	done      bool
	streamErr string
	refused   bool
}

type captureKey struct{}

// WithCapture returns a context whose requests the tap records in the capture.
func WithCapture(ctx context.Context, o Options) (context.Context, *Capture) {
	c := &Capture{options: o}
	return context.WithValue(ctx, captureKey{}, c), c
}

// from returns the capture of ctx, or nil.
func from(ctx context.Context) *Capture {
	c, _ := ctx.Value(captureKey{}).(*Capture)
	return c
}

// wrote hears that a request has been written, or why not.
func (c *Capture) wrote(info httptrace.WroteRequestInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = c.sent || info.Err == nil
}

// Sent reports whether a request of the call went out whole: what the server made
// of it may have to be paid for, whether or not an answer came.
func (c *Capture) Sent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// Status returns the HTTP status of the answer, or 0 when none came.
func (c *Capture) Status() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.status
}

// Header returns a header of the answer, for instance x-ratelimit-remaining-tokens.
func (c *Capture) Header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.header.Get(name)
}

// RetryAfter returns how long the server asked to wait, counted from when its
// answer came, and false when it did not ask.
func (c *Capture) RetryAfter() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ms, err := strconv.ParseFloat(c.seen.header.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return time.Duration(ms * float64(time.Millisecond)), true
	}
	value := c.seen.header.Get("Retry-After")
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 {
		return time.Duration(seconds * float64(time.Second)), true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(c.seen.received)), true
	}
	return 0, false
}

// ServedModel returns the name of the model that the server says it used.
func (c *Capture) ServedModel() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.served
}

// Choices returns what was seen of each choice, by index.
func (c *Capture) Choices() []Choice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen.choices)
}

// Usage returns the usage as the server reported it, and false when it did not.
func (c *Capture) Usage() (sdk.Usage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.usage, c.seen.hasUsage
}

// Truncated reports whether a streamed answer ended before its end mark: the
// client may have returned it as a success.
func (c *Capture) Truncated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.streamed && !c.seen.done
}

// StreamError returns the error that the server sent inside a stream, or "".
func (c *Capture) StreamError() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.streamErr
}

// begin forgets what an earlier request of the same call left.
func (c *Capture) begin(resp *http.Response, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = seen{status: resp.StatusCode, header: resp.Header.Clone(), received: time.Now(), refused: refused}
}

// Refused reports whether the server refused to give log-probabilities.
func (c *Capture) Refused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.refused
}
