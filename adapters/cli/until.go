package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// until calls f, which does not watch ctx, and abandons it when ctx ends, as the program then exits. f must have no
// effects that must not be interrupted, such as writing a file.
func until[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	if err := ctx.Err(); err != nil {
		return *new(T), err
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}

// openTable reads outcomes, or the traces of a store, until ctx ends: the file may be a pipe without a writer.
func openTable(ctx context.Context, path string, o outcome.Options) (*outcome.Table, error) {
	return until(ctx, func() (*outcome.Table, error) {
		if isStore(path) {
			return openStoredTable(ctx, path, o)
		}
		return outcome.Open(path, o)
	})
}

func openStoredTable(ctx context.Context, address string, o outcome.Options) (*outcome.Table, error) {
	src, err := openTraces(ctx, Streams{}, address)
	if err != nil {
		return nil, err
	}
	lines, write := io.Pipe()
	go func() {
		enc := json.NewEncoder(write)
		err := view.EachTrace(ctx, src.Traces, store.Filter{}, func(t *sdk.Trace) { _ = enc.Encode(t) }) // fails only once the reader has
		_ = write.CloseWithError(errors.Join(err, src.close()))
	}()
	table, err := outcome.Read(lines, src.Source, o)
	return table, errors.Join(err, lines.Close())
}

// addResumeHint adds to the error of an interrupted command what is saved and how to resume. It returns other errors
// unchanged.
func addResumeHint(ctx context.Context, err error, format string, args ...any) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %s", context.Canceled, fmt.Sprintf(format, args...))
}
