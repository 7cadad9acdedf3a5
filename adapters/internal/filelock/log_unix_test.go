//go:build unix

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// Only a partial last line is dropped; a read error drops nothing.
func TestLogThatCannotBeReadIsNotCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	const text = "a\nb\nhal"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	unreadable := &Log{file: file}
	if err := errors.Join(unreadable.load(nil), unreadable.Close()); !errors.Is(err, syscall.EBADF) {
		t.Errorf("loading what cannot be read: %v", err)
	}
	if kept, err := os.ReadFile(path); string(kept) != text {
		t.Errorf("%q, %v", kept, err)
	}
	var lines []string
	l, err := OpenLog(path, func(line []byte) error { lines = append(lines, string(line)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Append([]byte("c"), true), l.Close()); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(path); string(kept) != "a\nb\nc\n" || !slices.Equal(lines, []string{"a\n", "b\n"}) {
		t.Errorf("%q, %q, %v", kept, lines, err)
	}
}
