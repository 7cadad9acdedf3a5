package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/tmc/langchaingo/llms"
)

// apiError is an error in OpenAI's form.
type apiError struct {
	status        int
	code, message string
}

func refuse(status int, code, format string, args ...any) *apiError {
	return &apiError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, "invalid_request_error", format, args...)
}

func (e *apiError) body() map[string]any {
	return map[string]any{"error": map[string]any{"message": e.message, "type": e.code, "code": e.code, "param": nil}}
}

func writeError(w http.ResponseWriter, e *apiError) { writeJSON(w, e.status, e.body()) }

// statusClientGone is nginx's status for a client that did not wait; nobody reads it.
const statusClientGone = 499

// failure turns the error of a step into what the client is told.
func failure(err error) *apiError {
	code := llms.ErrCodeUnknown
	if typed, ok := errors.AsType[*llms.Error](err); ok {
		code = typed.Code
	}
	status, kind := http.StatusBadGateway, "upstream_error"
	switch code {
	case llms.ErrCodeInvalidRequest:
		status, kind = http.StatusBadRequest, "invalid_request_error"
	case llms.ErrCodeTokenLimit:
		status, kind = http.StatusBadRequest, "context_length_exceeded"
	case llms.ErrCodeContentFilter:
		status, kind = http.StatusBadRequest, "content_filter"
	case llms.ErrCodeQuotaExceeded:
		status, kind = http.StatusTooManyRequests, "insufficient_quota"
	case llms.ErrCodeRateLimit:
		status, kind = http.StatusTooManyRequests, "rate_limit_exceeded"
	case llms.ErrCodeTimeout:
		status, kind = http.StatusGatewayTimeout, "timeout"
	case llms.ErrCodeCanceled:
		status, kind = statusClientGone, "canceled"
	case llms.ErrCodeProviderUnavailable:
		status, kind = http.StatusServiceUnavailable, "provider_unavailable"
	}
	return &apiError{status: status, code: kind, message: err.Error()}
}
