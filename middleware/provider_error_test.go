package middleware_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Errors are parsed in the form of every API.
func TestProviderErrorsAreRead(t *testing.T) {
	reset := errors.New("connection reset by peer")
	for what, c := range map[string]struct {
		status int
		body   string
		err    error
		want   middleware.ProviderError
		text   string
	}{
		"openai": {429, `{"error":{"message":"Slow down.","type":"rate_limit_error","param":"model","code":"rate_limited"}}`, nil,
			middleware.ProviderError{Status: 429, Code: llms.ErrCodeRateLimit, Type: "rate_limit_error", Name: "rate_limited", Param: "model", Message: "Slow down.", Retry: true},
			"p: status 429 rate_limit_error rate_limited: Slow down."},
		"openai, nulls": {400, `{"error":{"message":"Bad.","type":"invalid_request_error","param":null,"code":null}}`, nil,
			middleware.ProviderError{Status: 400, Code: llms.ErrCodeInvalidRequest, Type: "invalid_request_error", Message: "Bad."}, "p: status 400 invalid_request_error: Bad."},
		"anthropic": {529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, nil,
			middleware.ProviderError{Status: 529, Code: llms.ErrCodeProviderUnavailable, Type: "overloaded_error", Message: "Overloaded", Retry: true}, "p: status 529 overloaded_error: Overloaded"},
		"google, a list": {429, `[{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"x"},{"retryDelay":"7s"},{"retryDelay":"9s"}]}}]`, nil,
			middleware.ProviderError{Status: 429, Code: llms.ErrCodeRateLimit, Name: "RESOURCE_EXHAUSTED", Message: "Quota.", Retry: true, RetryAfter: 7 * time.Second}, "p: status 429 RESOURCE_EXHAUSTED: Quota."},
		"ollama": {404, `{"error":"model not found"}`, nil,
			middleware.ProviderError{Status: 404, Code: llms.ErrCodeResourceNotFound, Message: "model not found"}, "p: status 404: model not found"},
		"mistral": {401, `{"message":"Unauthorized"}`, nil,
			middleware.ProviderError{Status: 401, Code: llms.ErrCodeAuthentication, Message: "Unauthorized"}, "p: status 401: Unauthorized"},
		"fastapi": {422, `{"detail":"no such field"}`, nil,
			middleware.ProviderError{Status: 422, Code: llms.ErrCodeInvalidRequest, Message: "no such field"}, "p: status 422: no such field"},
		"both": {422, `{"detail":"aside","message":"first"}`, nil,
			middleware.ProviderError{Status: 422, Code: llms.ErrCodeInvalidRequest, Message: "first"}, "p: status 422: first"},
		"a page": {502, "<html>\nBad gateway", nil,
			middleware.ProviderError{Status: 502, Code: llms.ErrCodeProviderUnavailable, Message: "<html>", Retry: true, Billed: true}, "p: status 502: <html>"},
		"an empty list": {500, "[]", nil,
			middleware.ProviderError{Status: 500, Code: llms.ErrCodeProviderUnavailable, Message: "[]", Retry: true}, "p: status 500: []"},
		"nothing": {503, " \n", nil,
			middleware.ProviderError{Status: 503, Code: llms.ErrCodeProviderUnavailable, Retry: true}, "p: status 503"},
		"no answer": {0, "", reset,
			middleware.ProviderError{Code: llms.ErrCodeProviderUnavailable, Retry: true, Err: reset}, "p: connection reset by peer"},
		"400 and an error": {400, `{"error":{"message":"Bad."}}`, reset,
			middleware.ProviderError{Status: 400, Code: llms.ErrCodeInvalidRequest, Message: "Bad.", Err: reset}, "p: status 400: Bad."},
		"an error in a stream": {200, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, nil,
			middleware.ProviderError{Status: 200, Code: llms.ErrCodeProviderUnavailable, Type: "overloaded_error", Message: "Overloaded", Retry: true}, "p: status 200 overloaded_error: Overloaded"},
		"a status in an answer": {200, `{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"no such tool\"}}","provider_name":"X"}}}`, nil,
			middleware.ProviderError{Status: 200, Code: llms.ErrCodeInvalidRequest, Name: "400", Message: `Provider returned error: {"error":{"message":"no such tool"}}`}, `p: status 200 400: Provider returned error: {"error":{"message":"no such tool"}}`},
		"a context in a stream": {200, `{"error":{"code":"context_length_exceeded","message":"Too long."}}`, nil,
			middleware.ProviderError{Status: 200, Code: llms.ErrCodeTokenLimit, Name: "context_length_exceeded", Message: "Too long."}, "p: status 200 context_length_exceeded: Too long."},
		"200 and a reset": {200, "", reset,
			middleware.ProviderError{Status: 200, Code: llms.ErrCodeProviderUnavailable, Retry: true, Err: reset}, "p: status 200: connection reset by peer"},
	} {
		got := middleware.NewProviderError("p", c.status, nil, []byte(c.body), c.err)
		c.want.Provider = "p"
		if *got != c.want || got.Error() != c.text || !errors.Is(got, c.err) && c.err != nil {
			t.Errorf("%s:\n%+v, want\n%+v\n%s, want\n%s", what, *got, c.want, got, c.text)
		}
	}
	with := middleware.ProviderError{Provider: "p", Message: "No.", RequestID: "r-1"}
	if with.Error() != "p: No. (request r-1)" {
		t.Errorf("%s", &with)
	}
}

// The requested waiting time is parsed as milliseconds, seconds or a date.
func TestRetryAfterIsRead(t *testing.T) {
	date := "Sat, 21 Nov 2026 12:00:00 GMT"
	for _, c := range []struct {
		header map[string]string
		want   time.Duration
	}{
		{nil, 0},
		{map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		{map[string]string{"Retry-After": "7", "Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		{map[string]string{"Retry-After": "7", "Retry-After-Ms": "0"}, 7 * time.Second},
		{map[string]string{"Retry-After": "7", "Retry-After-Ms": "-5"}, 7 * time.Second},
		{map[string]string{"Retry-After": "7", "Retry-After-Ms": "soon"}, 7 * time.Second},
		{map[string]string{"Retry-After": "0"}, 0},
		{map[string]string{"Retry-After": "-3"}, 0},
		{map[string]string{"Retry-After": "soon"}, 0},
		{map[string]string{"Retry-After": "Sat, 21 Nov 2026 12:01:30 GMT", "Date": date}, 90 * time.Second},
		{map[string]string{"Retry-After": "Sat, 21 Nov 2026 11:00:00 GMT", "Date": date}, 0},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if got := middleware.NewProviderError("p", 429, h, nil, nil).RetryAfter; got != c.want {
			t.Errorf("%v: %v, want %v", c.header, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h := http.Header{"Retry-After": {time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)}}
		if got := middleware.NewProviderError("p", 429, h, nil, nil).RetryAfter; got != time.Minute {
			t.Errorf("without a date of its own: %v, want a minute", got)
		}
	})
}

// The error code decides whether a call is retried.
func TestWhichErrorsAreTriedAgain(t *testing.T) {
	for err, tries := range map[error]int64{
		llms.NewError(llms.ErrCodeRateLimit, "p", "slow down"):             2,
		llms.NewError(llms.ErrCodeProviderUnavailable, "p", "down"):        2,
		llms.NewError(llms.ErrCodeAuthentication, "p", "who?"):             1,
		llms.NewError(llms.ErrCodeInvalidRequest, "p", "status code: 503"): 1,
		llms.NewError(llms.ErrCodeUnknown, "p", "status code: 503"):        2,
		llms.NewError(llms.ErrCodeUnknown, "p", "something"):               1,
		errors.New("status code: 400"):                                     1,
		errors.New("status code: 500"):                                     2,
		errors.New("status code: 399, connection refused"):                 2,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := fails(err)
			m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(f)}, Step: step.Config{Retry: step.Retry{MaxAttempts: 2}}})
			if _, got := m.GenerateContent(t.Context(), human("hello")); !errors.Is(got, err) || f.calls.Load() != tries {
				t.Errorf("%v: %d tries, want %d; %v", err, f.calls.Load(), tries, got)
			}
		})
	}
}

// A step's error states after what time a model can be called again: the server's waiting time or the remaining delay
// of a circuit, whichever is less, or nothing if neither is known.
func TestAnErrorSaysWhenToComeBack(t *testing.T) {
	refused := func(code llms.ErrorCode, after time.Duration) error {
		return &middleware.ProviderError{Provider: "p", Code: code, Retry: true, RetryAfter: after, Message: "no"}
	}
	for what, c := range map[string]struct {
		err      error
		failures int
		want     any
	}{
		"the server's":          {refused(llms.ErrCodeRateLimit, 40*time.Second), 0, 40 * time.Second},
		"unavailable":           {refused(llms.ErrCodeProviderUnavailable, 40*time.Second), 0, 40 * time.Second},
		"the circuit's is less": {refused(llms.ErrCodeProviderUnavailable, 40*time.Second), 1, 25 * time.Second},
		"the server's is less":  {refused(llms.ErrCodeRateLimit, 3*time.Second), 1, 3 * time.Second},
		"the circuit's alone":   {refused(llms.ErrCodeProviderUnavailable, 0), 1, 25 * time.Second},
		"nothing known":         {refused(llms.ErrCodeProviderUnavailable, 0), 0, nil},
		"another code":          {&middleware.ProviderError{Provider: "p", Code: llms.ErrCodeAuthentication, RetryAfter: time.Second}, 0, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(fails(c.err))}, Breaker: middleware.BreakerConfig{Failures: c.failures, Delay: 25 * time.Second}})
			_, err := m.GenerateContent(t.Context(), human("hello"))
			failed, ok := errors.AsType[*llms.Error](err)
			if !ok || failed.Details[middleware.DetailRetryAfter] != c.want {
				t.Errorf("%s: %v of %v, want %v", what, failed.Details, err, c.want)
			}
		})
	}
}

// If the models of a step fail in different ways, the error that a retry can fix decides.
func TestAnOutageDecidesOverARefusal(t *testing.T) {
	refused := &middleware.ProviderError{Provider: "p", Status: 400, Code: llms.ErrCodeInvalidRequest, Message: "no such tool"}
	overloaded := &middleware.ProviderError{Provider: "q", Status: 529, Code: llms.ErrCodeProviderUnavailable, Retry: true, RetryAfter: 7 * time.Second, Message: "Overloaded"}
	for what, errs := range map[string][2]error{"first": {overloaded, refused}, "second": {refused, overloaded}} {
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(fails(errs[0])), large(fails(errs[1]))}})
		_, err := m.GenerateContent(t.Context(), human("hello"))
		failed, ok := errors.AsType[*llms.Error](err)
		if !ok || failed.Code != llms.ErrCodeProviderUnavailable || failed.Details[middleware.DetailRetryAfter] != 7*time.Second || !errors.Is(err, refused) {
			t.Errorf("%s: %v, %#v", what, err, failed)
		}
	}
}

// The usage of a failed call is the one that the server reported, or an estimate of what was streamed, or zero if the
// server rejected the request.
func TestWhatAFailedCallUsed(t *testing.T) {
	told := sdk.Usage{InputTokens: 200, OutputTokens: 20}
	cut := &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "half an ans", GenerationInfo: map[string]any{"PromptTokens": 100, "CompletionTokens": 7}}}}
	streams := func(pieces []string, resp *llms.ContentResponse, err error) *fake {
		return &fake{say: func(ctx context.Context, _ []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
			for _, p := range pieces {
				if o.StreamingFunc != nil {
					if err := o.StreamingFunc(ctx, []byte(p)); err != nil {
						return nil, err
					}
				}
			}
			o.StreamingFunc = nil
			return resp, err
		}}
	}
	for what, c := range map[string]struct {
		llm  llms.Model
		want sdk.Usage
	}{
		"the server says":           {fails(&middleware.ProviderError{Provider: "p", Billed: true, Usage: told}), told},
		"its beginning counted":     {streams([]string{strings.Repeat("a", 180)}, nil, &middleware.ProviderError{Message: "broke", Status: 500, Usage: sdk.Usage{InputTokens: 60, OutputTokens: 1}}), sdk.Usage{InputTokens: 60, OutputTokens: 45, Estimated: true}},
		"a stream broke":            {streams([]string{"hello", " wor"}, nil, errors.New("status code: 500")), sdk.Usage{InputTokens: 10, OutputTokens: 3, Estimated: true}},
		"a gateway timed out":       {fails(errors.New("status code: 504")), sdk.Usage{InputTokens: 10, OutputTokens: 500, Estimated: true}},
		"nothing came":              {streams(nil, nil, errors.New("status code: 500")), sdk.Usage{}},
		"refused, the line broke":   {fails(fmt.Errorf("status code: 400: %w", io.ErrUnexpectedEOF)), sdk.Usage{}},
		"the line broke":            {fails(fmt.Errorf("reading: %w", io.ErrUnexpectedEOF)), sdk.Usage{InputTokens: 10, OutputTokens: 500, Estimated: true}},
		"an answer without content": {fails(errors.New("no response")), sdk.Usage{InputTokens: 10, OutputTokens: 500, Estimated: true}},
		"content of another type":   {fails(errors.New("anthropic: unsupported content type: redacted_thinking")), sdk.Usage{InputTokens: 10, OutputTokens: 500, Estimated: true}},
		"JSON of another type":      {fails(json.Unmarshal([]byte("1"), new(string))), sdk.Usage{InputTokens: 10, OutputTokens: 500, Estimated: true}},
		"a line too long":           {fails(fmt.Errorf("failed to read stream: %w", bufio.ErrTooLong)), sdk.Usage{InputTokens: 10, OutputTokens: 500, Estimated: true}},
		"not sent":                  {fails(errors.New("anthropic: failed to unmarshal tool call arguments")), sdk.Usage{}},
		"cut off, with its counts":  {streams([]string{"half an ans"}, cut, nil), sdk.Usage{InputTokens: 100, OutputTokens: 7, Estimated: true}},
		"a stream cut early":        {streams(nil, nil, &middleware.ProviderError{Billed: true, Usage: sdk.Usage{InputTokens: 60, OutputTokens: 1}, Err: middleware.ErrTruncatedStream}), sdk.Usage{InputTokens: 60, OutputTokens: 500, Estimated: true}},
		"a stream cut later":        {streams([]string{strings.Repeat("a", 48)}, nil, &middleware.ProviderError{Billed: true, Usage: sdk.Usage{InputTokens: 60, OutputTokens: 10}, Err: middleware.ErrTruncatedStream}), sdk.Usage{InputTokens: 60, OutputTokens: 12, Estimated: true}},
	} {
		var all traces
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{as(small(c.llm), "openai")}, Stream: middleware.Passthrough, Step: step.Config{Traces: all.record}})
		_, err := m.GenerateContent(t.Context(), human("hello"), llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		if got := all.list[0].Calls[0].Usage; got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}

// elsewhere has circuits that other processes have opened.
type elsewhere struct {
	names  []string
	opened atomic.Int32
}

func (e *elsewhere) Opened(string, time.Time) { e.opened.Add(1) }

func (e *elsewhere) Until(name string) time.Time {
	if slices.ContainsFunc(e.names, func(n string) bool { return strings.HasSuffix(name, "/"+n) }) {
		return time.Now().Add(time.Hour)
	}
	return time.Time{}
}

// Deployments are called in order, each once per round, except those with an open circuit.
func TestDeploymentsAreAskedInOrder(t *testing.T) {
	for what, c := range map[string]struct {
		open []string
		want string
	}{
		"all":     {nil, "a b c a b c"},
		"a alone": {[]string{"b", "c"}, "a a"},
		"c alone": {[]string{"a", "b"}, "c c"},
		"none":    {[]string{"a", "b", "c"}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			candidate := small(nil)
			for _, name := range []string{"a", "b", "c"} {
				candidate.Deployments = append(candidate.Deployments, middleware.Deployment{Name: name, LLM: &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
					asked = append(asked, name)
					return nil, errors.New("status code: 503")
				}}})
			}
			m := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}, Circuits: &elsewhere{names: c.open}, Step: step.Config{Retry: step.Retry{MaxAttempts: 2}}})
			var open []string
			for _, name := range c.open {
				open = append(open, "small ("+name+")")
			}
			if got := m.OpenCircuits(); !slices.Equal(got, open) {
				t.Errorf("%s: open are %v, want %v", what, got, open)
			}
			_, err := m.GenerateContent(t.Context(), human("hello"))
			if got := strings.Join(asked, " "); got != c.want || err == nil {
				t.Errorf("%s: asked %q, want %q; %v", what, got, c.want, err)
			}
		})
	}
}

// A circuit opens after five failures by default, and never if it is disabled.
func TestWhenACircuitOpens(t *testing.T) {
	for failures, calls := range map[int]int64{0: 5, 2: 2, -1: 9} {
		f := fails(errors.New("status code: 503"))
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(f)}, Breaker: middleware.BreakerConfig{Failures: failures}})
		for range 9 {
			if _, err := m.GenerateContent(t.Context(), human("hello")); err == nil {
				t.Fatal("no error")
			}
		}
		if f.calls.Load() != calls {
			t.Errorf("failures %d: %d calls, want %d", failures, f.calls.Load(), calls)
		}
		if got := m.OpenCircuits(); (len(got) == 1 && got[0] == "small") != (failures >= 0) {
			t.Errorf("failures %d: open are %v", failures, got)
		}
	}
}

// Long calls that time out together open no circuit while shorter ones succeed: a tenant cannot stop the others.
func TestTimeoutsBesideSuccesses(t *testing.T) {
	for _, succeeds := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			candidate := small(&fake{say: func(ctx context.Context, m []llms.MessageContent, _ *llms.CallOptions) (*llms.ContentResponse, error) {
				if fmt.Sprint(m[0].Parts[0]) == fmt.Sprint(llms.TextPart("short")) {
					return text("fine"), nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}})
			candidate.Timeout = time.Minute
			m := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}})
			for range 6 {
				go m.GenerateContent(t.Context(), human("long"))
			}
			time.Sleep(time.Second)
			if succeeds {
				if _, err := m.GenerateContent(t.Context(), human("short")); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			if open := m.OpenCircuits(); (len(open) == 0) != succeeds {
				t.Errorf("succeeds %t: open are %v", succeeds, open)
			}
		})
	}
}

// What may be a shortage of this machine opens no circuit of others.
func TestCircuitsOfOthers(t *testing.T) {
	for err, want := range map[error]int32{
		&net.OpError{Op: "dial", Err: syscall.EMFILE}:     0,
		&net.OpError{Op: "read", Err: syscall.ECONNRESET}: 1,
	} {
		shared := &elsewhere{}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(fails(err))}, Circuits: shared})
		for range 5 {
			_, _ = m.GenerateContent(t.Context(), human("hello")) // it fails
		}
		if got := shared.opened.Load(); got != want || len(m.OpenCircuits()) != 1 {
			t.Errorf("%v: %d announced, open are %v", err, got, m.OpenCircuits())
		}
	}
}

// Ask calls the named model with the content of the query, and sets the cost of the answer.
func TestAsk(t *testing.T) {
	r := keeps(text("fine"))
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(r), large(fails(errors.New("status code: 401")))}})
	q := &sdk.Query{MaxOutputTokens: 77, Format: sdk.ResponseFormat{JSON: true}, Messages: []sdk.Message{
		{Role: sdk.RoleSystem, Parts: []sdk.Part{sdk.TextPart("be brief")}},
		{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart("look"), {Kind: sdk.PartImageURL, URL: "u"}, {Kind: sdk.PartBinary, MIMEType: "image/png", Data: []byte("x")}}},
		{Role: sdk.RoleAssistant, Parts: []sdk.Part{{Kind: sdk.PartToolCall, ToolCall: &sdk.ToolCall{ID: "1", Name: "find", Arguments: "{}"}}}},
		{Role: sdk.RoleTool, Parts: []sdk.Part{{Kind: sdk.PartToolResult, ToolResult: &sdk.ToolResult{CallID: "1", Name: "find", Content: "it"}}}},
	}}
	answer, err := m.Ask(t.Context(), "small", q)
	if err != nil || answer.Text != "fine" || answer.Model != "small" || answer.CostUSD != (100*1+10*2)/1e6 {
		t.Errorf("%+v, %v", answer, err)
	}
	if r.options.MaxTokens != 77 || !r.options.JSONMode {
		t.Errorf("asked with %d tokens, JSON %v", r.options.MaxTokens, r.options.JSONMode)
	}
	var roles []string
	for _, message := range r.messages {
		roles = append(roles, fmt.Sprint(message.Role, len(message.Parts)))
	}
	if got := strings.Join(roles, " "); got != "system1 human3 ai1 tool1" {
		t.Errorf("messages %s", got)
	}
	if _, err := m.Ask(t.Context(), "small", &sdk.Query{}); err != nil || r.options.MaxTokens != 0 || r.options.JSONMode {
		t.Errorf("nothing was said, and %d tokens, JSON %v; %v", r.options.MaxTokens, r.options.JSONMode, err)
	}
	if _, err := m.Ask(t.Context(), "huge", q); !errors.Is(err, sdk.ErrNoFeasibleModel) {
		t.Errorf("a model that is not there: %v", err)
	}
	if answer, err := m.Ask(t.Context(), "large", q); err == nil || answer != nil {
		t.Errorf("a model that fails: %v, %v", answer, err)
	} else if usd := sdk.SpentUSD(err); usd != 0 {
		t.Errorf("a refusal costs %v", usd)
	}
	cut := wrap(t, middleware.Config{Models: []middleware.Candidate{small(fails(context.DeadlineExceeded))}})
	if _, err := cut.Ask(t.Context(), "small", q); sdk.SpentUSD(err) <= 77*2/1e6 || sdk.SpentUSD(err) > 3e-3 {
		t.Errorf("a call that was cut off: %v USD, %v; want the prompt and 77 tokens", sdk.SpentUSD(err), err)
	}
}
