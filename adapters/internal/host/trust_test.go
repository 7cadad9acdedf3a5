//go:build unix

package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/host"
)

// copyOfPlugin returns a folder with a copy of the test binary that can be modified.
func copyOfPlugin(t *testing.T) (dir, program string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(pluginDir(t), "test"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	program = filepath.Join(dir, "test")
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

func TestPinnedChecksum(t *testing.T) {
	dir, program := copyOfPlugin(t)
	sum, err := host.Checksum(program)
	if err != nil {
		t.Fatal(err)
	}
	cfg := host.Config{SearchPath: []string{dir}, Plugins: map[string]host.PluginConfig{"test": {SHA256: sum}}}
	if err := ask(within(t, 2*time.Minute), estimator(t, newHost(t, cfg), nil), ""); err != nil {
		t.Fatalf("the pinned program: %v", err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program+".new", append(data, "changed"...), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	if err := ask(within(t, 2*time.Minute), estimator(t, newHost(t, cfg), nil), ""); !errors.Is(err, host.ErrChecksum) {
		t.Errorf("another program: %v", err)
	}
}

func TestDiscovery(t *testing.T) {
	dir, program := copyOfPlugin(t)
	h := newHost(t, host.Config{SearchPath: []string{t.TempDir(), dir}})
	for _, name := range []string{"", "none", "../test", ".hidden"} {
		if _, err := h.Verifier("v", name, nil); !errors.Is(err, host.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := h.Verifier("v", "test", nil); err != nil {
		t.Error(err)
	}
	if got := host.List([]string{"/nonexistent", dir}); len(got) != 1 || got[0] != (host.PluginFile{Name: "test", Path: program}) {
		t.Errorf("got %v", got)
	}
	if err := os.Chmod(program, 0o757); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Verifier("v", "test", nil); err == nil || !strings.Contains(err.Error(), "is writable by anybody") {
		t.Errorf("a program that anybody may write to: %v", err)
	}
}
