package dialect

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Refusal is an error response to a client. Each API encodes it in its own form.
type Refusal struct {
	// Status is the HTTP status, Code a machine-readable code from OpenAI's vocabulary.
	Status        int
	Code, Message string
	// Param is the field of the request that is at fault, if any.
	Param string
	// RetryAfter is how long the client should wait before a retry; 0 leaves it open.
	RetryAfter time.Duration
	// Details are further members for clients of Messages.
	Details map[string]string
	// Final means that a retry cannot succeed, whatever the status suggests.
	Final bool
	// Reason is the gateway's own reason for rejecting the request, for metrics; "" if the request or an
	// upstream is at fault.
	Reason string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Refuse returns a refusal.
func Refuse(status int, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns the refusal of a request because of one of its fields.
func Invalid(param, format string, args ...any) *Refusal {
	r := Refuse(http.StatusBadRequest, "invalid_request_error", format, args...)
	r.Param = param
	return r
}

// SetHeader sets the headers by which clients decide about a retry.
func (r *Refusal) SetHeader(h http.Header) {
	if r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.RetryAfter.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(r.RetryAfter.Milliseconds(), 10))
	}
	if r.Final {
		h.Set("X-Should-Retry", "false") // the official clients obey it
	}
}
