//go:build unix

package host_test

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepfall/stepfall/adapters/internal/host"
)

// TestCyclesLeaveNothing starts, crashes and restarts a plugin many times: 1000
// times when STEPFALL_LONG is set, 20 otherwise, 5 in short runs. No goroutine, process, file or
// folder may be left.
func TestCyclesLeaveNothing(t *testing.T) {
	cycles := 20
	switch {
	case os.Getenv("STEPFALL_LONG") != "":
		cycles = 1000
	case testing.Short():
		cycles = 5
	}
	dir, temp := pluginDir(t), emptyInTheEnd(t)
	plugins := map[string]host.PluginConfig{"test": {Env: map[string]string{exitAtOnce: "atexit_sleep_ms=0"}}}
	before := goleak.IgnoreCurrent()
	files := openFiles(t)
	for range cycles {
		h, err := host.New(host.Config{SearchPath: []string{dir}, TempDir: temp, Plugins: plugins})
		if err != nil {
			t.Fatal(err)
		}
		e := estimator(t, h, nil)
		if err := ask(within(t, 2*time.Minute), e, ""); err != nil {
			t.Fatal(err)
		}
		pids := family(h.Stats()[0].PID)
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// The one that is killed may answer once more.
		waitFor(t, func() bool {
			return ask(within(t, 2*time.Minute), e, "") == nil && !slices.Contains([]int{0, pids[0]}, h.Stats()[0].PID)
		})
		pids = append(pids, family(h.Stats()[0].PID)...)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		// At once: other programs get these ids later.
		for _, pid := range pids {
			if processExists(pid) {
				t.Errorf("process %d lives on", pid)
			}
		}
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	if now := openFiles(t); now > files {
		t.Errorf("%d files are open, before it were %d", now, files)
	}
	t.Logf("%d cycles", cycles)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(entries)
}
