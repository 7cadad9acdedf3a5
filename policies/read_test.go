//go:build unix

package policies

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that is replaced by a pipe between check and open does not block: reading ends although nothing is
// written.
func TestReadRegularBecomesAPipe(t *testing.T) {
	dir := t.TempDir()
	file, text, pipe := filepath.Join(dir, "policy.hcl"), filepath.Join(dir, "text"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(text, []byte("a = 1\n"), 0o600), os.Link(text, file), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			next, other := filepath.Join(dir, "next"), []string{pipe, text}[i%2]
			if err := errors.Join(os.Link(other, next), os.Rename(next, file)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var read, refused int
	for read < 5000 || refused < 5000 {
		if _, err := readRegular(file, "policy.hcl", 100); err == nil {
			read++
		} else {
			refused++
		}
		if read+refused > 1_000_000 {
			t.Fatalf("read %d times, refused %d times: both were wanted", read, refused)
		}
	}
	close(stop)
	<-done
}
