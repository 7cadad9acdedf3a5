//go:build unix

package swe

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A predictions file is not readable by users that the umask excludes.
func TestPredictionsObeyTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := filepath.Join(t.TempDir(), "predictions.jsonl")
	if err := WritePredictions(path, "m", nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}
