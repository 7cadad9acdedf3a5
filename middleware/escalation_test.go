package middleware_test

import (
	"testing"
	"time"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Escalation is asking another model after an answer: not models asked at once, nor the next one after a failed call.
func TestWhatIsAnEscalation(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	answer := func(model string, from, seconds int) sdk.Call {
		return sdk.Call{Model: model, Attempt: 1, Start: at(from), Latency: time.Duration(seconds) * time.Second}
	}
	failed, again := answer("a", 1, 1), answer("b", 4, 1)
	failed.Error, again.Attempt = "429", 2
	for name, c := range map[string]struct {
		calls []sdk.Call
		want  bool
	}{
		"one":                              {[]sdk.Call{answer("a", 1, 2)}, false},
		"at once":                          {[]sdk.Call{answer("a", 1, 2), answer("b", 1, 5)}, false},
		"at once, one of them tried again": {[]sdk.Call{answer("a", 1, 2), again}, false},
		"after a failure":                  {[]sdk.Call{failed, answer("b", 3, 1)}, false},
		"after an answer":                  {[]sdk.Call{answer("a", 1, 2), answer("b", 3, 1)}, true},
		"after two":                        {[]sdk.Call{answer("a", 1, 2), answer("b", 1, 5), answer("c", 6, 1)}, true},
	} {
		if got := middleware.HasEscalated(&sdk.Trace{Calls: c.calls}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
