package gateway

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// events writes server-sent events. Appending does not wait for the client: events that arrive while a write is
// in progress are sent together in the next write.
type events struct {
	x     *exchange
	mu    sync.Mutex
	room  sync.Cond // signaled when the writer has taken the pending events
	more  chan struct{}
	done  chan struct{}
	buf   []byte // pending events
	spare []byte
	begun bool // an event is pending or sent, so the status is 200
	err   error
	// closing: a comment no longer begins the stream. ended: the pending events are the last.
	closing, ended bool
}

// maxPendingBytes is the maximum number of bytes by which an answer can be ahead of its client.
const maxPendingBytes = 256 << 10

func newEvents(x *exchange) *events {
	e := &events{x: x, more: make(chan struct{}, 1), done: make(chan struct{})}
	e.room.L = &e.mu
	go e.run()
	return e
}

// run writes events until the stream ends, and a comment after each KeepAlive without events.
func (e *events) run() {
	defer close(e.done)
	quiet := time.NewTicker(e.x.g.o.KeepAlive)
	defer quiet.Stop()
	for {
		select {
		case <-e.more:
			quiet.Reset(e.x.g.o.KeepAlive)
			// On a busy machine more events can arrive first, which saves writes.
			runtime.Gosched()
		case <-quiet.C:
			e.mu.Lock()
			if !e.closing && len(e.buf) == 0 {
				e.begun = true
				// Without an empty line, which openai-go up to v1.8 takes for the end of an event.
				e.buf = append(e.buf, ": at work\n"...)
			}
			e.mu.Unlock()
		}
		if e.write() {
			return
		}
	}
}

// write sends the pending events, and reports whether the stream has ended.
func (e *events) write() (last bool) {
	e.mu.Lock()
	out, last := e.buf, e.ended
	e.buf, e.spare = e.spare[:0], nil
	e.room.Broadcast()
	e.mu.Unlock()
	var err error
	if len(out) > 0 && e.err == nil { // only this goroutine sets err
		err = e.send(out)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spare = out
	if e.err == nil {
		e.err = err
	}
	e.room.Broadcast()
	return last
}

func (e *events) send(out []byte) error {
	x := e.x
	if x.Status == 0 {
		h := x.w.Header()
		h["Content-Type"] = []string{"text/event-stream"}
		h["Cache-Control"] = []string{"no-cache"}
		h["X-Accel-Buffering"] = []string{"no"} // for nginx
		h["Trailer"] = trailers
		x.head(200)
	} else {
		x.setWriteDeadline()
	}
	if _, err := x.w.Write(out); err != nil {
		return err
	}
	return x.conn.Flush()
}

func (e *events) append(data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.buf) > maxPendingBytes && e.err == nil && !e.ended {
		e.room.Wait()
	}
	if e.ended || e.err != nil {
		return
	}
	e.begun = true
	e.buf = append(e.buf, data...)
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// failure returns the error of the last write, which means that the client has disconnected.
func (e *events) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// close prevents keep-alive comments from beginning the stream, and reports whether it has begun.
func (e *events) close() (begun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
	return e.begun
}

// end writes the remaining events and waits for that.
func (e *events) end() {
	e.mu.Lock()
	e.closing, e.ended = true, true
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
	<-e.done
}

type streaming struct {
	x   *exchange
	a   *dialect.Request
	out *events

	mu sync.Mutex // delta can be called on a provider's goroutine
	to dialect.Stream
}

var errClientGone = errors.New("the client disconnected")

func (s *streaming) delta(_ context.Context, d *middleware.Delta) error {
	if err := s.out.failure(); err != nil {
		return errors.Join(errClientGone, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.From != "" {
		s.a.Model = d.From
	}
	s.to.Delta(d)
	return nil
}

// end completes the stream. It returns an error as a Refusal if nothing has been streamed.
func (s *streaming) end(ctx context.Context, resp *llms.ContentResponse, err error) *Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.out.close()
	var why *Refusal
	if err == nil {
		o := s.x.outcome(s.a, resp)
		s.a.Model = o.Model
		s.to.Finish(o)
	} else {
		why = refusalOf(ctx, err)
		if begun {
			s.x.Refused = s.x.withoutSecrets(why)
			s.to.Fail(s.x.Refused)
			why = nil
		}
	}
	s.out.end()
	s.x.describe() // sets the trailers of a stream, or the headers of a refusal
	return why
}
