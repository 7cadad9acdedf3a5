package provider

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/adapters/internal/pool"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk/redact"
)

// maxAnswer is the default limit on the size of an answer in bytes, which is also the limit on a line of a
// stream.
const maxAnswer = 32 << 20

const maxError = 1 << 20

var errTooLarge = errors.New("the answer is too large")

// errNoResponse means that a request failed before the server sent a status.
var errNoResponse = errors.New("asking the server")

// errSilent means that a server has sent nothing for ten minutes.
var errSilent = errors.New("the server stopped sending")

// newClient returns a client that does not follow redirects to another server, which would get the prompt and
// the key. A nil transport means the connection pool that all providers share.
func newClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = pool.Shared()
	}
	return &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if from := via[0].URL; len(via) >= 10 || req.URL.Host != from.Host || req.URL.Scheme != from.Scheme {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

const userAgent = "stepfall"

// post sends a request. The header can be shared by several requests. Any status other than success is an
// error. The caller must close the response's body.
func (m *model) post(ctx context.Context, x *exchange, address string, header http.Header, request dialect.Object) (*http.Response, error) {
	data, err := request.JSON()
	if err != nil {
		return nil, err
	}
	x.secrets = m.secrets
	x.status, x.header, x.said = 0, nil, nil // those of an earlier try
	x.sent.Store(false)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) { x.sent.Store(info.Err == nil) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header = header
	x.address = (&url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: req.URL.Path}).String() // keys can be in the rest
	resp, err := m.http.Do(req)
	if err != nil { // an *url.Error, whose URL may contain a key
		return nil, fmt.Errorf("%w: %w", errNoResponse, errors.Unwrap(err))
	}
	x.status, x.header = resp.StatusCode, resp.Header
	resp.Body = &body{ReadCloser: resp.Body, left: m.maxAnswer, tooLarge: &x.tooLarge}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		if resp.StatusCode >= 400 {
			if x.said, err = io.ReadAll(io.LimitReader(resp.Body, maxError)); err != nil && len(x.said) == 0 {
				return nil, fmt.Errorf("reading the server's error: %w", err)
			}
		}
		return nil, fmt.Errorf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	x.isAnswered = true
	if m.inAnswer != nil {
		secrets := m.inAnswer
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
			secrets = m.inEvents
		}
		resp.Body = &redactedBody{ReadCloser: resp.Body, secrets: secrets}
	}
	return resp, nil
}

// body fails with errTooLarge after left bytes, and with errSilent if the server sends nothing for
// [pool.Silence].
type body struct {
	io.ReadCloser
	left     int64
	tooLarge *atomic.Bool
	watch    *time.Timer // runs during a read
	silent   atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// An answer of exactly the limit ends here.
		n, err := b.ReadCloser.Read(p[:min(len(p), 1)])
		if n > 0 {
			b.tooLarge.Store(true)
			return 0, errTooLarge
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
		err = errSilent
	}
	return n, err
}

// exchange is the state of one call's last request.
type exchange struct {
	provider   string
	address    string // without passwords
	status     int
	header     http.Header
	isAnswered bool // with a status of success
	sent       atomic.Bool
	// tooLarge is set if reading stopped at the limit, even if the reader hid that error.
	tooLarge atomic.Bool
	said     []byte           // body of an error response
	secrets  *redact.Redactor // the model's
}

func (x *exchange) requestID() string {
	return cmp.Or(x.header.Get("X-Request-Id"), x.header.Get("Request-Id"), x.header.Get("X-Goog-Request-Id")) //nolint:canonicalheader // the form that Go keeps it in
}

var versionInPath = regexp.MustCompile(`/v\d|/api/`)

// fail returns the error of a call, with the server's own message if there is one. It removes keys, so
// that no caller, log, trace or client of a gateway sees one.
func (x *exchange) fail(ctx context.Context, err error) error {
	if x.tooLarge.Load() && !errors.Is(err, errTooLarge) {
		err = errTooLarge
	}
	said, isSaid := errors.AsType[dialect.ServerError](err)
	e, isKnown := errors.AsType[*middleware.ProviderError](err)
	isOver := ctx.Err() != nil || errors.Is(err, context.Canceled) // the timeout of a dial is a DeadlineExceeded, too
	switch {
	case isKnown:
		e.Provider = x.provider
	case isSaid:
		e = middleware.NewProviderError(x.provider, x.status, x.header, x.clean(said), nil)
		e.Billed = true
	case x.isAnswered && !isOver && !errors.Is(err, errTooLarge):
		why := x.clean([]byte(err.Error()))
		e = &middleware.ProviderError{
			Provider: x.provider, Status: x.status, Code: llms.ErrCodeProviderUnavailable, Retry: true, Billed: true,
			Message: "cannot read the answer: " + string(why[:min(len(why), 200)]), Err: fmt.Errorf("%w: %w", middleware.ErrTruncatedStream, err),
		}
	default:
		e = middleware.NewProviderError(x.provider, x.status, x.header, x.clean(x.said), err)
		e.Billed = x.sent.Load() && (e.Billed || x.status < 300)
		if x.status == http.StatusNotFound && !json.Valid(x.said) && !versionInPath.MatchString(x.address) {
			e.Message = strings.TrimPrefix(e.Message+": "+x.address+"; does the base address lack the API's version, such as /v1?", ": ")
		}
		if _, isUntrusted := errors.AsType[*tls.CertificateVerificationError](err); errors.Is(err, errNoResponse) && !isOver && !isUntrusted {
			// Errors of HTTP/2 have no common type.
			e.Code, e.Retry = llms.ErrCodeProviderUnavailable, true
		}
	}
	e.RequestID = cmp.Or(e.RequestID, x.requestID())
	for _, text := range []*string{&e.Type, &e.Name, &e.Param, &e.Message, &e.RequestID} {
		*text = string(x.clean([]byte(*text)))
	}
	if e.Err != nil {
		if text := string(x.clean([]byte(e.Err.Error()))); text != e.Err.Error() {
			e.Err = &cleanedError{text, e.Err}
		}
	}
	return e
}

// clean removes the keys that were sent from a text. It must be called before the text is truncated, which
// could leave part of a key.
func (x *exchange) clean(text []byte) []byte {
	if x.secrets == nil {
		return text
	}
	return []byte(x.secrets.Known(string(text)))
}

// keys returns the secret values of a request's header.
func keys(h http.Header) []string {
	var list []string
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		for _, value := range h.Values(name) {
			list = append(list, value)
			if _, key, ok := strings.Cut(value, " "); ok { // Bearer KEY
				list = append(list, key)
			}
		}
	}
	return list
}

// cleanedError is an error with a replaced text. Is matches the original error, but Unwrap does not return it.
type cleanedError struct {
	text string
	err  error
}

// Error returns the text without keys.
func (c *cleanedError) Error() string { return c.text }

// Is reports whether the original error matches target.
func (c *cleanedError) Is(target error) bool { return errors.Is(c.err, target) }
