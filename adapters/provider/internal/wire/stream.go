package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

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

// Lines calls each with the lines of r that hold something, the last without its
// newline included. A line may be as long as r is.
func Lines(r io.Reader, each func(line []byte) error) error {
	lines := bufio.NewReaderSize(r, 4096)
	for {
		line, err := lines.ReadBytes('\n')
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
