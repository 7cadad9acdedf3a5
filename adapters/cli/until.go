package cli

import (
	"context"
	"fmt"

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

// openTable reads outcomes until ctx ends: the file may be a pipe without a writer.
func openTable(ctx context.Context, path string, o outcome.Options) (*outcome.Table, error) {
	return until(ctx, func() (*outcome.Table, error) { return outcome.Open(path, o) })
}

// addResumeHint adds to the error of an interrupted command what is saved and how to resume. It returns other errors
// unchanged.
func addResumeHint(ctx context.Context, err error, format string, args ...any) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %s", context.Canceled, fmt.Sprintf(format, args...))
}
