package container_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/jail/container"
	"github.com/stepfall/stepfall/sdk/jail/container/containertest"
)

func open(t *testing.T) (*container.Engine, []string) {
	t.Helper()
	command, image := containertest.Image(t)
	e, err := container.Open(t.Context(), container.Options{Command: command, Image: image})
	if err != nil {
		t.Fatal(err)
	}
	return e, command
}

// left returns the containers that still exist.
func left(t *testing.T, command []string) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("label=io.stepfall.owner=%s/%d", host, os.Getpid()) // other tests have containers, too
	out, err := exec.Command(command[0], slices.Concat(command[1:], []string{"ps", "--all", "--quiet", "--filter", own})...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	e, command := open(t)
	dir := tree(t, map[string]string{"a.txt": "old\n", "gone.txt": "x", "tests/t.txt": "decides\n", "tests/u.txt": "decides\n"})
	spec := &jail.Spec{
		Dir: dir, Argv: []string{"sh", "-c", "cat a.txt sub/new.txt; ls gone.txt; env; id; echo no >tests/u.txt; echo report >out/r; ls /sys/class/net; exit 3"},
		Changes: []jail.Change{{Path: "a.txt", Data: []byte("new\n")}, {Path: "sub/new.txt", Data: []byte("more\n")}, {Path: "gone.txt", Delete: true}, {Path: "out/x", Data: nil}},
		Env:     []string{"PATH=/nowhere", "X=given"}, Reports: []string{"out/r", "none"}, Guarded: []string{"tests/t.txt", "tests/u.txt"},
	}
	result, err := e.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	out := string(result.Stdout)
	for _, want := range []string{"new\nmore\n", "X=given", "uid=0"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	if result.End != jail.EndExit || result.ExitCode != 3 || string(result.Reports["out/r"]) != "report\n" || strings.Contains(out, "eth") || strings.Contains(out, "PATH=/nowhere") {
		t.Errorf("%+v\n%s%s", result, out, result.Stderr)
	}
	if !slices.Equal(result.Touched, []string{"tests/u.txt"}) {
		t.Errorf("touched %v", result.Touched)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != "old\n" {
		t.Errorf("the tree is %q, %v", data, err)
	}
	if len(jail.Lacks([]string{"filesystem", "processes", "memory", "network"}, result.Layers)) > 0 {
		t.Errorf("layers %v", result.Layers)
	}
	if ids := left(t, command); ids != "" {
		t.Errorf("left: %s", ids)
	}
}

func TestAttackContainer(t *testing.T) {
	e, command := open(t)
	for _, test := range []struct {
		name, script string
		limits       jail.Limits
		want         jail.End
	}{
		{"an endless loop", "while :; do :; done", jail.Limits{Wall: 2 * time.Second}, jail.EndTimeout},
		{"processes that stay", "sleep 1000 & (sleep 1000 &) ; exit 0", jail.Limits{Wall: 20 * time.Second}, jail.EndExit},
		{"memory", "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done", jail.Limits{Memory: 32 << 20, Wall: 30 * time.Second}, ""},
		{"output", "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done", jail.Limits{Output: 1 << 10, Wall: 20 * time.Second}, jail.EndOutput},
	} {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			result, err := e.Run(t.Context(), &jail.Spec{Dir: t.TempDir(), Argv: []string{"sh", "-c", test.script}, Limits: test.limits})
			if err != nil {
				t.Fatal(err)
			}
			ids := left(t, command)
			t.Logf("ATTACK\t%s\tcontainer\t%s\t%s %d\t%s\t%d containers", test.name, strings.Join(result.Layers, " "), result.End, result.ExitCode, time.Since(start).Round(time.Millisecond), strings.Count(ids, "\n"))
			if test.want != "" && result.End != test.want || test.want == "" && result.End == jail.EndExit && result.ExitCode == 0 || ids != "" {
				t.Errorf("%s %d, left %q: %s", result.End, result.ExitCode, ids, result.Stderr)
			}
		})
	}
	t.Run("a caller that gives up", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err := e.Run(ctx, &jail.Spec{Dir: t.TempDir(), Argv: []string{"sleep", "1000"}})
		if ids := left(t, command); !errors.Is(err, context.DeadlineExceeded) || ids != "" {
			t.Errorf("%v, left %q", err, ids)
		}
	})
}

// watchers returns the process ids of the engine's monitors of this package's containers.
func watchers(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte("conmon\x00")) && bytes.Contains(line, []byte("\x00stepfall-")) {
			list = append(list, filepath.Base(filepath.Dir(file)))
		}
	}
	return list
}

// TestAttackContainerCutOff: no container is left behind, whenever a run is cut off, not even one that the engine was
// about to start and had not recorded yet.
func TestAttackContainerCutOff(t *testing.T) {
	e, command := open(t)
	before := watchers(t)
	dir := t.TempDir()
	var all sync.WaitGroup
	turns := 4
	if slices.Contains([]string{"all", "jail"}, os.Getenv("STEPFALL_ATTACKS")) {
		turns = 24
	}
	for turn := range turns {
		all.Go(func() {
			wall := time.Duration(turn+1) * 960 * time.Millisecond / time.Duration(turns)
			result, err := e.Run(t.Context(), &jail.Spec{Dir: dir, Argv: []string{"sleep", "1000"}, Limits: jail.Limits{Wall: wall}})
			if err != nil || result.End != jail.EndTimeout {
				t.Errorf("%s: %v, %v", wall, result, err)
			}
		})
		if turn%4 == 3 {
			all.Wait()
		}
	}
	if ids := left(t, command); ids != "" {
		t.Errorf("left: %s", ids)
	}
	stay := slices.DeleteFunc(watchers(t), func(pid string) bool { return slices.Contains(before, pid) })
	for deadline := time.Now().Add(time.Minute); len(stay) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v are left", stay)
		}
		now := watchers(t)
		stay = slices.DeleteFunc(stay, func(pid string) bool { return !slices.Contains(now, pid) })
	}
}
