package cli

import (
	"context"
	"testing"
)

// Work that does not watch its context is abandoned when that ends.
func TestUntilDoesNotWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun, end := make(chan bool), make(chan bool)
	defer close(end)
	go func() {
		<-begun
		cancel()
	}()
	_, err := until(ctx, func() (int, error) {
		close(begun)
		<-end
		return 1, nil
	})
	if err != context.Canceled { //nolint:errorlint // it is that itself
		t.Errorf("got %v", err)
	}
	if n, err := until(t.Context(), func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}
