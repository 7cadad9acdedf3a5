package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-cases/internal/cases"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

// TestMain lets the test binary double as the plugin, and as the programs that it starts.
func TestMain(m *testing.M) {
	jail.Main()
	cases.Main()
	plugintest.Main(m, main)
}

// write creates a folder with the files.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Test(t, plugintest.Options{
		Path: self,
		Config: map[wire.Role]map[string]any{wire.Verifier: {
			"cases": write(t, map[string]string{"1.in": "x\n", "1.out": "x\n"}), "command": []any{"cat"}, "file": "answer.txt",
		}},
	})
}
