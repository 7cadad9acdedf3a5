//go:build unix

package host_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
)

// Programs that cannot be plugins are rejected at once, with a reason.
func TestProgramsThatCannotBePlugins(t *testing.T) {
	// The start of a program for a machine with the number 0xffff, which nobody builds.
	foreign := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00\xff\xff" + strings.Repeat("\x00", 100)
	noise := 3_000_000
	if testing.Short() {
		noise = 300_000 // each byte is escaped, which takes ten times as long under the race detector
	}
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"directory":          {func(p string) error { return os.Mkdir(p, 0o755) }, "is not a file"},
		"not executable":     {func(p string) error { return os.WriteFile(p, []byte("#!/bin/sh\n"), 0o644) }, "is not executable"},
		"other architecture": {func(p string) error { return os.WriteFile(p, []byte(foreign), 0o755) }, "exec format error"},
		"empty":              {func(p string) error { return os.WriteFile(p, nil, 0o755) }, "exec format error"},
		"no interpreter":     {func(p string) error { return os.WriteFile(p, []byte("#!/no/such/shell\n"), 0o755) }, "no such file"},
		"dangling link":      {func(p string) error { return os.Symlink("/no/such/program", p) }, "no such file"},
		"handshake of another protocol": {func(p string) error {
			return os.WriteFile(p, []byte("#!/bin/sh\necho '1|7|unix|/tmp/x|grpc|'\nsleep 5\n"), 0o755)
		}, "another version of the plugin protocol (7) than this host (1)"},
		"binary noise": {func(p string) error {
			return os.WriteFile(p, fmt.Appendf(nil, "#!/bin/sh\nhead -c %d /dev/urandom\n", noise), 0o755)
		}, "it ended before the handshake"},
		"ends at once": {func(p string) error { return os.WriteFile(p, []byte("#!/bin/sh\nexit 3\n"), 0o755) }, "it ended with exit status 3"},
	} {
		for _, isolation := range []string{"none", "process"} {
			t.Run(name+", isolation "+string(isolation), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "test")
				if err := c.make(path); err != nil {
					t.Fatal(err)
				}
				h := newHost(t, host.Config{Plugins: map[string]host.PluginConfig{"test": {Path: path, Isolation: isolation}}})
				e, err := h.QualityEstimator("quality", "test", nil)
				if err == nil {
					err = ask(within(t, 2*time.Minute), e, "")
					if !errors.Is(err, sdk.ErrPluginUnavailable) {
						t.Errorf("the error is of another kind: %v", err)
					}
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "killed") {
					t.Errorf("got %v, want %q", err, c.want)
				}
			})
		}
	}
}

// A program that was replaced while it was in use is not started again.
func TestAPinnedProgramThatChangesIsNotRestarted(t *testing.T) {
	dir, program := copyOfPlugin(t)
	sum, err := host.Checksum(program)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, host.Config{SearchPath: []string{dir}, Plugins: map[string]host.PluginConfig{"test": {SHA256: sum}}})
	e := estimator(t, h, nil)
	if err := ask(within(t, 2*time.Minute), e, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program+".new", []byte("#!/bin/sh\ntouch "+dir+"/started\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	if err := ask(within(t, 2*time.Minute), e, ""); err != nil {
		t.Errorf("the process that runs is still the pinned one: %v", err)
	}
	if err := syscall.Kill(h.Stats()[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return h.Stats()[0].PID == 0 })
	if err := ask(within(t, 2*time.Minute), e, ""); !errors.Is(err, host.ErrChecksum) {
		t.Errorf("got %v", err)
	}
	if s := h.Stats()[0]; s.State != "refused" || exists(filepath.Join(dir, "started")) {
		t.Errorf("state %s", s.State)
	}
}

// A status that a plugin passes on from its own backend is an error of that call; the process and its other calls go on.
func TestStatusesOfABackend(t *testing.T) {
	h := newHost(t, host.Config{})
	v := verifier(t, h, nil)
	verify := func(text string) error {
		_, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query(""), Answer: &sdk.Answer{Text: text}})
		return err
	}
	for text, want := range map[string]string{"Unavailable": "the backend is away", "Canceled": "Canceled", "DeadlineExceeded": "took too long"} {
		for range 4 { // three missed deadlines in a row would be a hung process
			var call *host.CallError
			if err := verify(text); !errors.As(err, &call) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if err := verify("good"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if s := h.Stats()[0]; s.Starts != 1 || s.Crashes != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// An invalid verdict is an error of the call, and the next call works.
func TestAnswersThatAreNone(t *testing.T) {
	h := newHost(t, host.Config{})
	v := verifier(t, h, nil)
	for text, want := range map[string]string{"huge": "larger than max", "nothing": "neither a verdict nor an error"} {
		_, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query(""), Answer: &sdk.Answer{Text: text}})
		var call *host.CallError
		if !errors.As(err, &call) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query(""), Answer: &sdk.Answer{Text: "good"}}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if s := h.Stats()[0]; s.Starts != 1 {
		t.Errorf("stats: %+v", s)
	}
}
