package provider_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// A whole answer and a streamed one have the same content, in the same form for all APIs.
func TestAnswers(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			u := d.serve(t)
			m := u.model(t)
			var deltas []middleware.Delta
			collect := middleware.WithParams(middleware.Params{OnDelta: func(_ context.Context, d *middleware.Delta) error {
				deltas = append(deltas, *d)
				return nil
			}})
			for name, options := range map[string][]llms.CallOption{"whole": nil, "streamed": {collect}} {
				resp, err := m.GenerateContent(t.Context(), human("hi"), options...)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				c := resp.Choices[0]
				x := middleware.ExtraOf(c)
				call := llms.ToolCall{ID: "call_1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{"at":1}`}}
				if c.Content != "Hello there" || c.ReasoningContent != "hm" || len(c.ToolCalls) != 1 || cmp.Diff(call, c.ToolCalls[0]) != "" || c.StopReason == "" {
					t.Errorf("%s: got %+v", name, c)
				}
				if diff := cmp.Diff(d.usage, x.Usage); diff != "" {
					t.Errorf("%s: usage: %s", name, diff)
				}
				if x.RequestID != "req-1" || x.Served != "m-2026" || x.StopReason == "" {
					t.Errorf("%s: got %+v", name, x)
				}
				if got := c.GenerationInfo["TotalTokens"]; got != d.usage.InputTokens+d.usage.CachedInputTokens+d.usage.CacheWriteTokens+d.usage.OutputTokens+d.usage.ReasoningTokens {
					t.Errorf("%s: TotalTokens %v", name, got)
				}
			}
			var all middleware.Delta
			var calls middleware.ToolDelta
			for _, d := range deltas {
				all.Text, all.Reasoning = all.Text+d.Text, all.Reasoning+d.Reasoning
				if d.Tool != nil {
					calls.ID, calls.Name, calls.Arguments = calls.ID+d.Tool.ID, calls.Name+d.Tool.Name, calls.Arguments+d.Tool.Arguments
				}
			}
			if all.Text != "Hello there" || all.Reasoning != "hm" || calls != (middleware.ToolDelta{ID: "call_1", Name: "look", Arguments: `{"at":1}`}) {
				t.Errorf("streamed %+v and %+v", all, calls)
			}
		})
	}
}

// A later turn sends an answer back unchanged, with its signatures.
func TestAnswersGoBack(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			u := d.serve(t)
			m := u.model(t)
			resp, err := m.GenerateContent(t.Context(), human("hi"))
			if err != nil {
				t.Fatal(err)
			}
			x := middleware.ExtraOf(resp.Choices[0])
			if x.Parts == nil {
				t.Fatal("nothing to send back")
			}
			history := append(human("hi"), llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: x.Parts}, llms.MessageContent{
				Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "call_1", Name: "look", Content: "dark"}}})
			if _, err := m.GenerateContent(t.Context(), history); err != nil {
				t.Fatal(err)
			}
			sent := fmt.Sprint(u.asked)
			want := []string{"Hello there", "look", "dark"}
			switch d.name {
			case "Responses", "Anthropic", "Gemini":
				want = append(want, "c2ln")
			default:
				want = append(want, "hm")
			}
			for _, w := range want {
				if !strings.Contains(sent, w) {
					t.Errorf("%q did not go back: %s", w, sent)
				}
			}
		})
	}
}

// TestAttackKeyInError: a key that a server sends back is not in any error, in whatever encoding and at whatever
// place of an answer or stream.
func TestAttackKeyInError(t *testing.T) {
	const key = "planted/key+0123456789&abcdefghij"
	spelled := []string{
		key, "Bearer " + key, url.QueryEscape(key), strings.ToLower(url.QueryEscape(key)), base64.StdEncoding.EncodeToString([]byte(key)),
		base64.RawURLEncoding.EncodeToString([]byte("user:" + key)), hex.EncodeToString([]byte(key)), strings.ReplaceAll(key, "/", `\/`),
	}
	shows := func(text string) bool {
		for _, s := range spelled {
			if strings.Contains(text, s[:len(s)/2]) || strings.Contains(text, s[len(s)/2:]) {
				return true
			}
		}
		return false
	}
	for _, s := range spelled {
		quoted, err := json.Marshal("the key " + s + " is wrong")
		if err != nil {
			t.Fatal(err)
		}
		for name, answer := range map[string]struct {
			status int
			mime   string
			body   string
		}{
			"401":          {401, "application/json", `{"error":{"type":"auth","code":` + string(quoted) + `,"param":` + string(quoted) + `,"message":` + string(quoted) + `}}`},
			"500 text":     {500, "text/plain", "the key " + s + " is wrong"},
			"Google":       {400, "application/json", `[{"error":{"code":400,"status":` + string(quoted) + `,"message":` + string(quoted) + `}}]`},
			"redirect":     {302, "text/html", "moved"},
			"in a stream":  {200, "text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":" + string(quoted) + "}}\n\n"},
			"lines":        {200, "application/x-ndjson", "{\"error\":" + string(quoted) + "}\n"},
			"not JSON":     {200, "application/json", "the key " + s + " is wrong"},
			"in no stream": {200, "text/event-stream", "data: the key " + s + " is wrong\n\n"},
		} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", answer.mime)
				w.Header().Set("X-Request-ID", s)
				w.Header().Set("Location", "/"+s)
				w.WriteHeader(answer.status)
				for i := range len(answer.body) { // in pieces of a byte
					_, _ = w.Write([]byte(answer.body[i : i+1]))
					if i%7 == 0 {
						w.(http.Flusher).Flush()
					}
				}
			}))
			for maker, m := range map[string]func() (llms.Model, error){
				"openai": func() (llms.Model, error) {
					return provider.New(provider.Options{Model: "m", APIKey: key, BaseURL: server.URL})
				},
				"responses": func() (llms.Model, error) {
					return provider.New(provider.Options{Model: "m", APIKey: key, BaseURL: server.URL, API: middleware.DialectResponses})
				},
				"anthropic": func() (llms.Model, error) {
					return provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "m", APIKey: key, BaseURL: server.URL})
				},
				"gemini": func() (llms.Model, error) {
					return provider.New(provider.Options{API: middleware.DialectGemini, Model: "m", APIKey: key, BaseURL: server.URL})
				},
				"ollama": func() (llms.Model, error) {
					return provider.New(provider.Options{API: middleware.DialectOllama, Model: "m", APIKey: key, BaseURL: server.URL})
				},
			} {
				model, err := m()
				if err != nil {
					t.Fatal(err)
				}
				for _, options := range [][]llms.CallOption{nil, {llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })}} {
					_, err = model.GenerateContent(t.Context(), human("hi"), options...)
					for e := err; e != nil; e = errors.Unwrap(e) {
						if text := fmt.Sprintf("%v %+v %q", e, e, e); shows(text) {
							t.Errorf("%s, %s, %s: %s", maker, name, s, text)
							break
						}
					}
					if p, ok := errors.AsType[*middleware.ProviderError](err); ok && shows(p.Type+p.Name+p.Param+p.Message+p.RequestID) {
						t.Errorf("%s, %s, %s: %+v", maker, name, s, *p)
					}
				}
			}
			server.Close()
		}
	}
	// A key in a URL is not in the error either.
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	model, err := provider.New(provider.Options{Model: "m", BaseURL: server.URL + "/v1?code=" + key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = model.GenerateContent(t.Context(), human("hi")); err == nil || shows(err.Error()) {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		status := func(code int, body string, header ...string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				for i := 0; i < len(header); i += 2 {
					w.Header().Set(header[i], header[i+1])
				}
				w.WriteHeader(code)
				fmt.Fprint(w, body)
			}
		}
		raw := func(body string, streamed bool) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				if w.Header().Set("Content-Type", "application/json"); streamed {
					w.Header().Set("Content-Type", d.mime)
				}
				fmt.Fprint(w, body)
			}
		}
		cut := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", d.mime)
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, d.stream[:len(d.stream)/2])
		}
		streamed := llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })
		for _, tt := range []struct {
			name   string
			answer http.HandlerFunc
			option llms.CallOption
			code   llms.ErrorCode
			retry  bool
			billed bool
			after  time.Duration
			said   string
		}{
			{"rate", status(429, `{"error":{"message":"slow down","type":"rate_limit_error"}}`, "Retry-After", "7"), nil, llms.ErrCodeRateLimit, true, false, 7 * time.Second, "slow down"},
			{"quota", status(429, `{"error":{"message":"pay","code":"insufficient_quota"}}`), nil, llms.ErrCodeQuotaExceeded, false, false, 0, "pay"},
			{"server", status(500, `<html>oops</html>`), nil, llms.ErrCodeProviderUnavailable, true, false, 0, "oops"},
			{"an overloaded server", status(529, `{"error":{"message":"later"}}`), nil, llms.ErrCodeProviderUnavailable, true, false, 0, "later"},
			{"a gateway's time-out", status(504, `<html>timed out</html>`), nil, llms.ErrCodeTimeout, true, true, 0, "timed out"},
			{"a gateway's time-out in JSON", status(408, `{"error":{"message":"timed out"}}`), nil, llms.ErrCodeTimeout, true, true, 0, "timed out"},
			{"a gateway", status(502, `<html>bad gateway</html>`), nil, llms.ErrCodeProviderUnavailable, true, true, 0, "bad gateway"},
			{"a proxy's time-out", status(524, `error code: 524`), nil, llms.ErrCodeProviderUnavailable, true, true, 0, "524"},
			{"key", status(401, `{"error":{"message":"who are you?"}}`), nil, llms.ErrCodeAuthentication, false, false, 0, "who are you?"},
			{"length", status(400, `{"error":{"message":"maximum context length is 10","code":"context_length_exceeded"}}`), nil, llms.ErrCodeTokenLimit, false, false, 0, "maximum"},
			{"garbage", raw("<html>welcome</html>", false), nil, llms.ErrCodeProviderUnavailable, true, true, 0, ""},
			{"empty", raw("", false), nil, llms.ErrCodeProviderUnavailable, true, true, 0, ""},
			{"no answer", raw("{}", false), nil, llms.ErrCodeProviderUnavailable, true, true, 0, ""},
			{"garbage streamed", raw("data: <html>\n\n", true), streamed, llms.ErrCodeProviderUnavailable, true, true, 0, ""},
			{"told within", raw(d.fault, true), streamed, llms.ErrCodeProviderUnavailable, true, true, 0, "too busy"},
			{"cut", cut, streamed, llms.ErrCodeProviderUnavailable, true, true, 0, ""},
			{"ended early", raw(d.stream[:strings.LastIndex(strings.TrimSpace(d.stream[:len(d.stream)*3/5]), "\n")+1], true), streamed, llms.ErrCodeProviderUnavailable, true, true, 0, ""},
		} {
			t.Run(d.name+"/"+tt.name, func(t *testing.T) {
				u := d.serve(t)
				u.answer = tt.answer
				resp, err := u.model(t).GenerateContent(t.Context(), human("hi"), tt.option)
				e, ok := errors.AsType[*middleware.ProviderError](err)
				if !ok {
					t.Fatalf("got %v and %v", resp, err)
				}
				if e.Code != tt.code || e.Retry != tt.retry || e.Billed != tt.billed || e.RetryAfter != tt.after || !strings.Contains(e.Error(), tt.said) || e.RequestID != "req-1" {
					t.Errorf("got %+v: %v", e, err)
				}
				if u.requests != 1 {
					t.Errorf("asked %d times", u.requests)
				}
			})
		}
	}
}

// A call that does not end is ended by the caller, and may be billed.
func TestPatience(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		slow := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", d.mime)
			for _, b := range []byte(d.stream) {
				if _, err := w.Write([]byte{b}); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
		for name, answer := range map[string]http.HandlerFunc{"silent": silent, "slow": slow} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				u := d.serve(t)
				u.answer = answer
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := u.model(t).GenerateContent(ctx, human("hi"), llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
				e, ok := errors.AsType[*middleware.ProviderError](err)
				if !errors.Is(err, context.DeadlineExceeded) || !ok || !e.Billed {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// A receiver that returns an error ends the request, and not only the reading.
func TestEnoughSeen(t *testing.T) {
	enough := errors.New("enough")
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			u := d.serve(t)
			gone := make(chan struct{})
			u.answer = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", d.mime)
				fmt.Fprint(w, d.stream[:len(d.stream)*2/3])
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(gone)
			}
			_, err := u.model(t).GenerateContent(t.Context(), human("hi"), middleware.WithParams(middleware.Params{
				OnDelta: func(_ context.Context, d *middleware.Delta) error {
					if d.Text != "" {
						return enough
					}
					return nil
				}}))
			if !errors.Is(err, enough) {
				t.Errorf("got %v", err)
			}
			select {
			case <-gone:
			case <-time.After(time.Minute):
				t.Error("the server still answers")
			}
		})
	}
}

// An answer of 200 MB is cut off at the limit, whatever its form, and so is its memory.
func TestAnswersAreBounded(t *testing.T) {
	block := strings.Repeat("x", 1<<16)
	for i := range dialects {
		d := &dialects[i]
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", d.name, streamed), func(t *testing.T) {
				u := d.serve(t)
				var sent atomic.Int64
				u.answer = func(w http.ResponseWriter, _ *http.Request) {
					if w.Header().Set("Content-Type", "application/json"); streamed {
						w.Header().Set("Content-Type", d.mime)
						fmt.Fprint(w, "data: ")
					}
					fmt.Fprint(w, `{"content":"`)
					for sent.Load() < 200<<20 {
						n, err := fmt.Fprint(w, block)
						if err != nil {
							return
						}
						sent.Add(int64(n))
					}
				}
				m, err := d.make(u.URL, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				var options []llms.CallOption
				if streamed {
					options = append(options, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err = m.GenerateContent(t.Context(), human("hi"), options...)
				runtime.ReadMemStats(&after)
				if err == nil || !strings.Contains(err.Error(), "the answer is too large") {
					t.Errorf("got %v", err)
				}
				if took := after.TotalAlloc - before.TotalAlloc; took > 40<<20 {
					t.Errorf("took %d MB, for %d MB sent", took>>20, sent.Load()>>20)
				}
			})
		}
	}
}

func TestLinesMayBeLong(t *testing.T) {
	text := strings.Repeat("long ", 200_000)
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			u := d.serve(t)
			u.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", d.mime)
				fmt.Fprint(w, strings.Replace(d.long, "%s", text, 1))
			}
			resp, err := u.model(t).GenerateContent(t.Context(), human("hi"), llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
			if err != nil {
				t.Fatal(err)
			}
			if got := resp.Choices[0].Content; got != text {
				t.Errorf("%d of %d bytes came", len(got), len(text))
			}
		})
	}
}

// Many concurrent calls reuse connections: there are only as many as there are concurrent calls.
func TestConnectionsAreKept(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			u := d.serve(t)
			u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.say(w, r, nil) })
			m := u.model(t)
			var opened atomic.Int64
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
				if !i.Reused {
					opened.Add(1)
				}
			}})
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for range 20 {
						if _, err := m.GenerateContent(ctx, human("hi")); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if n := opened.Load(); n > 32 {
				t.Errorf("320 calls, 16 at a time, opened %d connections", n)
			}
		})
	}
}

// If a free answer reports no usage, no tokens are invented.
func TestUsageIsTheServers(t *testing.T) {
	var none sdk.Usage
	for i := range dialects {
		d := &dialects[i]
		u := d.serve(t)
		u.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", d.mime)
			fmt.Fprint(w, strings.Replace(d.long, "%s", "hi", 1))
		}
		resp, err := u.model(t).GenerateContent(t.Context(), human("hi"), llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
		if err != nil {
			t.Fatal(d.name, err)
		}
		if got := middleware.ExtraOf(resp.Choices[0]).Usage; got != none {
			t.Errorf("%s: got %+v", d.name, got)
		}
	}
}

// A redirect to another server does not get the prompt and the key.
func TestRedirects(t *testing.T) {
	for i := range dialects {
		d := &dialects[i]
		t.Run(d.name, func(t *testing.T) {
			other := d.serve(t)
			u := d.serve(t)
			u.answer = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
			}
			_, err := u.model(t).GenerateContent(t.Context(), human("hi"))
			if e, ok := errors.AsType[*middleware.ProviderError](err); !ok || e.Status != http.StatusTemporaryRedirect || e.Billed {
				t.Errorf("got %+v", err)
			}
			if other.requests != 0 {
				t.Error("the prompt went on")
			}
		})
	}
}

// Whatever ends a request before a status is a lost connection, whose errors in HTTP/2 have no common type.
func TestEndsOfAConnection(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for name, test := range map[string]struct {
		transport http.RoundTripper
		code      llms.ErrorCode
		retry     bool
	}{
		"reset stream":          {server.Client().Transport, llms.ErrCodeProviderUnavailable, true},
		"untrusted certificate": {&http.Transport{}, llms.ErrCodeUnknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := provider.New(provider.Options{Model: "m", BaseURL: server.URL, Transport: test.transport})
			if err != nil {
				t.Fatal(err)
			}
			_, err = m.GenerateContent(t.Context(), human("hi"))
			if e, ok := errors.AsType[*middleware.ProviderError](err); !ok || e.Code != test.code || e.Retry != test.retry {
				t.Errorf("%#v", err)
			}
		})
	}
}

// The most usual mistake of a base address is named with the address that it led to.
func TestBaseAddressWithoutVersion(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	for base, wantHint := range map[string]bool{srv.URL: true, srv.URL + "/v1": false, strings.Replace(srv.URL, "//", "//user:pass@", 1): true} {
		m, err := provider.New(provider.Options{Model: "m", BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")})
		if err == nil || strings.Contains(err.Error(), "/chat/completions; does the base address lack") != wantHint || strings.Contains(err.Error(), "pass") {
			t.Errorf("%s: %v", base, err)
		}
	}
}
