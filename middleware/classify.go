package middleware

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// ReasonCircuitOpen is the reason for excluding a model whose circuits are open.
const ReasonCircuitOpen = "circuit open after repeated failures"

// IsSent reports whether a call was sent to a server. A call stopped by an open circuit was not.
func IsSent(c *sdk.Call) bool {
	return !c.Failed() || c.Error != unavailableError(c.Model).Error()
}

// HasEscalated reports whether a step asked another model after it had an answer. Models that were asked at once, and
// those asked because a call failed, are no escalation.
func HasEscalated(t *sdk.Trace) bool {
	var answer *sdk.Call
	for i := range t.Calls {
		switch c := &t.Calls[i]; {
		case answer == nil && c.Error == "":
			answer = c
		case answer == nil || c.Model == answer.Model || c.Attempt > 1 || !IsSent(c):
		case c.Start.IsZero() || !c.Start.Before(answer.Start.Add(answer.Latency)):
			return true
		}
	}
	return false
}

// CallsSent counts the calls of a step that were sent to a server.
func CallsSent(t *sdk.Trace) (n int) {
	for i := range t.Calls {
		if IsSent(&t.Calls[i]) {
			n++
		}
	}
	return n
}

var errCircuitOpen = errors.New(ReasonCircuitOpen)

// statusText matches the HTTP status in errors of the openai and anthropic clients.
var statusText = regexp.MustCompile(`(?i)(?:status code|status)[: ]+(\d{3})\b`)

// answerText matches clients' errors about an answer that arrived but could not be parsed.
var answerText = regexp.MustCompile(`(?i)no response|empty response|no content in|unsupported content type: |invalid [a-z ]*field type|parse response|parse stream|json: cannot unmarshal|token too long`)

// lostConnectionText matches clients' errors about a connection that failed or ended. EOF is a word: "typeof" is none.
var lostConnectionText = regexp.MustCompile(`request timeout|network error|connection refused|connection reset|\beof\b|no response`)

// classify returns the error of a call with its code and whether the same model can be called again.
func classify(err error, model string) *step.CallError {
	typed := &llms.Error{Provider: model, Message: err.Error(), Cause: err}
	out := &step.CallError{Err: typed}
	typed.Code, out.Retry = codeOf(err)
	out.Refused = typed.Code == llms.ErrCodeInvalidRequest || typed.Code == llms.ErrCodeNotImplemented || typed.Code == llms.ErrCodeTokenLimit
	if p, ok := errors.AsType[*ProviderError](err); ok {
		out.After = p.RetryAfter
	}
	return out
}

func codeOf(err error) (code llms.ErrorCode, retry bool) {
	for _, known := range sentinelCodes {
		if errors.Is(err, known.err) {
			return known.code, known.retry
		}
	}
	if p, ok := errors.AsType[*ProviderError](err); ok {
		return p.Code, p.Retry
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return llms.ErrCodeTimeout, false
	}
	if known, ok := errors.AsType[*llms.Error](err); ok && known.Code != llms.ErrCodeUnknown {
		return known.Code, retryable(known.Code)
	}
	text := strings.ToLower(err.Error())
	if status := statusOf(text); status >= 400 {
		return statusCode(status, text)
	}
	_, panicked := errors.AsType[*step.PanicError](err)
	if _, isNet := errors.AsType[net.Error](err); !panicked && (isNet || lostConnectionText.MatchString(text)) {
		return llms.ErrCodeProviderUnavailable, true
	}
	return llms.ErrCodeUnknown, false
}

func containsAny(text string, signs ...string) bool {
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) })
}

// sentinelCodes are the codes of errors that are classified by identity, and whether the same model can be called again.
var sentinelCodes = []struct {
	err   error
	code  llms.ErrorCode
	retry bool
}{
	{errCallTimeout, llms.ErrCodeTimeout, true},
	{context.Canceled, llms.ErrCodeCanceled, false},
	{ErrEmptyResponse, llms.ErrCodeProviderUnavailable, true},
	{ErrTruncatedStream, llms.ErrCodeProviderUnavailable, true},
}

// failure converts a step's error to an llms.Error with a code to branch on, and with the context's error
// in its chain if the context ended.
func (m *Model) failure(ctx context.Context, err error, t *sdk.Trace, asked []target) error {
	deciding := decidingError(err)
	code := stepCode(ctx, err, deciding, t)
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	failed := &llms.Error{Code: code, Provider: "stepfall", Message: m.c.Redact.Text(err.Error()), Cause: err}
	if code == llms.ErrCodeProviderUnavailable || code == llms.ErrCodeRateLimit {
		if wait := retryDelay(deciding, asked); wait > 0 {
			failed.Details = map[string]any{DetailRetryAfter: wait}
		}
	}
	return failed
}

func stepCode(ctx context.Context, err, deciding error, t *sdk.Trace) llms.ErrorCode {
	typed, known := errors.AsType[*llms.Error](deciding)
	switch {
	case ctx.Err() != nil:
		code, _ := codeOf(ctx.Err())
		return code
	case errors.Is(err, sdk.ErrBudgetExhausted):
		return llms.ErrCodeQuotaExceeded
	case errors.Is(err, sdk.ErrRequestRefused): // it is not the caller's fault, as ErrCodeInvalidRequest would suggest
		return llms.ErrCodeUnknown
	case errors.Is(err, sdk.ErrStoreUnavailable):
		return llms.ErrCodeProviderUnavailable
	case errors.Is(err, sdk.ErrNoFeasibleModel) && slices.ContainsFunc(t.Infeasible, func(i sdk.Infeasible) bool { return i.Reason == ReasonCircuitOpen }): // the request is valid
		return llms.ErrCodeProviderUnavailable
	case errors.Is(err, sdk.ErrNoFeasibleModel) && strings.Contains(err.Error(), step.ReasonLongPrompt): // a shorter prompt is feasible
		return llms.ErrCodeTokenLimit
	case errors.Is(err, sdk.ErrNoFeasibleModel):
		return llms.ErrCodeInvalidRequest
	case known:
		return typed.Code
	}
	return llms.ErrCodeUnknown
}

// decidingError returns the joined error that decides a step's code: the first one that a retry can fix,
// because then the request is valid for some model, or else all of them.
func decidingError(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	for _, one := range joined.Unwrap() {
		if typed, ok := errors.AsType[*llms.Error](one); ok && (typed.Code == llms.ErrCodeProviderUnavailable || typed.Code == llms.ErrCodeRateLimit) {
			return one
		}
	}
	return err
}

// DetailRetryAfter is a key in the Details of a step's llms.Error with the code provider_unavailable
// or rate_limit. Its value is the time.Duration after which a model can be called again, if known: from
// the server's response, or the remaining delay of an open circuit.
const DetailRetryAfter = "retry_after"

// retryDelay returns the shortest time after which one of the models can be called again; 0 means unknown.
func retryDelay(err error, targets []target) (least time.Duration) {
	if failed, ok := errors.AsType[*step.CallError](err); ok {
		least = failed.After
	}
	for _, t := range targets {
		for _, d := range t.deployments {
			if d.breaker.isOpen() {
				if rest := d.breaker.circuit.RemainingDelay(); least == 0 || rest < least {
					least = rest
				}
			}
		}
	}
	return least
}

// isOutcomeUnknown reports whether a status comes from a proxy or gateway that stopped waiting for the upstream
// server, which may have accepted the request and bill it. The 52x are Cloudflare's; its 521 and 523 mean that
// nothing was sent: https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/
func isOutcomeUnknown(status int) bool {
	switch status {
	case http.StatusRequestTimeout, 499, http.StatusBadGateway, http.StatusGatewayTimeout, 520, 522, 524:
		return true
	}
	return false
}

// mayBeBilled reports whether a provider may charge for a failed call because it accepted the request, or may
// have, and did not reject it.
func mayBeBilled(err error) bool {
	if p, ok := errors.AsType[*ProviderError](err); ok {
		return p.Billed
	}
	if status := statusOf(strings.ToLower(err.Error())); status >= 400 {
		return isOutcomeUnknown(status)
	}
	_, panicked := errors.AsType[*step.PanicError](err)
	_, garbled := errors.AsType[*json.SyntaxError](err)
	if panicked || garbled || answerText.MatchString(err.Error()) {
		return true
	}
	return errors.Is(err, ErrEmptyResponse) || isCutOff(err)
}

// isCutOff reports whether a call ended before its answer was complete.
func isCutOff(err error) bool {
	lost := []error{errCallTimeout, context.Canceled, context.DeadlineExceeded, ErrTruncatedStream, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET}
	return slices.ContainsFunc(lost, func(one error) bool { return errors.Is(err, one) })
}

func statusOf(text string) int {
	if m := statusText.FindStringSubmatch(text); m != nil {
		if status, err := strconv.Atoi(m[1]); err == nil {
			return status
		}
	}
	return 0
}

func retryable(code llms.ErrorCode) bool {
	return code == llms.ErrCodeRateLimit || code == llms.ErrCodeProviderUnavailable || code == llms.ErrCodeTimeout
}

func statusCode(status int, text string) (llms.ErrorCode, bool) {
	switch known, ok := statusCodes[status]; {
	case status == http.StatusTooManyRequests && containsAny(text, "insufficient_quota", "exceeded your current quota"):
		return llms.ErrCodeQuotaExceeded, false
	case ok:
		return known, retryable(known)
	case status >= 500:
		return llms.ErrCodeProviderUnavailable, status != http.StatusNotImplemented
	case containsAny(text, "context_length", "maximum context length", "too many tokens", "prompt is too long", "exceed context limit", "input token count"):
		return llms.ErrCodeTokenLimit, false
	case containsAny(text, "content_filter", "content_policy", "content management policy"):
		return llms.ErrCodeContentFilter, false
	}
	return llms.ErrCodeInvalidRequest, false
}

// statusCodes are the codes of statuses that are classified without their text.
var statusCodes = map[int]llms.ErrorCode{
	http.StatusUnauthorized:          llms.ErrCodeAuthentication,
	http.StatusForbidden:             llms.ErrCodeAuthentication,
	http.StatusNotFound:              llms.ErrCodeResourceNotFound,
	http.StatusPaymentRequired:       llms.ErrCodeQuotaExceeded,
	http.StatusTooManyRequests:       llms.ErrCodeRateLimit,
	http.StatusRequestTimeout:        llms.ErrCodeTimeout,
	http.StatusGatewayTimeout:        llms.ErrCodeTimeout,
	http.StatusConflict:              llms.ErrCodeProviderUnavailable,
	http.StatusTooEarly:              llms.ErrCodeProviderUnavailable,
	http.StatusRequestEntityTooLarge: llms.ErrCodeTokenLimit,
}

func (d *deployment) name(m *sdk.Model) string {
	return cmp.Or(d.Name, m.Provider, m.Name)
}
