package dialect

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Refusal is why a request got no answer, as its client is told in the form of its
// dialect.
type Refusal struct {
	// Status is the HTTP status, Code one word for programs, in OpenAI's vocabulary.
	Status        int
	Code, Message string
	// Param is the field of the request that is at fault, if one is.
	Param string
	// RetryAfter is how long the client should wait before it asks again; 0 says nothing.
	RetryAfter time.Duration
	// Details are what else the dialect's clients go by, in Messages.
	Details map[string]string
	// Final says that asking again is of no use, however the status reads.
	Final bool
	// Reason is why a gateway itself turned the request away, for figures; "" where the
	// request or an upstream is at fault.
	Reason string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Refuse returns a refusal.
func Refuse(status int, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid refuses a field of a request.
func Invalid(param, format string, args ...any) *Refusal {
	r := Refuse(http.StatusBadRequest, "invalid_request_error", format, args...)
	r.Param = param
	return r
}

// SetHeader sets what a client goes by before it reads the body.
func (r *Refusal) SetHeader(h http.Header) {
	if r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.RetryAfter.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(r.RetryAfter.Milliseconds(), 10))
	}
	if r.Final {
		h.Set("X-Should-Retry", "false") // the official clients go by it
	}
}
