package cli

import (
	"context"
	"fmt"
)

// until computes something that does not look at ctx itself, and gives it up when ctx
// ends: the program ends then. What f does must be lost without harm, so it writes no file.
func until[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	if err := ctx.Err(); err != nil {
		return *new(T), err
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := f()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return *new(T), ctx.Err()
	}
}

// kept says of a command that was interrupted what it leaves and how to go on. Other
// errors stay as they are.
func kept(ctx context.Context, err error, format string, args ...any) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %s", context.Canceled, fmt.Sprintf(format, args...))
}
