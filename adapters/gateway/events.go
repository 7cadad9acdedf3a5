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

// events writes server-sent events. Whoever appends does not wait for the client: what
// has come together while the last write was under way goes out in one piece.
type events struct {
	x     *exchange
	mu    sync.Mutex
	room  sync.Cond // the writer has taken what there was
	more  chan struct{}
	done  chan struct{}
	buf   []byte // what is to be written
	spare []byte
	both  *[2][]byte // the two, while nobody uses them
	begun bool       // something is on its way, so the status is 200
	err   error
	// closing: no comment begins the stream any more. ended: what is pending is the last.
	closing, ended bool
}

// mostPending is how much an answer may be ahead of its client.
const mostPending = 256 << 10

// pieces are what streams collect their events in.
var pieces = sync.Pool{New: func() any { return new([2][]byte{make([]byte, 0, 4<<10), make([]byte, 0, 4<<10)}) }}

func newEvents(x *exchange) *events {
	e := &events{x: x, more: make(chan struct{}, 1), done: make(chan struct{})}
	e.both, _ = pieces.Get().(*[2][]byte)
	e.buf, e.spare = e.both[0][:0], e.both[1][:0]
	e.room.L = &e.mu
	go e.run()
	return e
}

// run writes until the stream ends, and a comment when there was no event for a while.
func (e *events) run() {
	growStack(0)
	defer close(e.done)
	quiet := time.NewTicker(e.x.g.o.KeepAlive)
	defer quiet.Stop()
	for {
		select {
		case <-e.more:
			quiet.Reset(e.x.g.o.KeepAlive)
			// On a busy machine more events may arrive first: it writes less often.
			runtime.Gosched()
		case <-quiet.C:
			e.mu.Lock()
			if !e.closing && len(e.buf) == 0 {
				e.begun = true
				e.buf = append(e.buf, ": at work\n\n"...)
			}
			e.mu.Unlock()
		}
		if e.write() {
			return
		}
	}
}

// growStack grows the stack of a new goroutine to what a write to a socket needs, while there is
// little on it to copy.
//
//go:noinline
func growStack(i int) byte {
	var room [4 << 10]byte
	return room[i]
}

// write sends what is pending, and reports whether the stream has ended.
func (e *events) write() (last bool) {
	e.mu.Lock()
	out, last := e.buf, e.ended
	e.buf, e.spare = e.spare[:0], nil
	e.room.Broadcast()
	e.mu.Unlock()
	var err error
	if len(out) > 0 && e.err == nil { // only this goroutine writes err
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
		h["X-Accel-Buffering"] = []string{"no"} // nginx's
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
	for len(e.buf) > mostPending && e.err == nil && !e.ended {
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

// failure returns the error of the last write: the client has gone.
func (e *events) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// close stops keep-alive comments from beginning the stream, and reports whether it has begun.
func (e *events) close() (begun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
	return e.begun
}

// end writes what is left and waits until that is done.
func (e *events) end() {
	e.mu.Lock()
	e.closing, e.ended = true, true
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.both != nil && cap(e.buf)+cap(e.spare) <= largestKept {
		*e.both = [2][]byte{e.buf, e.spare}
		pieces.Put(e.both)
	}
	e.both, e.buf, e.spare = nil, nil, nil
}

type streaming struct {
	x   *exchange
	a   *dialect.Request
	out *events

	mu sync.Mutex // a provider's goroutine may call delta
	to dialect.Stream
}

func newStreaming(x *exchange, a *dialect.Request) *streaming {
	out := newEvents(x)
	return &streaming{x: x, a: a, out: out, to: x.api.Stream(a, &dialect.Events{ID: x.answerID, RequestID: x.ID, Created: x.Start.Unix(), Write: out.append})}
}

var errClientGone = errors.New("the client has gone")

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

// end writes the end of the step. It returns an error as a Refusal where nothing was streamed.
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
	s.x.describe() // trailers of a stream, headers of a refusal
	return why
}
