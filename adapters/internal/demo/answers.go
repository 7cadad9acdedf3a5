package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// answers asks a server once about each request and remembers what it answered, so that
// every strategy meets the same answers and nobody pays for them twice.
type answers struct {
	mu    sync.Mutex
	known map[string]*answer
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// RoundTrip implements [http.RoundTripper]. Failures are not remembered.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, errors.Join(err, r.Body.Close())
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	key := r.Method + " " + r.URL.String() + "\n" + string(body)
	a.mu.Lock()
	found := a.known[key]
	a.mu.Unlock()
	if found == nil {
		var err error
		if found, err = fetch(r.Context(), r, body); err != nil {
			return nil, err
		}
		if found.status == http.StatusOK {
			a.mu.Lock()
			if a.known == nil {
				a.known = map[string]*answer{}
			}
			a.known[key] = found
			a.mu.Unlock()
		}
	}
	return &http.Response{
		Status: http.StatusText(found.status), StatusCode: found.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: found.header.Clone(), Body: io.NopCloser(bytes.NewReader(found.body)), ContentLength: int64(len(found.body)), Request: r,
	}, nil
}

// fetch asks the server.
func fetch(ctx context.Context, r *http.Request, body []byte) (*answer, error) {
	out := r.Clone(ctx)
	out.Body = io.NopCloser(bytes.NewReader(body))
	response, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(response.Body)
	return &answer{response.StatusCode, response.Header, text}, errors.Join(err, response.Body.Close())
}
