package gateway

import (
	"context"
	"io"
	"net/http"
)

// RoundTrip answers a request without a server, so that a client of any of the APIs gets the cascade
// with one option: &http.Client{Transport: gateway}. The host of the request is ignored, but its path must
// be one that the gateway serves. The body of the response must be closed, as always; closing it ends a
// step that is still streaming, and returns after the request has been observed. The end of the request's
// context also ends the step, and reading the body then returns the context's error.
func (g *Gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	own := r.Clone(ctx)
	if own.Body == nil {
		own.Body = http.NoBody
	}
	own.Host = own.URL.Host
	own.Header.Del("Origin")
	p := &pipe{header: http.Header{}, cancel: cancel, head: make(chan struct{}), alone: make(chan struct{}), ended: make(chan struct{})}
	p.PipeReader, p.body = io.Pipe()
	p.resp = &http.Response{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: p, ContentLength: -1, Request: r, Trailer: http.Header{}}
	isOver := context.AfterFunc(r.Context(), func() { p.body.CloseWithError(r.Context().Err()) })
	go func() {
		defer isOver()
		defer cancel()
		defer own.Body.Close()
		defer p.finish()
		g.ServeHTTP(p, own)
	}()
	select {
	case <-p.head:
		return p.resp, nil
	case <-r.Context().Done():
	}
	cancel()
	select { // the request's body is no longer read
	case <-p.ended:
	case <-p.alone:
	}
	return nil, r.Context().Err()
}

// pipe is a response that is written at one end and read at the other.
type pipe struct {
	*io.PipeReader

	body   *io.PipeWriter
	header http.Header
	resp   *http.Response
	cancel context.CancelFunc
	head   chan struct{} // closed when status and header are set
	alone  chan struct{} // closed when the request's body was read and the step continues without a reader
	ended  chan struct{} // closed when nothing more will be written
}

// Header returns the header that will be sent.
func (p *pipe) Header() http.Header { return p.header }

// WriteHeader sends the header.
func (p *pipe) WriteHeader(status int) {
	if p.resp.StatusCode != 0 {
		return
	}
	p.resp.Status, p.resp.StatusCode, p.resp.Header = http.StatusText(status), status, p.header.Clone()
	p.resp.Header.Del("Trailer")
	close(p.head)
}

// Write makes data readable, and blocks until it is read. It fails after the end of the request's context.
func (p *pipe) Write(data []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if err := p.resp.Request.Context().Err(); err != nil {
		return 0, err
	}
	return p.body.Write(data)
}

// Flush does nothing, because writes are not buffered.
func (p *pipe) Flush() {}

// finish ends the body. Headers that were set after the header was sent become trailers.
func (p *pipe) finish() {
	p.WriteHeader(http.StatusOK)
	for name, values := range p.header {
		if _, ok := p.resp.Header[name]; !ok && name != "Trailer" {
			p.resp.Trailer[name] = values
		}
	}
	p.body.CloseWithError(p.resp.Request.Context().Err()) // nil means a regular end
	close(p.ended)
}

// Close ends the response, and a step that is still running for it. It returns after the request has been
// observed, unless the step continues without a reader.
func (p *pipe) Close() error {
	p.cancel()
	err := p.PipeReader.Close()
	select {
	case <-p.ended:
	case <-p.alone:
	}
	return err
}
