package process

import (
	"syscall"
	"testing"
)

// An exit code of a jail is a signal only if there can be one: 255 is a program's own.
func TestSignalOf(t *testing.T) {
	for code, want := range map[int]syscall.Signal{-1: 0, 0: 0, 1: 0, 128: 0, 137: syscall.SIGKILL, 143: syscall.SIGTERM, 193: 0, 255: 0} {
		if got := signalOf(code); got != want {
			t.Errorf("%d: %v, want %v", code, got, want)
		}
	}
}
