package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// RoundTrip answers a request without a server, so that a client of any of the
// dialects gets the cascade by one option: &http.Client{Transport: gateway}. Which
// host the request is for does not matter, its path must be one that is served. The
// body of the response must be closed, as ever; that ends a step that still streams, and
// so does the end of the request's context, which is what reading the body returns then.
func (g *Gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	own := r.Clone(ctx)
	if own.Body == nil {
		own.Body = http.NoBody
	}
	own.Host = own.URL.Host
	own.Header.Del("Origin")
	p := &pipe{ctx: r.Context(), header: http.Header{}, cancel: cancel, head: make(chan struct{}), alone: make(chan struct{}), ended: make(chan struct{})}
	p.more.L = &p.mu
	awake := context.AfterFunc(r.Context(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.more.Broadcast()
	})
	go func() {
		defer awake()
		defer cancel()
		defer own.Body.Close()
		defer p.finish()
		g.ServeHTTP(p, own)
	}()
	select {
	case <-p.head:
	case <-r.Context().Done():
		cancel()
		select { // the request's body is not read any more
		case <-p.ended:
		case <-p.alone:
		}
		return nil, r.Context().Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	resp := &http.Response{
		Status: http.StatusText(p.status), StatusCode: p.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: p.sent, Body: p, ContentLength: -1, Request: r, Trailer: http.Header{},
	}
	p.resp = resp
	p.addTrailers()
	return resp, nil
}

// pipe is a response that is written at one end and read at the other.
type pipe struct {
	ctx    context.Context // the caller's
	header http.Header
	cancel context.CancelFunc
	head   chan struct{} // closed when status and sent are set
	alone  chan struct{} // closed when the body was read and the step goes on without a reader
	ended  chan struct{} // closed when nothing further is written

	mu     sync.Mutex
	more   sync.Cond
	status int
	sent   http.Header
	resp   *http.Response
	buf    bytes.Buffer
	done   bool
	closed bool
}

// Header returns the header to be sent.
func (p *pipe) Header() http.Header { return p.header }

// WriteHeader sends the header.
func (p *pipe) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeHeader(status)
}

func (p *pipe) writeHeader(status int) {
	if p.status != 0 {
		return
	}
	p.status, p.sent = status, p.header.Clone()
	p.sent.Del("Trailer")
	close(p.head)
}

var errBodyClosed = errors.New("the body of the response was closed")

// Write makes data readable. It waits where the reader is far behind.
func (p *pipe) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeHeader(http.StatusOK)
	for p.buf.Len() > mostPending && !p.closed && p.ctx.Err() == nil {
		p.more.Wait()
	}
	switch {
	case p.closed:
		return 0, errBodyClosed
	case p.ctx.Err() != nil:
		return 0, p.ctx.Err()
	}
	p.more.Broadcast()
	return p.buf.Write(data)
}

// Flush is here since a stream is flushed; nothing is held back.
func (p *pipe) Flush() {}

func (p *pipe) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeHeader(http.StatusOK)
	p.done = true
	p.addTrailers()
	p.more.Broadcast()
	close(p.ended)
}

// addTrailers gives the response what was set after its header was sent, once both are
// there: a short answer ends before RoundTrip has made the response. p.mu is held.
func (p *pipe) addTrailers() {
	if !p.done || p.resp == nil {
		return
	}
	for name, values := range p.header {
		if _, ok := p.sent[name]; !ok && name != "Trailer" {
			p.resp.Trailer[name] = values
		}
	}
}

// Read reads the body of the response.
func (p *pipe) Read(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.buf.Len() == 0 && !p.done && !p.closed && p.ctx.Err() == nil {
		p.more.Wait()
	}
	switch {
	case p.closed:
		return 0, errBodyClosed
	case p.ctx.Err() != nil:
		return 0, p.ctx.Err()
	case p.buf.Len() == 0:
		return 0, io.EOF
	}
	n, err := p.buf.Read(data)
	p.more.Broadcast()
	return n, err
}

// Close ends the response, and a step that still runs for it.
func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.more.Broadcast()
	p.mu.Unlock()
	p.cancel()
	return nil
}
