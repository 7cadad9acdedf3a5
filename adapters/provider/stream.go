package provider

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math"
	"sync"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// receiver returns the function that receives the pieces of the answer, and whether the caller requested
// a stream.
func receiver(ctx context.Context, o *llms.CallOptions, p *middleware.Params) (emit func(d *middleware.Delta) error, streams bool) {
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

// events calls each with the data of each server-sent event of r or, with hasLines, with each line. The last
// one needs no terminator. data is only valid during the call.
func events(r io.Reader, hasLines bool, each func(data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, math.MaxInt)
	lines.Split(scanLines())
	var data []byte
	isFirst, hasData := true, false
	for lines.Scan() && lines.Err() == nil { // after an error, the last line is incomplete
		line := lines.Bytes()
		if isFirst {
			line, isFirst = bytes.TrimPrefix(line, []byte("\ufeff")), false
		}
		value, isData := bytes.CutPrefix(line, []byte("data:"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case hasLines:
			data = append(data[:0], bytes.TrimSpace(line)...)
			hasData = len(data) > 0
		case isData && hasData:
			data = append(append(data, '\n'), value...)
			continue
		case isData:
			data, hasData = append(data[:0], value...), true
			continue
		case len(line) > 0: // a comment, or an event name, which the data repeat
			continue
		}
		if hasData {
			if err := each(data); err != nil {
				return err
			}
			hasData = false
		}
	}
	if err := lines.Err(); err != nil || !hasData {
		return err
	}
	return each(data)
}

// scanLines returns a function that splits lines at LF, CR or CRLF, each as soon as it is complete.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
func scanLines() bufio.SplitFunc {
	hasCR := false // the last line ended with a CR
	return func(data []byte, isEnd bool) (n int, line []byte, err error) {
		line = data
		if hasCR && len(data) > 0 {
			hasCR, line = false, bytes.TrimPrefix(data, []byte("\n"))
			n = len(data) - len(line)
		}
		end := bytes.IndexByte(line, '\n')
		if end >= 0 {
			line = line[:end]
		}
		if at := bytes.IndexByte(line, '\r'); at >= 0 {
			end, hasCR = at, true
		}
		switch {
		case end >= 0:
			return n + end + 1, line[:end], nil
		case isEnd && len(line) > 0:
			return len(data), line, nil
		}
		return n, nil, nil
	}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readAll is like io.ReadAll, with a pooled buffer.
func readAll(r io.Reader) ([]byte, error) {
	buf, _ := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= 1<<20 {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	_, err := buf.ReadFrom(r)
	return bytes.Clone(buf.Bytes()), err
}
