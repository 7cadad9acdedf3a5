package logprob

import (
	"context"
	"time"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Tap lets the middleware read what a [Transport] sees. The provider's HTTP client
// must use a Transport; one Tap serves any number of them.
//
//	middleware.Deployment{LLM: model, Tap: logprob.Tap{Options: logprob.Options{TopLogProbs: 5}}}
type Tap struct {
	Options Options
}

var _ middleware.Tap = Tap{}

// Begin implements [middleware.Tap].
func (t Tap) Begin(ctx context.Context) (context.Context, func() middleware.Seen) {
	ctx, capture := WithCapture(ctx, t.Options)
	return ctx, capture.seenByMiddleware
}

func (c *Capture) seenByMiddleware() middleware.Seen {
	wait, asked := c.RetryAfter()
	if asked {
		wait = max(wait, time.Millisecond) // 0 would mean that the server did not ask
	}
	return middleware.Seen{
		Status: c.Status(), RetryAfter: wait, ServedModel: c.ServedModel(), LogProbs: c.logProbs(),
		Sent: c.Sent(), Truncated: c.Truncated(), StreamError: c.StreamError(),
	}
}

// logProbs returns the log-probabilities of the first choice, which is the one
// that the middleware answers with.
func (c *Capture) logProbs() []sdk.TokenLogProb {
	if choices := c.Choices(); len(choices) > 0 {
		return choices[0].LogProbs
	}
	return nil
}
