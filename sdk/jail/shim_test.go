package jail_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

func TestProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("version managers are scripts")
	}
	dir := t.TempDir()
	script := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o600), os.Chmod(path, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	script("manager/shims/snake", "exit 1")
	script("manager/shims/lost", "exit 1")
	script("manager/versions/3/bin/snake", "exit 0")
	script("manager/libexec/pyenv", `[ "$PYENV_ROOT" = "`+dir+`/manager" ] || exit 1
case "$2" in snake) echo "`+dir+`/manager/versions/3/bin/snake" ;; *) echo "lost: command not found" >&2; exit 127 ;; esac`)
	script("others/shims/plain", "exit 0")
	script("bin/direct", "exit 0")
	t.Setenv("PYENV_ROOT", "")
	t.Setenv("PATH", filepath.Join(dir, "manager", "shims")+":"+filepath.Join(dir, "others", "shims")+":"+filepath.Join(dir, "bin"))
	for name, want := range map[string]string{
		"snake": filepath.Join(dir, "manager/versions/3/bin/snake"), "plain": "plain", "direct": "direct", "nowhere": "nowhere", "./script.sh": "./script.sh",
	} {
		if got, err := jail.Program(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := jail.Program(t.Context(), "lost"); err == nil || !strings.Contains(err.Error(), "a script of pyenv") || !strings.Contains(err.Error(), "command not found") {
		t.Errorf("err = %v", err)
	}
	// Within the walls a script of the PATH, as a tree's own `#!/usr/bin/env snake`, finds its manager.
	if paths := jail.PathTools(); !slices.Contains(paths, filepath.Join(dir, "manager/libexec")) || !slices.Contains(paths, filepath.Join(dir, "manager/versions")) ||
		slices.Contains(paths, filepath.Join(dir, "others")) {
		t.Errorf("paths = %s", paths)
	}
}

// A program whose folder lies behind a link, as that of an environment in use often does, is found by both names: its
// scripts name their interpreter by the one that the environment was made with.
func TestToolsBehindALink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need privileges")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, link := filepath.Join(dir, "made"), filepath.Join(dir, "current")
	if err := errors.Join(os.MkdirAll(filepath.Join(real, "bin"), 0o700), os.Symlink("/bin/sh", filepath.Join(real, "bin", "snake")), os.Symlink("made", link)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(link, "bin"))
	for _, paths := range [][]string{jail.ToolPaths("snake"), jail.PathTools()} {
		for _, path := range []string{filepath.Join(link, "bin"), filepath.Join(real, "bin")} {
			if !slices.Contains(paths, path) {
				t.Errorf("%s is not among %s", path, paths)
			}
		}
	}
}

// Where GOROOT is not set, a link named bin in the current folder gives the commands nothing to read.
func TestNoToolsBesideTheCurrentFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need privileges")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "project", "bin")
	if err := errors.Join(os.MkdirAll(other, 0o700), os.Symlink(other, filepath.Join(dir, "bin"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("GOROOT", "")
	t.Setenv("VIRTUAL_ENV", "")
	if paths := jail.PathTools(); slices.Contains(paths, other) {
		t.Errorf("%s is among %s", other, paths)
	}
}
