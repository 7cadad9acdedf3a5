package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Work that does not look at its context is given up when that ends.
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

// A command that Ctrl-C ends says so, exits as shells expect it, and leaves no file.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	table := filepath.Join("..", "..", "examples", "fit-and-evaluate", "outcomes.csv")
	for _, args := range [][]string{
		{"fit", "--outcomes", table, "--budget", "0.005", "--out", filepath.Join(dir, "profile.json")},
		{"eval", "--outcomes", table, "--json"},
		{"replay", "--outcomes", table, "--strategy", "index", "--json"},
	} {
		var out, said bytes.Buffer
		code := Run(ctx, args, Streams{In: strings.NewReader(""), Out: &out, Err: &said})
		if code != exitInterrupted || out.Len() > 0 || !strings.Contains(said.String(), "interrupted") || strings.Contains(said.String(), "context") {
			t.Errorf("%s: exit code %d, %q, %q", args[0], code, &out, &said)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
