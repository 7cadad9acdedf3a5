//go:build unix

package host_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/host"
)

// family returns a process and its descendants.
func family(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// named returns the processes whose program has the name.
func named(pids []int, name string) []int {
	var out []int
	for _, pid := range pids {
		data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		first, _, _ := strings.Cut(string(data), "\x00")
		if filepath.Base(first) == name {
			out = append(out, pid)
		}
	}
	return out
}

// pluginPID returns the process of the test plugin itself, a descendant of the one that the host started.
func pluginPID(t *testing.T, h *host.Host) int {
	t.Helper()
	pids := named(family(h.Stats()[0].PID), "test")
	if len(pids) != 1 {
		t.Fatalf("processes of the plugin: %v", pids)
	}
	return pids[0]
}

// processExists reports whether there is a process pid that is not a zombie.
func processExists(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(data), ") ")
	return ok && !strings.HasPrefix(rest, "Z")
}
