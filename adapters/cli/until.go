package cli

import (
	"context"
	"fmt"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// until computes something that does not look at ctx itself, and gives it up when ctx
// ends: the program ends then. What f does must be lost without harm, so it writes no file.
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

// openTable reads outcomes, and stops waiting for a pipe that nobody writes to when ctx ends.
func openTable(ctx context.Context, path string, o outcome.Options) (*outcome.Table, error) {
	return until(ctx, func() (*outcome.Table, error) { return outcome.Open(path, o) })
}

// addResumeHint adds to the error of an interrupted command what it leaves and how to go on. Other
// errors stay as they are.
func addResumeHint(ctx context.Context, err error, format string, args ...any) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %s", context.Canceled, fmt.Sprintf(format, args...))
}
