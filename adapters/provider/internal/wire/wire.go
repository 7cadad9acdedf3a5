package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/pool"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk/redact"
)

// MaxAnswer is the most that is read of one answer, in bytes, where nobody says
// otherwise. A line of a stream may be as long.
const MaxAnswer = 32 << 20

// maxError is the most that is read of an error.
const maxError = 1 << 20

// ErrTooLarge says that an answer is longer than is read of one.
var ErrTooLarge = errors.New("the answer is too large")

// ErrSilent says that a server has said nothing for ten minutes.
var ErrSilent = errors.New("the server went silent")

// Transport is the http.RoundTripper of a provider.
type Transport struct {
	// Base makes the requests; nil is the pool that all providers share.
	Base http.RoundTripper
	// MaxAnswer bounds an answer in bytes; 0 means MaxAnswer.
	MaxAnswer int64
}

// RoundTrip sends the request and watches it for the Exchange of its context.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = pool.Shared()
	}
	x, _ := req.Context().Value(exchangeKey{}).(*Exchange)
	if x == nil {
		x = &Exchange{}
	}
	x.asked, x.secrets = req.Header, nil
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { x.sent.Store(info.Err == nil) },
	}))
	resp, err := base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.Status, x.Header = resp.StatusCode, resp.Header
	limit := t.MaxAnswer
	if limit <= 0 {
		limit = MaxAnswer
	}
	resp.Body = &body{ReadCloser: resp.Body, left: limit, tooLarge: &x.tooLarge}
	if resp.StatusCode >= 400 {
		said, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
		resp.Body.Close()
		if err != nil && len(said) == 0 {
			return nil, fmt.Errorf("reading the server's error: %w", err)
		}
		x.said = said
		resp.Body = io.NopCloser(bytes.NewReader(said))
		return resp, nil
	}
	const shortest = 16 // a word that stands for a key, as local servers take, may be in an answer
	if long := slices.DeleteFunc(keys(req.Header), func(key string) bool { return len(key) < shortest }); len(long) > 0 {
		resp.Body = &redactedBody{ReadCloser: resp.Body, secrets: redact.New(long...)}
	}
	return resp, nil
}

// Client makes the requests of a provider through t. It does not follow a redirect to
// another server, which would get the prompt and the key.
func Client(t *Transport) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if from := via[0].URL; len(via) >= 10 || req.URL.Host != from.Host || req.URL.Scheme != from.Scheme {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// errStatus is the error of an answer that is none; what the server said of it is kept
// by the Exchange.
type errStatus int

func (s errStatus) Error() string {
	return fmt.Sprintf("the server answered %d %s", int(s), http.StatusText(int(s)))
}

// UserAgent names us to servers.
const UserAgent = "stepfall"

// Post sends body, which is JSON, with a header that many requests may share. Only a response of success is returned; its body is the
// caller's to close.
func Post(ctx context.Context, client *http.Client, address string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		resp.Body.Close()
		return nil, errStatus(resp.StatusCode)
	}
	return resp, nil
}

// body ends with ErrTooLarge after so many bytes, and with ErrSilent when the server
// sends none for long.
type body struct {
	io.ReadCloser
	left     int64
	tooLarge *atomic.Bool
	watch    *time.Timer
	silent   atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// An answer of just the limit has ended here.
		n, err := b.ReadCloser.Read(p[:min(len(p), 1)])
		if n > 0 {
			b.tooLarge.Store(true)
			return 0, ErrTooLarge
		}
		return 0, err
	}
	if b.watch == nil {
		b.watch = time.AfterFunc(pool.Silence, func() {
			b.silent.Store(true)
			_ = b.Close()
		})
	} else {
		b.watch.Reset(pool.Silence)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.watch.Stop()
	b.left -= int64(n)
	if err != nil && b.silent.Load() {
		err = ErrSilent
	}
	return n, err
}

// Exchange is what was seen of one call's requests, of the last where there were
// several.
type Exchange struct {
	Status int
	Header http.Header
	sent   atomic.Bool
	// tooLarge: the answer was left after the bound, whatever its client made of that.
	tooLarge atomic.Bool
	said     []byte
	asked    http.Header      // of the last request
	secrets  *redact.Redactor // of asked; nil until it is needed
}

type exchangeKey struct{}

// Begin returns the context to make a call with.
func Begin(ctx context.Context) (context.Context, *Exchange) {
	x := &Exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// RequestID is the server's name for the request.
func (x *Exchange) RequestID() string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "X-Goog-Request-Id"} {
		if id := x.Header.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// Fail makes the error of a call: what the server said where it said something, or
// else what became of the call.
func (x *Exchange) Fail(provider string, err error) error {
	if err == nil {
		return nil
	}
	if already, ok := errors.AsType[*middleware.ProviderError](err); ok {
		already.Provider = provider
		if already.RequestID == "" {
			already.RequestID = x.RequestID()
		}
		return x.clean(already)
	}
	if x.tooLarge.Load() && !errors.Is(err, ErrTooLarge) {
		err = ErrTooLarge
	}
	e := middleware.NewProviderError(provider, x.Status, x.Header, x.without(x.said), err)
	e.RequestID = x.RequestID()
	e.Billed = x.sent.Load() && x.Status < 300
	return x.clean(e)
}

// ServerError makes the error that a server sent in the place of an answer or within one.
func (x *Exchange) ServerError(provider string, said []byte) error {
	e := middleware.NewProviderError(provider, x.Status, x.Header, x.without(said), nil)
	e.RequestID, e.Billed = x.RequestID(), true
	return x.clean(e)
}

// keys are the values of a request's headers that nobody else may see.
func keys(h http.Header) []string {
	var list []string
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Proxy-Authorization", "Cookie"} {
		for _, value := range h.Values(name) {
			list = append(list, value)
			if _, key, ok := strings.Cut(value, " "); ok { // Bearer KEY
				list = append(list, key)
			}
		}
	}
	return list
}

// clean takes the keys that were sent out of an error: here, so that no caller, log,
// trace or client of a gateway can be told one.
func (x *Exchange) clean(e *middleware.ProviderError) *middleware.ProviderError {
	known := x.known()
	for _, text := range []*string{&e.Type, &e.Name, &e.Param, &e.Message, &e.RequestID} {
		*text = known.Known(*text)
	}
	if e.Err != nil {
		if text := e.Err.Error(); known.Known(text) != text {
			e.Err = &cleaned{known.Known(text), e.Err}
		}
	}
	return e
}

// without takes the keys that were sent out of what a server said, before anything is cut.
func (x *Exchange) without(said []byte) []byte {
	return []byte(x.known().Known(string(said)))
}

// known knows the keys that were sent, once there is something to take them out of.
func (x *Exchange) known() *redact.Redactor {
	if x.secrets == nil {
		x.secrets = redact.New(keys(x.asked)...)
	}
	return x.secrets
}

// cleaned is an error with another text. What it stands for can be asked of it, and not
// be had.
type cleaned struct {
	text string
	err  error
}

// Error returns the text without keys.
func (c *cleaned) Error() string { return c.text }

// Is reports whether the error that it stands for is target.
func (c *cleaned) Is(target error) bool { return errors.Is(c.err, target) }

// RefusedField is the error of a call that is not made for a field of the request.
func RefusedField(provider, field, format string, args ...any) error {
	return &middleware.ProviderError{Provider: provider, Code: llms.ErrCodeInvalidRequest, Param: field, Message: fmt.Sprintf(format, args...)}
}

// UnreadableError is the error of an answer that cannot be read: cut off, or not JSON.
func (x *Exchange) UnreadableError(provider string, err error) error {
	if x.tooLarge.Load() {
		return x.Fail(provider, ErrTooLarge)
	}
	why := string(x.without([]byte(err.Error())))
	return x.clean(&middleware.ProviderError{
		Provider: provider, Status: x.Status, Code: llms.ErrCodeProviderUnavailable, Retry: true, Billed: true,
		RequestID: x.RequestID(), Message: "the answer cannot be read: " + why[:min(len(why), 200)], Err: fmt.Errorf("%w: %w", middleware.ErrTruncatedStream, err),
	})
}

// readError is the error of an answer whose reading ended early.
func (x *Exchange) readError(ctx context.Context, provider string, err error) error {
	if errors.Is(err, ErrTooLarge) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return x.Fail(provider, err)
	}
	return x.UnreadableError(provider, err)
}
