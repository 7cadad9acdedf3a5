//go:build unix

package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// The pipe has no writer: reading it ends with the command.
func TestReadingAPipeEndsWithTheCommand(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "runs.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := openTable(ctx, pipe, outcome.Options{})
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	// Who still waits for a writer has had one.
	if f, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
		f.Close()
	}
}
