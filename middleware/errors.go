package middleware

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
)

// ProviderError is the error that a model's server reported. Calls of a [NativeModel] return it, and the
// error of a step has it in its chain.
type ProviderError struct {
	Provider string
	// Status is the HTTP status, or 0 if there was no response.
	Status int
	Code   llms.ErrorCode
	// Type, Name and Param are the server's own identifiers of the error.
	Type, Name, Param string
	Message           string
	RequestID         string
	// Retry means that the same request may succeed later. RetryAfter is how long the server asks clients to
	// wait; 0 means unknown.
	Retry      bool
	RetryAfter time.Duration
	// Billed means that the server may charge for the request: it accepted it, or a gateway's status (502,
	// 504) leaves open whether it did. Usage is what it reported before the error.
	Billed bool
	Usage  sdk.Usage
	Err    error
}

// credentialRedactor removes whatever looks like a key, because servers repeat an invalid one in their error.
var credentialRedactor = redact.New()

// NewProviderError builds the error from a server's response (status, headers and body, in the form of
// any of the APIs) and from err, the error of the call. Any of them can be missing.
func NewProviderError(provider string, status int, header http.Header, body []byte, err error) *ProviderError {
	e := &ProviderError{Provider: provider, Status: status, Err: err, RetryAfter: retryAfter(header), Billed: isOutcomeUnknown(status)}
	e.read(body)
	e.Message = credentialRedactor.Text(e.Message)
	if status < 400 && err != nil {
		e.Code, e.Retry = codeOf(err)
	} else {
		text := strings.ToLower(e.Type + " " + e.Name + " " + e.Message)
		said := status
		if status < 400 {
			said = e.impliedStatus(text)
		}
		e.Code, e.Retry = statusCode(said, text)
	}
	return e
}

func (e *ProviderError) read(body []byte) {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	outer := struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}{}
	if json.Unmarshal(body, &outer) != nil {
		e.Message = firstLine(string(body))
		return
	}
	inner := body
	if len(outer.Error) > 0 {
		inner = outer.Error
	}
	said := struct {
		Type, Code, Param, Status json.RawMessage
		Message                   json.RawMessage
		Metadata                  struct{ Raw json.RawMessage } // the error of OpenRouter's upstream
		Details                   []struct {
			RetryDelay string `json:"retryDelay"`
		}
	}{}
	if json.Unmarshal(inner, &said) != nil {
		e.Message = jsonText(inner)
		return
	}
	e.Type, e.Name, e.Param, e.Message = jsonText(said.Type), jsonText(said.Code), jsonText(said.Param), jsonText(said.Message)
	e.Name = cmp.Or(jsonText(said.Status), e.Name) // Google's name for the error; its code repeats the HTTP status
	e.Message = cmp.Or(e.Message, jsonText(outer.Detail))
	if raw := jsonText(said.Metadata.Raw); raw != "" {
		e.Message += ": " + firstLine(raw)
	}
	for _, d := range said.Details {
		wait, _ := time.ParseDuration(d.RetryDelay)
		e.RetryAfter = cmp.Or(e.RetryAfter, wait)
	}
}

// jsonText returns a JSON value as text: a string without its quotes, "" for null.
func jsonText(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// impliedStatus returns the HTTP status that corresponds to an error in a successful response. Some servers
// send it as the code: https://openrouter.ai/docs/api-reference/errors
func (e *ProviderError) impliedStatus(text string) int {
	if code, err := strconv.Atoi(e.Name); err == nil && code >= 400 && code < 600 {
		return code
	}
	for _, one := range []struct {
		sign   string
		status int
	}{
		{"overloaded", http.StatusServiceUnavailable}, {"unavailable", http.StatusServiceUnavailable},
		{"rate_limit", http.StatusTooManyRequests}, {"insufficient_quota", http.StatusTooManyRequests}, {"context_length", http.StatusBadRequest}, {"resource_exhausted", http.StatusTooManyRequests},
		{"authentication", http.StatusUnauthorized}, {"permission", http.StatusForbidden},
		{"not_found", http.StatusNotFound}, {"invalid", http.StatusBadRequest},
	} {
		if strings.Contains(text, one.sign) {
			return one.status
		}
	}
	return http.StatusInternalServerError
}

func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		// A server that sends a date here also sends its own time.
		now, fault := http.ParseTime(h.Get("Date"))
		if fault != nil {
			now = time.Now()
		}
		return max(0, at.Sub(now))
	}
	return 0
}

// Error returns the server's message with its status and identifiers. It contains no key.
func (e *ProviderError) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	if e.Status > 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	for _, word := range []string{e.Type, e.Name} {
		if word != "" {
			b.WriteString(" " + word)
		}
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	} else if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.RequestID != "" {
		b.WriteString(" (request " + e.RequestID + ")")
	}
	return b.String()
}

// Unwrap returns the client's own error.
func (e *ProviderError) Unwrap() error { return e.Err }
