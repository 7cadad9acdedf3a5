package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
)

// Refusal is an error response. The client gets it in the form of its API.
type Refusal = dialect.Refusal

// errShutdown is the cause that cancels steps which outlast the server's grace period: their clients get 503
// and can retry elsewhere.
var errShutdown = errors.New("the gateway is shutting down")

// statusClientGone is nginx's status for a client that disconnected. No client reads it.
const statusClientGone = 499

// The waiting times that clients are told if the provider states none.
const (
	waitRate    = time.Second
	waitOutage  = 5 * time.Second
	waitRestart = time.Second
)

// failures are the refusals for langchaingo's error codes.
var failures = map[llms.ErrorCode]Refusal{
	llms.ErrCodeInvalidRequest: {Status: http.StatusBadRequest, Code: "invalid_request_error"},
	llms.ErrCodeNotImplemented: {Status: http.StatusBadRequest, Code: "invalid_request_error"},
	llms.ErrCodeTokenLimit:     {Status: http.StatusBadRequest, Code: "context_length_exceeded"},
	llms.ErrCodeContentFilter:  {Status: http.StatusBadRequest, Code: "content_filter"},
	// These concern the gateway's own keys and model names, so a retry cannot succeed.
	llms.ErrCodeAuthentication:      {Status: http.StatusBadGateway, Code: "upstream_error", Final: true},
	llms.ErrCodeResourceNotFound:    {Status: http.StatusBadGateway, Code: "upstream_error", Final: true},
	llms.ErrCodeQuotaExceeded:       {Status: http.StatusTooManyRequests, Code: "insufficient_quota", Final: true},
	llms.ErrCodeRateLimit:           {Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded"},
	llms.ErrCodeTimeout:             {Status: http.StatusGatewayTimeout, Code: "timeout"},
	llms.ErrCodeCanceled:            {Status: statusClientGone, Code: "canceled"},
	llms.ErrCodeProviderUnavailable: {Status: http.StatusServiceUnavailable, Code: "provider_unavailable", RetryAfter: waitOutage},
}

// refusalOf converts the error of a step to a Refusal.
func refusalOf(ctx context.Context, err error) *Refusal {
	if refused, ok := errors.AsType[*Refusal](err); ok {
		return refused
	}
	if errors.Is(context.Cause(ctx), errShutdown) {
		return &Refusal{Status: http.StatusServiceUnavailable, Code: "provider_unavailable", Message: errShutdown.Error(), RetryAfter: waitRestart}
	}
	code := llms.ErrCodeUnknown
	if typed, ok := errors.AsType[*llms.Error](err); ok {
		code = typed.Code
	}
	r := &Refusal{Status: http.StatusBadGateway, Code: "upstream_error"}
	if told, ok := failures[code]; ok {
		r = &told
	}
	r.Message = err.Error()
	switch wait := retryAfter(err); {
	case code == llms.ErrCodeRateLimit:
		r.RetryAfter = max(wait, waitRate)
	case code == llms.ErrCodeProviderUnavailable && wait > 0:
		r.RetryAfter = wait
	}
	if errors.Is(err, sdk.ErrRequestRefused) { // a retry would pay for the draft again
		r.Code, r.Final = "request_refused", true
	}
	if p, ok := errors.AsType[*middleware.ProviderError](err); ok {
		addProviderDetails(r, p, code)
	}
	if errors.Is(err, sdk.ErrBudgetExhausted) {
		r.Reason = reasonBudget
	}
	if errors.Is(err, sdk.ErrStoreUnavailable) { // the store's address concerns only the operator
		r.Reason = ReasonStore
		r.Message = "the caps of this request cannot be checked: " + sdk.ErrStoreUnavailable.Error()
	}
	return r
}

// addProviderDetails adds those details of a provider's error that concern the client.
func addProviderDetails(r *Refusal, p *middleware.ProviderError, code llms.ErrorCode) {
	switch {
	case p.Status == http.StatusRequestEntityTooLarge && r.RetryAfter == 0:
		r.Status, r.Code = p.Status, "request_too_large"
	case code == llms.ErrCodeResourceNotFound && p.Param != "" && p.Param != "model":
		r.Status, r.Code, r.Param = http.StatusNotFound, "not_found", p.Param // a resource of the client's own
	case r.Status == http.StatusBadRequest:
		r.Param = p.Param
	}
}

// retryAfter returns how long a provider asked to wait, or the time until the first circuit admits a call.
func retryAfter(err error) time.Duration {
	if failed, ok := errors.AsType[*llms.Error](err); ok {
		if wait, ok := failed.Details[middleware.DetailRetryAfter].(time.Duration); ok && wait > 0 {
			return wait
		}
	}
	if p, ok := errors.AsType[*middleware.ProviderError](err); ok && p.RetryAfter > 0 {
		return p.RetryAfter
	}
	return 0
}

// clean returns a text without secrets, for clients and logs.
func (g *Gateway) clean(s string) string { return g.redactor().Text(s) }

// knownSecrets are the last result of Options.Secrets with its redactor. Building a redactor takes milliseconds,
// and the secrets only change with the policy.
type knownSecrets struct {
	texts    []string
	redactor *redact.Redactor
}

// redactor returns the redactor for Options.Secrets. Without them it returns nil, which only removes credential shapes.
func (g *Gateway) redactor() *redact.Redactor {
	if g.o.Secrets == nil {
		return nil
	}
	texts := g.o.Secrets()
	if last := g.secrets.Load(); last != nil && slices.Equal(last.texts, texts) {
		return last.redactor
	}
	fresh := &knownSecrets{slices.Clone(texts), redact.New(texts...)}
	g.secrets.Store(fresh)
	return fresh.redactor
}
