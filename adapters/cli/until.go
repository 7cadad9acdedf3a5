package cli

import (
	"context"
	"fmt"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// until calls f, which does not watch ctx, and abandons it when ctx ends, as the program then does.
// f must have no effects that may be cut short, such as writing a file.
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

// openTable reads outcomes, at most until ctx ends: the file may be a pipe without a writer.
func openTable(ctx context.Context, path string, o outcome.Options) (*outcome.Table, error) {
	return until(ctx, func() (*outcome.Table, error) { return outcome.Open(path, o) })
}

// addResumeHint adds a hint to the error of an interrupted command: what is kept and how to go on.
// It returns other errors unchanged.
func addResumeHint(ctx context.Context, err error, format string, args ...any) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %s", context.Canceled, fmt.Sprintf(format, args...))
}
