package gateway_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// counting is a model that counts its calls.
type counting struct {
	calls  atomic.Int32
	answer func(ctx context.Context) (string, error)
}

func (c *counting) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, c, prompt, options...)
}

func (c *counting) GenerateContent(ctx context.Context, _ []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	c.calls.Add(1)
	text, err := c.answer(ctx)
	if err != nil {
		return nil, err
	}
	if _, p := middleware.Resolve(options...); p.OnDelta != nil {
		if err := p.OnDelta(ctx, &middleware.Delta{Text: text}); err != nil {
			return nil, err
		}
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: text, StopReason: "stop"}}}, nil
}

// before returns a gateway in front of the models, each of which is tried twice.
func before(t *testing.T, o gateway.Options, models ...*counting) *gateway.Gateway {
	t.Helper()
	c := middleware.Config{Lambda: 1, Stream: middleware.Commit, Breaker: middleware.BreakerConfig{Failures: -1}, Step: step.Config{
		Retry: step.Retry{MaxAttempts: 2, BaseDelay: 100 * time.Millisecond, MaxDelay: time.Minute},
	}}
	for i, m := range models {
		c.Models = append(c.Models, middleware.Candidate{LLM: m, Model: sdk.Model{Name: "m" + strconv.Itoa(i), Price: sdk.Price{Input: 1, Output: 1}}})
	}
	model, err := middleware.New(c)
	if err != nil {
		t.Fatal(err)
	}
	o.Model = model
	g, err := gateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const plainQuestion = `{"model":"stepfall","messages":[{"role":"user","content":"q"}]}`

// postChat sends a request of chat completions, with headers in pairs of name and value.
func postChat(ctx context.Context, t *testing.T, g http.RoundTripper, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := g.RoundTrip(r)
	if err != nil {
		return nil, err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp, string(data)
}

// A client asks three times if every model answers 429. Steps that tried each of two models twice each time made
// twelve calls.
func TestRetriesDoNotMultiply(t *testing.T) {
	for _, tt := range []struct {
		name   string
		wait   bool // as long as Retry-After says
		header bool // that official clients send
		status int  // of the upstream
		calls  int32
	}{
		{"at once", false, false, http.StatusTooManyRequests, 4},
		{"after the pause", true, false, http.StatusTooManyRequests, 4 + 2 + 2},
		{"an official client", true, true, http.StatusTooManyRequests, 4 + 2 + 2},
		{"an outage", true, false, http.StatusServiceUnavailable, 4 + 2 + 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			limited := func() *counting {
				return &counting{answer: func(context.Context) (string, error) {
					return "", middleware.NewProviderError("fake", tt.status, http.Header{}, nil, nil)
				}}
			}
			a, b := limited(), limited()
			g := before(t, gateway.Options{}, a, b)
			for n := range 3 {
				var header []string
				if tt.header {
					header = []string{"X-Stainless-Retry-Count", strconv.Itoa(n)}
				}
				resp, body := postChat(t.Context(), t, g, plainQuestion, header...)
				pause, err := strconv.Atoi(resp.Header.Get("Retry-After"))
				if resp.StatusCode != tt.status || err != nil || pause <= 0 {
					t.Fatalf("%s: status %d, Retry-After %q: %s", tt.name, resp.StatusCode, resp.Header.Get("Retry-After"), body)
				}
				if tt.wait {
					time.Sleep(time.Duration(pause) * time.Second)
				}
			}
			if got := a.calls.Load() + b.calls.Load(); got != tt.calls {
				t.Errorf("%s: %d calls, want %d", tt.name, got, tt.calls)
			}
			time.Sleep(2 * time.Minute) // long after, it is a request like others
			postChat(t.Context(), t, g, plainQuestion)
			if got := a.calls.Load() + b.calls.Load(); got != tt.calls+4 {
				t.Errorf("%s: %d calls in the end, want %d", tt.name, got, tt.calls+4)
			}
		})
	}
}

func TestIdempotencyKey(t *testing.T) {
	const streamed = `{"model":"stepfall","stream":true,"messages":[{"role":"user","content":"q"}]}`
	for _, body := range []string{plainQuestion, streamed} {
		m := &counting{answer: func(context.Context) (string, error) { return "Hello.", nil }}
		g := before(t, gateway.Options{}, m)
		first, said := postChat(t.Context(), t, g, body, "Idempotency-Key", "k")
		again, repeated := postChat(t.Context(), t, g, body, "Idempotency-Key", "k")
		if m.calls.Load() != 1 || said != repeated || again.StatusCode != http.StatusOK || !strings.Contains(said, "Hello.") {
			t.Errorf("%d calls; first %s, then %s", m.calls.Load(), said, repeated)
		}
		if first.Header.Get("Idempotent-Replayed") != "" || again.Header.Get("Idempotent-Replayed") != "true" || again.Header.Get("Content-Type") != first.Header.Get("Content-Type") ||
			again.Header.Get(gateway.HeaderTraceID) == "" || again.Header.Get("X-Request-ID") == first.Header.Get("X-Request-ID") {
			t.Errorf("first %v, then %v", first.Header, again.Header)
		}
		if other, text := postChat(t.Context(), t, g, strings.Replace(body, `"q"`, `"r"`, 1), "Idempotency-Key", "k"); other.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("another request under the key: %d %s", other.StatusCode, text)
		}
		for n, header := range [][]string{{}, {"Idempotency-Key", "l"}, {"Idempotency-Key", "k", gateway.HeaderTenant, "other"}} {
			if postChat(t.Context(), t, g, body, header...); int(m.calls.Load()) != n+2 {
				t.Errorf("%v: %d calls, want %d", header, m.calls.Load(), n+2)
			}
		}
	}
}

// A failure is not kept: the repetition is served like a new request.
func TestIdempotencyKeyOfAFailure(t *testing.T) {
	m := &counting{}
	m.answer = func(context.Context) (string, error) {
		if m.calls.Load() == 1 {
			return "", &middleware.ProviderError{Provider: "fake", Status: http.StatusBadRequest, Code: llms.ErrCodeInvalidRequest, Message: "no"}
		}
		return "Hello.", nil
	}
	g := before(t, gateway.Options{}, m)
	for n, want := range []int{http.StatusBadRequest, http.StatusOK} {
		if resp, body := postChat(t.Context(), t, g, plainQuestion, "Idempotency-Key", "k"); resp.StatusCode != want {
			t.Errorf("request %d: %d %s", n, resp.StatusCode, body)
		}
	}
}

// Requests that arrive while the first one is running wait for its answer, on the same gateway and on another one with
// the same store. The first one continues if its client disconnects.
func TestIdempotencyKeyWhileTheRequestRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.db")
	open := func() gateway.Notes {
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	running, proceed := make(chan struct{}, 4), make(chan struct{})
	m := &counting{answer: func(context.Context) (string, error) {
		running <- struct{}{}
		<-proceed
		return "Hello.", nil
	}}
	here, there := before(t, gateway.Options{Notes: open()}, m), before(t, gateway.Options{Notes: open()}, m)
	leaving, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		postChat(leaving, t, here, plainQuestion, "Idempotency-Key", "k")
	}()
	<-running
	answers := make(chan string, 3)
	for _, g := range []*gateway.Gateway{here, there, there} {
		go func() {
			_, body := postChat(t.Context(), t, g, plainQuestion, "Idempotency-Key", "k")
			answers <- body
		}()
	}
	leave()
	<-gone // which does not wait for the step
	close(proceed)
	first := <-answers
	for range 2 {
		if next := <-answers; next != first {
			t.Errorf("got %s, and then %s", first, next)
		}
	}
	if m.calls.Load() != 1 || !strings.Contains(string(first), "Hello.") {
		t.Errorf("%d calls: %s", m.calls.Load(), first)
	}
}
