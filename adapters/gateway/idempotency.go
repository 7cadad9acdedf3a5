package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
)

// headerIdempotencyKey identifies a request that is served once, however often it is sent. A repeated answer has
// headerReplayed.
const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"
)

// Notes is a store through which replicas share answers by Idempotency-Key.
type Notes interface {
	// Claim writes a note unless an unexpired one exists, and reports whether it did.
	Claim(ctx context.Context, kind, name string, note []byte, ttl time.Duration) (bool, error)
	// Post writes a note, replacing an earlier one.
	Post(ctx context.Context, kind, name string, note []byte, ttl time.Duration) error
	// Note returns the note, or nil if it does not exist or has expired.
	Note(ctx context.Context, kind, name string) ([]byte, error)
}

const (
	kindAnswer = "answer"
	// answerTTL is how long an answer is kept, claimTTL how long the claim of a failed replica holds. A request
	// that waits for another one's answer polls every claimPoll.
	answerTTL = time.Hour
	claimTTL  = time.Minute
	claimPoll = 200 * time.Millisecond
	// maxAnswerBytes is the maximum size of an answer that is kept, maxAnswersBytes the maximum size of all answers in
	// memory.
	maxAnswerBytes  = 4 << 20
	maxAnswersBytes = 64 << 20
)

// answer is the answer to a request. While the request is being served, Status is 0.
type answer struct {
	Request []byte      `json:"request"` // digest of the request
	Status  int         `json:"status,omitempty"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body,omitempty"`
}

type memoryNotes struct {
	mu    sync.Mutex
	notes map[string]memoryNote
	order []postedNote // of the answers among the notes, oldest first
	bytes int
}

type memoryNote struct {
	data  []byte
	until time.Time
}

// postedNote identifies a note until another one with its name is written.
type postedNote struct {
	name  string
	until time.Time
}

func newMemoryNotes() *memoryNotes { return &memoryNotes{notes: map[string]memoryNote{}} }

// Claim implements Notes.
func (m *memoryNotes) Claim(_ context.Context, _, name string, note []byte, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.notes[name].until.After(time.Now()) {
		return false, nil
	}
	m.put(name, note, ttl)
	return true, nil
}

// Post implements Notes.
func (m *memoryNotes) Post(_ context.Context, _, name string, note []byte, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ttl <= 0 {
		m.drop(name)
		return nil
	}
	if m.put(name, note, ttl); ttl > claimTTL {
		m.order = append(m.order, postedNote{name, m.notes[name].until})
	}
	for len(m.order) > 0 {
		oldest := m.order[0]
		if m.notes[oldest.name].until.Equal(oldest.until) {
			if m.bytes <= maxAnswersBytes && oldest.until.After(time.Now()) {
				break
			}
			m.drop(oldest.name)
		}
		m.order = m.order[1:]
	}
	return nil
}

// Note implements Notes.
func (m *memoryNotes) Note(_ context.Context, _, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if note := m.notes[name]; note.until.After(time.Now()) {
		return note.data, nil
	}
	return nil, nil
}

func (m *memoryNotes) put(name string, note []byte, ttl time.Duration) {
	m.drop(name)
	m.notes[name] = memoryNote{note, time.Now().Add(ttl)}
	m.bytes += len(note)
}

func (m *memoryNotes) drop(name string) {
	m.bytes -= len(m.notes[name].data)
	delete(m.notes, name)
}

// serveOnce answers a request. Requests with the same Idempotency-Key are served only serveOnce and share the answer, both
// while it is being produced and later. Failures are not kept, so that clients can retry.
func (g *Gateway) serveOnce(x *exchange, serve func(*exchange) *Refusal) *Refusal {
	key := x.r.Header.Get(headerIdempotencyKey)
	if key == "" || x.r.Method != http.MethodPost {
		return serve(x)
	}
	if len(key) > maxNameBytes {
		return dialect.Invalid(headerIdempotencyKey, "the header %s has %d bytes: want at most %d", headerIdempotencyKey, len(key), maxNameBytes)
	}
	hash := sha256.New()
	hash.Write([]byte(x.Path + "\x00"))
	body, refused := x.body()
	if refused != nil {
		return refused
	}
	hash.Write(body)
	x.r.Body = io.NopCloser(bytes.NewReader(body))
	running, _ := json.Marshal(&answer{Request: hash.Sum(nil)}) // cannot fail: plain fields
	name := x.noteName(key)
	got, refused := g.claim(x, name, hash.Sum(nil), running)
	switch {
	case refused != nil:
		return refused
	case got != nil:
		x.replay(got)
		return nil
	}
	return g.answerOnce(x, name, hash.Sum(nil), running, serve)
}

// answerOnce serves a request whose name has been claimed, and keeps the answer.
func (g *Gateway) answerOnce(x *exchange, name string, request, running []byte, serve func(*exchange) *Refusal) *Refusal {
	// The step continues if its client disconnects: otherwise a repetition would pay for it again.
	outer := x.r
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(outer.Context()))
	defer cancel(nil)
	defer context.AfterFunc(outer.Context(), func() {
		if cause := context.Cause(outer.Context()); errors.Is(cause, errShutdown) {
			cancel(cause)
		}
	})()
	if p, ok := x.w.(*pipe); ok {
		close(p.alone)
	}
	go g.renew(ctx, name, running)
	w := &recorder{ResponseWriter: x.w}
	x.w, x.conn = w, http.NewResponseController(w)
	x.r = outer.WithContext(ctx)
	refused := serve(x)
	x.r = outer
	cancel(nil)
	var got *answer
	if refused == nil && x.Refused == nil && x.Status == http.StatusOK && w.body.Len() <= maxAnswerBytes {
		h := w.Header().Clone()
		for _, own := range []string{headerRequestID, "Request-Id", "Trailer", "Content-Length", "Date"} {
			h.Del(own)
		}
		got = &answer{Request: request, Status: x.Status, Header: h, Body: w.body.Bytes()}
	}
	g.publish(outer.Context(), name, got)
	return refused
}

// claim claims a name for this request. If another request has claimed it, claim waits for that request's answer
// and returns it.
func (g *Gateway) claim(x *exchange, name string, request, running []byte) (*answer, *Refusal) {
	ctx := x.r.Context()
	for {
		mine, err := g.o.Notes.Claim(ctx, kindAnswer, name, running, claimTTL)
		var note []byte
		if err == nil && !mine {
			note, err = g.o.Notes.Note(ctx, kindAnswer, name)
		}
		switch {
		case ctx.Err() != nil:
			return nil, dialect.Refuse(statusClientGone, "canceled", "the client disconnected")
		case err != nil: // fail, because the request could be billed twice
			g.o.Logger.Error("looking up an answer by its Idempotency-Key failed", "request", g.clean(x.ID), "error", g.clean(err.Error()))
			r := dialect.Refuse(http.StatusServiceUnavailable, "provider_unavailable", "the gateway cannot look up its answers by %s now", headerIdempotencyKey)
			r.RetryAfter = waitOutage
			return nil, r
		case mine:
			return nil, nil
		}
		var got answer
		if note != nil && json.Unmarshal(note, &got) == nil {
			if !bytes.Equal(got.Request, request) {
				r := dialect.Invalid(headerIdempotencyKey, "another request has already used the %s %q", headerIdempotencyKey, x.r.Header.Get(headerIdempotencyKey))
				r.Status, r.Code = http.StatusUnprocessableEntity, "idempotency_key_reused"
				return nil, r
			}
			if got.Status != 0 {
				return &got, nil
			}
		}
		select {
		case <-time.After(claimPoll):
		case <-ctx.Done():
		}
	}
}

func (g *Gateway) renew(ctx context.Context, name string, running []byte) {
	again := time.NewTicker(claimTTL / 3)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			if err := g.o.Notes.Post(ctx, kindAnswer, name, running, claimTTL); err != nil && ctx.Err() == nil {
				g.o.Logger.Warn("renewing a claim by Idempotency-Key failed", "error", g.clean(err.Error()))
			}
		}
	}
}

// publish posts an answer for other replicas, or releases the claim if there is none.
func (g *Gateway) publish(ctx context.Context, name string, got *answer) {
	note, ttl := []byte{}, -time.Second
	if got != nil {
		note, _ = json.Marshal(got) // cannot fail: plain fields
		ttl = answerTTL
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitOutage)
	defer cancel()
	if err := g.o.Notes.Post(ctx, kindAnswer, name, note, ttl); err != nil {
		g.o.Logger.Error("storing an answer by its Idempotency-Key failed", "error", g.clean(err.Error()))
	}
}

func (x *exchange) replay(a *answer) {
	h := x.w.Header()
	maps.Copy(h, a.Header)
	h.Set(headerReplayed, "true")
	x.head(a.Status)
	_, _ = x.w.Write(a.Body) // the client may have disconnected
}

// recorder keeps a copy of what is written, and continues if the client disconnects.
type recorder struct {
	http.ResponseWriter
	body bytes.Buffer
}

// Unwrap implements the unwrapping of http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Write implements io.Writer. It never fails.
func (r *recorder) Write(data []byte) (int, error) {
	if r.body.Len() <= maxAnswerBytes {
		r.body.Write(data)
	}
	_, _ = r.ResponseWriter.Write(data)
	return len(data), nil
}

// FlushError implements the flushing of http.ResponseController. It never fails.
func (r *recorder) FlushError() error {
	_ = http.NewResponseController(r.ResponseWriter).Flush()
	return nil
}
