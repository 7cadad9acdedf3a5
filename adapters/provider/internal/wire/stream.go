package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Emit gives a piece of a streamed answer to whom the options name.
type Emit func(d *middleware.Delta) error

// Stream returns who wants the pieces of the answer, and whether anybody does.
func Stream(ctx context.Context, o *llms.CallOptions, p *middleware.Params) (Emit, bool) {
	switch {
	case p.OnDelta != nil:
		return func(d *middleware.Delta) error { return p.OnDelta(ctx, d) }, true
	case o.StreamingFunc == nil && o.StreamingReasoningFunc == nil:
		return func(*middleware.Delta) error { return nil }, false
	}
	return func(d *middleware.Delta) error {
		if d.Choice > 0 {
			return nil
		}
		if f := o.StreamingReasoningFunc; f != nil && d.Reasoning+d.Text != "" {
			if err := f(ctx, []byte(d.Reasoning), []byte(d.Text)); err != nil {
				return err
			}
		}
		if f := o.StreamingFunc; f != nil && d.Text != "" {
			return f(ctx, []byte(d.Text))
		}
		return nil
	}, true
}

// mark is a byte order mark, which a stream may begin with.
var mark = []byte("\ufeff")

// Events reads server-sent events. An event may be as long as the stream is.
type Events struct {
	from *lines
	data []byte
	err  error
	// begun: a line was read.
	begun bool
}

// NewEvents returns the events of r.
func NewEvents(r io.Reader) *Events { return &Events{from: newLines(r)} }

// Next reads an event that has data, and reports whether there is one. The last needs no
// blank line after it.
func (e *Events) Next() bool {
	some := false
	for e.from != nil {
		line, err := e.from.next()
		if err != nil {
			e.from.release()
			e.from = nil
			if !errors.Is(err, io.EOF) {
				e.err = err
				return false
			}
		}
		line = bytes.TrimRight(line, "\r\n")
		if !e.begun {
			line, e.begun = bytes.TrimPrefix(line, mark), true
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case len(line) == 0 && some:
			return true
		case !ok: // a comment, or a name that the data repeat
		case some:
			e.data = append(append(e.data, '\n'), bytes.TrimPrefix(value, []byte(" "))...)
		default:
			e.data, some = append(e.data[:0], bytes.TrimPrefix(value, []byte(" "))...), true
		}
	}
	return some
}

// Data is the data of the event, until Next is called.
func (e *Events) Data() []byte { return e.data }

// Err is what ended the events, nil where the stream did.
func (e *Events) Err() error { return e.err }

// Lines calls each with the lines of r that hold something, without white space around
// them; the last needs no newline. A line may be as long as r is, and is each's only
// while it runs.
func Lines(r io.Reader, each func(line []byte) error) error {
	from := newLines(r)
	defer from.release()
	for {
		line, err := from.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if fault := each(line); fault != nil {
				return fault
			}
		}
		if err != nil {
			return nil
		}
	}
}

// lines reads lines of any length.
type lines struct {
	*bufio.Reader

	long []byte
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4096) }}

func newLines(r io.Reader) *lines {
	from, _ := readers.Get().(*bufio.Reader)
	from.Reset(r)
	return &lines{Reader: from}
}

// next returns a line with its end, until it is called again. With an error comes what
// there was of one.
func (l *lines) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		line, err := l.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) && len(l.long) == 0 {
			return line, err
		}
		if l.long = append(l.long, line...); !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
	}
}

func (l *lines) release() {
	l.Reset(nil)
	readers.Put(l.Reader)
}
