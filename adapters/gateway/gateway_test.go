package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// recorder is a model that records its requests.
type recorder struct {
	answer   func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error)
	messages []llms.MessageContent
	options  llms.CallOptions
	params   middleware.Params
	info     middleware.Info
}

func (r *recorder) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	r.messages, r.info = messages, middleware.InfoFrom(ctx)
	r.options, r.params = middleware.Resolve(options...)
	return r.answer(ctx, &r.params)
}

func (r *recorder) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, r, prompt, options...)
}

// says returns a model that answers with the choice.
func says(choice llms.ContentChoice) *recorder {
	return &recorder{answer: func(context.Context, *middleware.Params) (*llms.ContentResponse, error) {
		own := choice
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{&own}}, nil
	}}
}

// streams returns a model that streams the pieces and answers with the choice.
func streams(choice llms.ContentChoice, pieces ...middleware.Delta) *recorder {
	return &recorder{answer: func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error) {
		if p.OnDelta != nil {
			for i := range pieces {
				if err := p.OnDelta(ctx, &pieces[i]); err != nil {
					return nil, err
				}
			}
		}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{&choice}}, nil
	}}
}

// fails returns a model that returns an error.
func fails(err error) *recorder {
	return &recorder{answer: func(context.Context, *middleware.Params) (*llms.ContentResponse, error) { return nil, err }}
}

func newGateway(t testing.TB, o gateway.Options) *gateway.Gateway {
	t.Helper()
	g, err := gateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func post(h http.Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	messagesPath  = "/v1/messages"
	hello         = `{"messages": [{"role": "user", "content": "hi"}]}`
)

// asked is the same question in each API.
var asked = map[string]string{
	chatPath:      `{"stream": %v, "messages": [{"role": "user", "content": "hi"}]}`,
	responsesPath: `{"stream": %v, "input": "hi"}`,
	messagesPath:  `{"stream": %v, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}`,
}

// named returns a fixed list of names.
func named(names ...string) func() []string { return func() []string { return names } }

func TestErrorsOfTheStep(t *testing.T) {
	for code, want := range map[llms.ErrorCode]int{
		llms.ErrCodeInvalidRequest: 400, llms.ErrCodeTokenLimit: 400, llms.ErrCodeContentFilter: 400, llms.ErrCodeQuotaExceeded: 429,
		llms.ErrCodeRateLimit: 429, llms.ErrCodeTimeout: 504, llms.ErrCodeProviderUnavailable: 503, llms.ErrCodeAuthentication: 502, llms.ErrCodeUnknown: 502,
	} {
		h := newGateway(t, gateway.Options{Model: fails(&llms.Error{Code: code, Message: "no"})})
		for path, body := range asked {
			for _, stream := range []bool{false, true} {
				w := post(h, path, fmt.Sprintf(body, stream), "X-Request-Id", "mine-1")
				if w.Code != want {
					t.Errorf("%s, %s, stream %v: status %d, want %d", code, path, stream, w.Code, want)
				}
				waits := code == llms.ErrCodeRateLimit || code == llms.ErrCodeProviderUnavailable
				if got := w.Header().Get("Retry-After"); (got != "") != waits {
					t.Errorf("%s: Retry-After is %q", code, got)
				}
				// The official clients would retry twice a request that a cap rejected.
				if got := w.Header().Get("X-Should-Retry"); (got == "false") != slices.Contains([]llms.ErrorCode{llms.ErrCodeQuotaExceeded, llms.ErrCodeAuthentication, llms.ErrCodeResourceNotFound}, code) {
					t.Errorf("%s: X-Should-Retry is %q", code, got)
				}
				if got := w.Header().Get("X-Request-ID"); got != "mine-1" {
					t.Errorf("request id %q", got)
				}
				checkError(t, path, w.Body.Bytes())
			}
		}
	}
}

// checkError checks that an error has the form of its API.
func checkError(t *testing.T, path string, body []byte) {
	t.Helper()
	var got struct {
		Type  string
		Error struct {
			Message, Type string
			Code          *string
		}
	}
	if err := json.Unmarshal(body, &got); err != nil || got.Error.Message == "" || got.Error.Type == "" {
		t.Errorf("%v: %s", err, body)
	}
	if anthropic := path == messagesPath; (got.Type == "error") != anthropic || (got.Error.Code != nil) == anthropic {
		t.Errorf("%s: %s", path, body)
	}
}

func TestRetryAfterIsTheProviders(t *testing.T) {
	err := &llms.Error{Code: llms.ErrCodeRateLimit, Message: "slow down", Cause: &middleware.ProviderError{Provider: "openai", Status: 429, RetryAfter: 2500 * time.Millisecond}}
	w := post(newGateway(t, gateway.Options{Model: fails(err)}), chatPath, hello)
	if w.Header().Get("Retry-After") != "3" || w.Header().Get("Retry-After-Ms") != "2500" {
		t.Errorf("got %v", w.Header())
	}
}

// If all circuits are open, clients are told when the first of them admits a call.
func TestRetryAfterIsTheCircuits(t *testing.T) {
	err := &llms.Error{Code: llms.ErrCodeProviderUnavailable, Message: "no feasible model", Cause: sdk.ErrNoFeasibleModel, Details: map[string]any{middleware.DetailRetryAfter: 28500 * time.Millisecond}}
	w := post(newGateway(t, gateway.Options{Model: fails(err)}), chatPath, hello)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "29" || w.Header().Get("Retry-After-Ms") != "28500" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
}

// awayLedger is a ledger whose store is unavailable.
type awayLedger struct{}

func (awayLedger) Reserve(context.Context, *sdk.Query, float64) (step.Reservation, error) {
	return nil, fmt.Errorf("dial tcp db.internal:5432: %w", sdk.ErrStoreUnavailable)
}

// An outage of the store is reported with a time to retry, and does not reveal the store's address.
func TestCapsThatCannotBeCheckedAreAnOutage(t *testing.T) {
	m, err := middleware.New(middleware.Config{
		Lambda: 1, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", MaxOutputTokens: 100, Price: sdk.Price{Input: 1, Output: 1}}, LLM: says(llms.ContentChoice{Content: "hi"})}},
		Step: step.Config{Ledger: awayLedger{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := post(newGateway(t, gateway.Options{Model: m}), chatPath, hello)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "db.internal") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestKeysAreTenants(t *testing.T) {
	keys, err := gateway.Keys(map[string]string{"k-blue": "blue"})
	if err != nil {
		t.Fatal(err)
	}
	model := says(llms.ContentChoice{Content: "hi"})
	h := newGateway(t, gateway.Options{Model: model, Authenticate: keys})
	for _, key := range []string{"", "Bearer k-red", "k", "Basic k-blue"} {
		if w := post(h, chatPath, hello, "Authorization", key); w.Code != http.StatusUnauthorized {
			t.Errorf("key %q: status %d", key, w.Code)
		}
	}
	// With keys, a client cannot spend another tenant's budget.
	for _, header := range [][2]string{{"Authorization", "Bearer k-blue"}, {"Authorization", "bearer k-blue"}, {"X-Api-Key", "k-blue"}, {"Api-Key", "k-blue"}} {
		model.info = middleware.Info{}
		if w := post(h, chatPath, hello, header[0], header[1], gateway.HeaderTenant, "red"); w.Code != http.StatusOK || model.info.Tenant != "blue" {
			t.Errorf("%v: status %d, tenant %q", header, w.Code, model.info.Tenant)
		}
	}
	if _, err := gateway.Keys(map[string]string{"": "blue"}); err == nil {
		t.Error("an empty key was accepted")
	}
}

func TestWhatAKeyMayDo(t *testing.T) {
	release := make(chan struct{})
	model := &recorder{answer: func(context.Context, *middleware.Params) (*llms.ContentResponse, error) {
		<-release
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "hi"}}}, nil
	}}
	h := newGateway(t, gateway.Options{Model: model, Models: named("small", "large"), Authenticate: func(_ context.Context, key string) (gateway.Client, error) {
		switch key {
		case "":
			return gateway.Client{}, &gateway.Refusal{Status: 403, Code: "key_expired", Message: "the key has expired"}
		case "broken":
			return gateway.Client{}, errors.New("the database is away")
		}
		return gateway.Client{Key: key, MaxRequests: 1, Models: []string{"small"}}, nil
	}})
	if w := post(h, chatPath, hello); w.Code != 403 || !strings.Contains(w.Body.String(), "key_expired") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := post(h, chatPath, hello, "X-Api-Key", "broken"); w.Code != 500 || strings.Contains(w.Body.String(), "database") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := post(h, chatPath, `{"model": "large", "messages": [{"role": "user", "content": "hi"}]}`, "X-Api-Key", "a"); w.Code != 404 {
		t.Errorf("another model: status %d: %s", w.Code, w.Body)
	}
	const small = `{"model": "small", "messages": [{"role": "user", "content": "hi"}]}`
	first := make(chan int, 1)
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		go func() { first <- post(h, chatPath, small, "X-Api-Key", "a").Code }()
		synctest.Wait()
		w := post(h, chatPath, small, "X-Api-Key", "a")
		if w.Code != 429 || w.Header().Get("Retry-After") != "1" {
			t.Errorf("a second request: status %d, %v", w.Code, w.Header())
		}
		close(release)
		synctest.Wait()
		if code := <-first; code != 200 {
			t.Errorf("the first request: status %d", code)
		}
		if w := post(h, chatPath, small, "X-Api-Key", "a"); w.Code != 200 {
			t.Errorf("after it: status %d: %s", w.Code, w.Body)
		}
	})
}

// A web page cannot spend the budget of a developer's own gateway.
func TestPagesMayNotAsk(t *testing.T) {
	ask := func(o gateway.Options, host, origin string, more ...string) *httptest.ResponseRecorder {
		o.Model = says(llms.ContentChoice{Content: "hi"})
		r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(hello))
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}))
		r.Host = host
		r.Header.Set("Content-Type", "text/plain")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		for i := 0; i+1 < len(more); i += 2 {
			r.Header.Set(more[i], more[i+1])
		}
		w := httptest.NewRecorder()
		newGateway(t, o).ServeHTTP(w, r)
		return w
	}
	keys, err := gateway.Keys(map[string]string{"k": "blue"})
	if err != nil {
		t.Fatal(err)
	}
	page := gateway.Options{Origins: []string{"https://app.example"}}
	for _, c := range []struct {
		o            gateway.Options
		host, origin string
		want         int
	}{
		{gateway.Options{}, "127.0.0.1:8080", "", 200},
		{gateway.Options{}, "localhost:8080", "", 200},
		{gateway.Options{}, "[::1]:8080", "", 200},
		{gateway.Options{}, "localhost:8080", "http://localhost:8080", 200},
		{gateway.Options{}, "localhost:8080", "https://evil.example", 403},
		{gateway.Options{}, "localhost:8080", "http://localhost:3000", 403},
		{gateway.Options{}, "localhost:8080", "null", 403},
		{gateway.Options{}, "evil.example:8080", "", 403},
		{gateway.Options{}, "evil.example:8080", "http://evil.example:8080", 403},
		{gateway.Options{}, "127.0.0.1.evil.example", "", 403},
		{gateway.Options{Hosts: []string{"host.docker.internal"}}, "host.docker.internal:8080", "", 200},
		{page, "localhost:8080", "https://app.example", 200},
		{page, "localhost:8080", "https://app.example.evil", 403},
		{gateway.Options{Authenticate: keys}, "gateway.example", "https://evil.example", 401},
	} {
		if w := ask(c.o, c.host, c.origin); w.Code != c.want {
			t.Errorf("host %s, origin %s: status %d, want %d", c.host, c.origin, w.Code, c.want)
		}
	}
	if w := ask(gateway.Options{}, "localhost:8080", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"); w.Code != 403 {
		t.Errorf("from another site: status %d", w.Code)
	}
	if w := ask(page, "localhost:8080", "https://app.example"); w.Header().Get("Access-Control-Allow-Origin") != "https://app.example" || w.Header().Get("Vary") != "Origin" {
		t.Errorf("got %v", w.Header())
	}
	if _, err := gateway.New(gateway.Options{Model: says(llms.ContentChoice{}), Origins: []string{"app.example"}}); err == nil {
		t.Error("an origin without a scheme was accepted")
	}
	r := httptest.NewRequest(http.MethodOptions, chatPath, http.NoBody)
	r.Header.Set("Origin", "https://app.example")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "authorization, x-stainless-lang")
	w := httptest.NewRecorder()
	newGateway(t, gateway.Options{Model: says(llms.ContentChoice{}), Authenticate: keys, Origins: []string{"*"}}).ServeHTTP(w, r)
	if w.Code != 204 || w.Header().Get("Access-Control-Allow-Headers") != "authorization, x-stainless-lang" {
		t.Errorf("asked before a request: status %d, %v", w.Code, w.Header())
	}
}

const (
	plantedKey   = "key-planted-in-the-policy"
	plantedShape = "sk-proj-planted0123456789"
)

// A key that a provider repeats in its error reaches neither clients nor logs.
func TestPlantedKeysReachNobody(t *testing.T) {
	var log strings.Builder
	var exchanges []gateway.Exchange
	broken := fmt.Errorf("401: Incorrect API key provided: %s (Authorization: Bearer %s)", plantedShape, plantedKey)
	for name, err := range map[string]error{"typed": &llms.Error{Code: llms.ErrCodeAuthentication, Message: broken.Error()}, "plain": broken} {
		for path, body := range asked {
			for _, stream := range []bool{false, true} {
				for _, begun := range []bool{false, true} {
					model := &recorder{answer: func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error) {
						if begun && p.OnDelta != nil {
							if err := p.OnDelta(ctx, &middleware.Delta{Text: "so"}); err != nil {
								return nil, err
							}
						}
						return nil, err
					}}
					h := newGateway(t, gateway.Options{
						Model: model, Secrets: func() []string { return []string{plantedKey} }, Logger: logTo(&log),
						Observe: func(x *gateway.Exchange) { exchanges = append(exchanges, *x) },
					})
					w := post(h, path, fmt.Sprintf(body, stream))
					if got := w.Body.String() + fmt.Sprint(w.Header()); strings.Contains(got, "planted") || !strings.Contains(got, "[redacted]") {
						t.Errorf("%s, %s, stream %v: %s", name, path, stream, got)
					}
				}
			}
		}
	}
	if strings.Contains(log.String(), "planted") || !strings.Contains(log.String(), "[redacted]") {
		t.Errorf("the log says\n%s", &log)
	}
	for _, x := range exchanges {
		if x.Refused == nil || strings.Contains(x.Refused.Message, "planted") {
			t.Errorf("told %+v", x.Refused)
		}
	}
}

// A key that a client writes into any field does not reach the log either.
func TestKeysOfClientsReachNoLog(t *testing.T) {
	var log strings.Builder
	h := newGateway(t, gateway.Options{Model: says(llms.ContentChoice{Content: "fine", StopReason: "stop"}), Secrets: func() []string { return []string{plantedKey} }, Logger: logTo(&log)})
	for _, key := range []string{plantedKey, plantedShape} {
		for _, path := range []string{chatPath, "/v1/" + key, "/v1/models/" + key} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"model": "`+key+`", "messages": [{"role": "user", "content": "hi"}]}`))
			r.Header.Set("X-Request-ID", key)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	if n := strings.Count(log.String(), "[redacted]"); n < 10 || strings.Contains(log.String(), "planted") {
		t.Errorf("the log says\n%s", &log)
	}
}

func TestModels(t *testing.T) {
	h := newGateway(t, gateway.Options{Model: says(llms.ContentChoice{}), Models: named("small", "org/large")})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		return w.Code, w.Body.String()
	}
	if code, body := get("/v1/models"); code != 200 || strings.Count(body, `"object":"model"`) != 3 || !strings.Contains(body, `"has_more":false`) {
		t.Errorf("status %d: %s", code, body)
	}
	if code, body := get("/v1/models/org/large"); code != 200 || !strings.Contains(body, `"id":"org/large"`) || !strings.Contains(body, `"lifecycle":"active"`) {
		t.Errorf("status %d: %s", code, body)
	}
	if code, body := get("/v1/models/gpt-9"); code != 404 || !strings.Contains(body, "model_not_found") {
		t.Errorf("status %d: %s", code, body)
	}
	h = newGateway(t, gateway.Options{Model: says(llms.ContentChoice{}), AnyModel: true})
	if code, body := get("/v1/models/gpt-9"); code != 200 || !strings.Contains(body, `"id":"gpt-9"`) {
		t.Errorf("any model: status %d: %s", code, body)
	}
	if code, body := get(chatPath); code != 405 {
		t.Errorf("status %d: %s", code, body)
	}
	if code, body := get("/chat/completions"); code != 404 || !strings.Contains(body, "/v1") {
		t.Errorf("status %d: %s", code, body)
	}
}

// TestClientsThatStall sends requests that never end, with and without a key, and runs a step for longer than the time
// that a client has for sending a request.
func TestClientsThatStall(t *testing.T) {
	keys, err := gateway.Keys(map[string]string{"k": "blue"})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		model := &recorder{answer: func(ctx context.Context, _ *middleware.Params) (*llms.ContentResponse, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(10 * time.Minute):
				return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "late"}}}, nil
			}
		}}
		server := http.Server{Handler: newGateway(t, gateway.Options{Model: model, Authenticate: keys})}
		listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()

		ask := func(head, sent string) (string, time.Duration) {
			near, far := net.Pipe()
			defer near.Close()
			listener.conns <- far
			began := time.Now()
			go func() {
				_, _ = near.Write([]byte("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + head + "\r\n\r\n" + sent))
			}()
			got, err := io.ReadAll(near)
			if err != nil {
				t.Error(err)
			}
			return string(got), time.Since(began)
		}
		const key = "Authorization: Bearer k\r\n"
		whole := fmt.Sprintf("Connection: close\r\nContent-Length: %d", len(hello))
		if got, took := ask(key+whole, hello); !strings.Contains(got, `"content":"late"`) || took != 10*time.Minute {
			t.Errorf("a long step: %q after %v", got, took)
		}
		half := fmt.Sprintf("Content-Length: %d", len(hello))
		if got, took := ask(key+half, hello[:10]); took > time.Minute || !strings.HasPrefix(got, "HTTP/1.1 408 ") {
			t.Errorf("half a request: %q after %v", got, took)
		}
		if got, took := ask(half, hello[:10]); took > time.Minute || !strings.HasPrefix(got, "HTTP/1.1 401 ") {
			t.Errorf("half a request without a key: %q after %v", got, took)
		}
		if got, took := ask(key+"Transfer-Encoding: chunked", "5\r\nhello\r\nzz\r\n"); took > time.Minute || !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("malformed chunks: %q after %v", got, took)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// pipeListener accepts the connections that are passed to it.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// traced wraps a model so that its answers have traces, like those of the middleware.
func traced(t testing.TB, llm llms.Model, names ...string) *middleware.Model {
	t.Helper()
	c := middleware.Config{Lambda: 1}
	for _, name := range names {
		c.Models = append(c.Models, middleware.Candidate{Model: sdk.Model{Name: name, Price: sdk.Price{Input: 1, Output: 1}}, LLM: llm})
	}
	m, err := middleware.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Every response states the cost of the request, the models called and the trace id.
func TestEveryAnswerIsAccountedFor(t *testing.T) {
	for _, broken := range []bool{false, true} {
		inner := says(llms.ContentChoice{Content: "hi", StopReason: "stop"})
		if broken {
			inner = fails(&llms.Error{Code: llms.ErrCodeInvalidRequest, Message: "no"})
		}
		server := httptest.NewServer(newGateway(t, gateway.Options{Model: traced(t, inner, "small")}))
		for path, body := range asked {
			for _, stream := range []bool{false, true} {
				resp, err := http.Post(server.URL+path, "application/json", strings.NewReader(fmt.Sprintf(body, stream)))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				told := func(name string) string {
					if v := resp.Header.Get(name); v != "" {
						return v
					}
					return resp.Trailer.Get(name)
				}
				if told(gateway.HeaderTraceID) == "" || told(gateway.HeaderCostUSD) == "" || told(gateway.HeaderModels) != "small" || told("X-Request-Id") == "" {
					t.Errorf("%s, stream %v, broken %v: %v %v", path, stream, broken, resp.Header, resp.Trailer)
				}
				if !broken && !strings.Contains(string(text), `"stepfall":{"model":"small","trace_id":"`+told(gateway.HeaderTraceID)) {
					t.Errorf("%s, stream %v: %s", path, stream, text)
				}
			}
		}
		server.Close()
	}
}
