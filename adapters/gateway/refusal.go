package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// Refusal is why a request got no answer. Its client is told in the form of its API.
type Refusal = dialect.Refusal

// errShutdown is the cause that ends the context of steps which outlast a server's
// grace: their clients get 503 and may ask again elsewhere.
var errShutdown = errors.New("the gateway is shutting down")

// statusClientGone is nginx's status for a client that did not wait; nobody reads it.
const statusClientGone = 499

// Without a word of the provider, clients are told to wait this long.
const (
	waitRate    = time.Second
	waitOutage  = 5 * time.Second
	waitRestart = time.Second
)

// failure turns the error of a step into what the client is told.
func failure(ctx context.Context, err error) *Refusal {
	if refused, ok := errors.AsType[*Refusal](err); ok {
		return refused
	}
	r := &Refusal{Status: http.StatusBadGateway, Code: "upstream_error", Message: err.Error()}
	if errors.Is(context.Cause(ctx), errShutdown) {
		r.Status, r.Code, r.Message, r.RetryAfter = http.StatusServiceUnavailable, "provider_unavailable", errShutdown.Error(), waitRestart
		return r
	}
	code := llms.ErrCodeUnknown
	if typed, ok := errors.AsType[*llms.Error](err); ok {
		code = typed.Code
	}
	switch code {
	case llms.ErrCodeInvalidRequest, llms.ErrCodeNotImplemented:
		r.Status, r.Code = http.StatusBadRequest, "invalid_request_error"
	case llms.ErrCodeTokenLimit:
		r.Status, r.Code = http.StatusBadRequest, "context_length_exceeded"
	case llms.ErrCodeContentFilter:
		r.Status, r.Code = http.StatusBadRequest, "content_filter"
	case llms.ErrCodeAuthentication, llms.ErrCodeResourceNotFound: // of our own keys and names: asking again changes nothing
		r.Final = true
	case llms.ErrCodeQuotaExceeded:
		r.Status, r.Code, r.Final = http.StatusTooManyRequests, "insufficient_quota", true
	case llms.ErrCodeRateLimit:
		r.Status, r.Code, r.RetryAfter = http.StatusTooManyRequests, "rate_limit_exceeded", max(retryAfter(err), waitRate)
	case llms.ErrCodeTimeout:
		r.Status, r.Code = http.StatusGatewayTimeout, "timeout"
	case llms.ErrCodeCanceled:
		r.Status, r.Code = statusClientGone, "canceled"
	case llms.ErrCodeProviderUnavailable:
		r.Status, r.Code, r.RetryAfter = http.StatusServiceUnavailable, "provider_unavailable", retryAfter(err)
		if r.RetryAfter <= 0 {
			r.RetryAfter = waitOutage
		}
	}
	if errors.Is(err, sdk.ErrRequestRefused) { // asking again would cost the draft again
		r.Code, r.Final = "request_refused", true
	}
	if p, ok := errors.AsType[*middleware.ProviderError](err); ok {
		setProvider(r, p, code)
	}
	if errors.Is(err, sdk.ErrBudgetExhausted) {
		r.Reason = reasonBudget
	}
	if errors.Is(err, sdk.ErrStoreUnavailable) { // where it is concerns the operator alone
		r.Reason = ReasonStore
		r.Message = "the caps of this request cannot be checked now: " + sdk.ErrStoreUnavailable.Error()
	}
	return r
}

// setProvider adds what the client is told of a provider's own words.
func setProvider(r *Refusal, p *middleware.ProviderError, code llms.ErrorCode) {
	switch {
	case p.Status == http.StatusRequestEntityTooLarge && r.RetryAfter == 0:
		r.Status, r.Code = p.Status, "request_too_large"
	case code == llms.ErrCodeResourceNotFound && p.Param != "" && p.Param != "model":
		r.Status, r.Code, r.Param = http.StatusNotFound, "not_found", p.Param // an item of the client's own
	case r.Status == http.StatusBadRequest:
		r.Param = p.Param
	}
}

// retryAfter returns how long a provider asked to be left alone, or how long it is until
// the first circuit lets a call through.
func retryAfter(err error) time.Duration {
	if failed, ok := errors.AsType[*llms.Error](err); ok {
		if wait, ok := failed.Details[middleware.DetailRetryAfter].(time.Duration); ok && wait > 0 {
			return wait
		}
	}
	if p, ok := errors.AsType[*middleware.ProviderError](err); ok && p.RetryAfter > 0 {
		return p.RetryAfter
	}
	if c, ok := errors.AsType[*step.CallError](err); ok {
		return c.After
	}
	return 0
}

// clean returns a text without secrets, for clients and logs.
func (g *Gateway) clean(s string) string {
	if g.o.Secrets == nil {
		return redact.New().Text(s)
	}
	return redact.New(g.o.Secrets()...).Text(s)
}
