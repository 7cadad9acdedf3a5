package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

// TestMain lets the test binary double as the plugin.
func TestMain(m *testing.M) {
	jail.Main()
	if wire.IsStartedByHost() {
		main() // started by a host, and not by the kit
	}
	plugintest.Main(m, main)
}

func newHost(t *testing.T) router.PluginHost {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h, err := full.Complete(full.Options{}).PluginHosts.Host(&policies.Policy{Plugins: []policies.Plugin{{Name: "verifier-tests", Path: self}}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plugintest.Test(t, plugintest.Options{
		Path:   self,
		Config: map[wire.Role]map[string]any{wire.Verifier: {"command": []any{"true"}, "work_dir": dir, "file": "answer.txt", "preflight": false}},
	})
}

func TestThroughTheHost(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.com/calc\n\ngo 1.22\n",
		"add.go":      "package calc\n\nfunc Add(a, b int) int { return a - b }\n",
		"add_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Fatal(Add(2, 3))\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	v, err := newHost(t).Verifier("tests", "verifier-tests", map[string]any{
		"command": []any{"go", "test", "./..."}, "timeout": "5m", "cache_dir": t.TempDir(), "require": []any{"rlimits"},
	})
	if err != nil {
		t.Fatal(err)
	}
	query := &sdk.Query{WorkDir: dir, Checks: sdk.Checks{FailToPass: []string{"TestAdd"}}}
	for body, want := range map[string]sdk.Outcome{"a + b": sdk.Passed, "b - a": sdk.Failed} {
		answer := &sdk.Answer{Model: "m", Text: "```go path=add.go\npackage calc\n\nfunc Add(a, b int) int { return " + body + " }\n```\n"}
		verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: query, Answer: answer})
		if err != nil {
			t.Fatal(err)
		}
		if verdict.Outcome != want || len(verdict.Isolation) == 0 || verdict.Duration <= 0 {
			t.Errorf("%s: %+v", body, verdict)
		}
	}
}

func TestBadConfigSaysWhere(t *testing.T) {
	v, err := newHost(t).Verifier("tests", "verifier-tests", map[string]any{
		"command": []any{"go", "test"}, "require": []any{"network", "nettwork"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Verify(t.Context(), &sdk.VerifyRequest{Query: &sdk.Query{}, Answer: &sdk.Answer{}})
	if err == nil || !strings.Contains(err.Error(), "require") || !strings.Contains(err.Error(), "nettwork") {
		t.Errorf("error %v", err)
	}
}

// If the user's cache folder cannot be created, nothing is kept between runs.
func TestStateWhereThereIsNoHome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(file, "below"))
	if dir := stateDir(""); dir != "" {
		t.Errorf("state is kept in %s, which cannot be made", dir)
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	if dir, want := stateDir(""), filepath.Join(cache, "stepfall", "verifier-tests"); dir != want {
		t.Errorf("state is kept in %s, want %s", dir, want)
	}
	if dir := stateDir(file); dir != file {
		t.Errorf("state is kept in %s, and %s was asked for", dir, file)
	}
}
