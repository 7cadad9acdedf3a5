package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/stepfall/stepfall/adapters/cli"
)

// terminal opens a terminal of the given width; read returns what was written to it.
func terminal(t *testing.T, width uint16) (out *os.File, read func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	out, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	if err := unix.IoctlSetWinsize(int(out.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width}); err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		var all bytes.Buffer
		if _, err := io.Copy(&all, master); err != nil && !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
		done <- all.String()
	}()
	return out, func() string {
		out.Close()
		return strings.ReplaceAll(<-done, "\r\n", "\n")
	}
}

// TestTracesFitTheTerminal: every line of tables is within the width, cells wrap, and no model output controls the
// terminal.
func TestTracesFitTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traces.jsonl")
	trace := `{"id":"1f2e3d4c5b6a798800112233445566ff","start":"2026-11-21T10:00:00Z","strategy":"cascade_route","decisions":[],` +
		`"calls":[{"model":"a-model-with-a-long-name","attempt":1,"answer":"\u001b]0;owned\u0007","verdict":{"verifier":"tests","outcome":"failed","evidence":"` +
		strings.Repeat("many words ", 40) + `","duration_ns":1500000000}}],"stop":"all_models_run","duration_ns":2000000000}` + "\n"
	if err := os.WriteFile(file, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, width := range []uint16{40, 80, 120} {
		for _, which := range [][]string{nil, {"last"}} {
			out, read := terminal(t, width)
			code := cli.Run(context.Background(), append([]string{"trace", "-f", file}, which...), cli.Streams{Out: out, Err: out})
			text := read()
			if code != 0 {
				t.Fatal(text)
			}
			if strings.ContainsRune(text, '\x1b') {
				t.Errorf("trace %s at %d: an escape of the model's reaches the terminal: %q", which, width, text)
			}
			for line := range strings.Lines(text) {
				inTable := strings.ContainsAny(line, "│┌└├─") || strings.HasPrefix(line, "verdict")
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); inTable && n > int(width) {
					t.Errorf("trace %s: %d wide on a terminal of %d: %s", which, n, width, line)
				}
			}
		}
	}
}
