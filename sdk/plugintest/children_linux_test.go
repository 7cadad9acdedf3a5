package plugintest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stepfall/stepfall/sdk/plugintest"
)

// TestNothingOutlivesTheKit checks a program that starts a child in another session.
func TestNothingOutlivesTheKit(t *testing.T) {
	dir := t.TempDir()
	child, begun, program := filepath.Join(dir, "sleep"), filepath.Join(dir, "begun"), filepath.Join(dir, "program")
	script := fmt.Sprintf("#!/bin/sh\nsetsid sh -c 'touch %[1]s; exec %[2]s 60' >/dev/null 2>&1 &\nuntil test -e %[1]s; do sleep 0.01; done\n", begun, child)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/sleep", child); err != nil {
		t.Fatal(err)
	}
	if _, err := plugintest.Run(t.Context(), plugintest.Options{Path: program}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(begun); err != nil {
		t.Fatal("the child was not started:", err)
	}
	for _, pid := range processesNaming(t, child) {
		t.Errorf("process %d lives on", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// processesNaming returns the processes whose command line contains the text.
func processesNaming(t *testing.T, text string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatal("no processes are to be seen:", err)
	}
	var pids []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), text) {
			continue // it has ended, or is another
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
