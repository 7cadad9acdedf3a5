//go:build unix

package host_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/adapters/internal/scaffold"
)

// startApplication starts this binary as a program that uses a plugin. Under the name "unjailed" it does not call
// jail.Main.
func startApplication(t *testing.T, name string, out io.Writer, o *applicationOrder) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, string(order))
	cmd.Args[0], cmd.Stdout, cmd.Stderr = name, out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// dies kills the application and fails if any of its processes outlives it for long.
func dies(t *testing.T, application *exec.Cmd) {
	t.Helper()
	pids := family(application.Process.Pid)
	if err := application.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = application.Wait() // killed
	begun := time.Now()
	for _, pid := range pids {
		waitFor(t, func() bool { return !processExists(pid) })
	}
	t.Logf("%d processes ended within %v", len(pids), time.Since(begun).Round(time.Millisecond))
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestNothingOutlivesAKilledHost kills applications with SIGKILL in every state of the plugin. Its child processes must
// die too; at isolation none this only holds for those in its process group, so it has no others there.
func TestNothingOutlivesAKilledHost(t *testing.T) {
	dir := pluginDir(t)
	for _, isolation := range []string{"none", "process"} {
		for state, text := range map[string]string{
			"starting": "", "idle": "children", "in a call": "children and stuck", "stopped by a signal": "children",
		} {
			if isolation == "none" && text == "children" {
				text = "child"
			}
			if isolation == "none" && (state == "in a call" || state == "starting") {
				continue // the plugin is as it is when idle, and its children leave the group
			}
			t.Run(fmt.Sprintf("%s, isolation %s", state, isolation), func(t *testing.T) {
				file, temp := filepath.Join(t.TempDir(), "started"), emptyInTheEnd(t)
				settings := host.PluginConfig{Isolation: isolation, Env: map[string]string{exitAtOnce: "atexit_sleep_ms=0"}}
				if state == "starting" {
					settings.Env["TEST_BEFORE"], settings.Env["TEST_FILE"] = "children and hang", file
				}
				app := startApplication(t, "application", nil, &applicationOrder{
					SearchPath: []string{dir}, TempDir: temp, Plugins: map[string]host.PluginConfig{"test": settings},
					Plugin: "test", Text: text, Config: map[string]any{"file": file},
				})
				waitFor(t, func() bool { return exists(file) })
				pids := named(family(app.Process.Pid), "test")
				if len(pids) != 1 {
					t.Fatalf("processes of the plugin: %v", pids)
				}
				if state == "stopped by a signal" {
					stopProcess(t, pids[0])
				}
				dies(t, app)
				// The next host removes the folder that it left.
				newHost(t, host.Config{TempDir: temp, SearchPath: []string{dir}})
				left, err := filepath.Glob(filepath.Join(temp, fmt.Sprintf("stepfall-host-%d-*", app.Process.Pid)))
				if err != nil || len(left) > 0 {
					t.Errorf("left behind: %v %v", left, err)
				}
			})
		}
	}
}

// pythonPlugin creates a plugin project in Python and returns its program.
func pythonPlugin(t *testing.T, role string) string {
	t.Helper()
	interpreter, ok := scaffold.FindPython()
	if !ok {
		t.Skip("python3-grpcio, python3-protobuf and python3-cryptography are not installed")
	}
	dir := filepath.Join(t.TempDir(), "words")
	if _, err := scaffold.Write(scaffold.Options{Name: "words", Lang: "python", Role: role, Dir: dir, Python: interpreter}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "words")
}

func TestNoPythonPluginOutlivesAKilledHost(t *testing.T) {
	program := pythonPlugin(t, "quality-estimator")
	for _, isolation := range []string{"none", "process"} {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprintf("isolation %s, stopped %t", isolation, stopped), func(t *testing.T) {
				settings := host.PluginConfig{Path: program, Isolation: isolation}
				app := startApplication(t, "application", nil, &applicationOrder{
					TempDir: shortDir(t), Plugins: map[string]host.PluginConfig{"words": settings},
					Plugin: "words",
				})
				var plugin []int
				waitFor(t, func() bool {
					plugin = named(family(app.Process.Pid), "python3")
					return len(plugin) == 1
				})
				if stopped {
					stopProcess(t, plugin[0])
				}
				dies(t, app)
			})
		}
	}
}
