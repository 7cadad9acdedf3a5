package jail

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fakeHierarchy is a folder that behaves like cgroup v2 as far as files are concerned. removed has the files of
// the group that was removed.
func fakeHierarchy(t *testing.T, removed map[string]string) *hierarchy {
	t.Helper()
	dir := t.TempDir()
	write := func(dir string, files map[string]string) error {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(dir, map[string]string{"cgroup.subtree_control": "cpu memory pids\n"}); err != nil {
		t.Fatal(err)
	}
	return &hierarchy{
		dir: dir,
		mkdir: func(dir string) error {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			return write(dir, map[string]string{
				"cgroup.procs": "", "cgroup.kill": "", "memory.max": "max", "memory.swap.max": "max", "pids.max": "max",
				"memory.events": "max 3\noom 1\noom_kill 0\n",
			})
		},
		rmdir: func(dir string) error {
			for _, name := range []string{"cgroup.procs", "cgroup.kill", "memory.max", "memory.swap.max", "pids.max"} {
				if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
					removed[name] = string(data)
				}
			}
			return os.RemoveAll(dir)
		},
	}
}

func TestRunsHaveGroupsOfTheirOwn(t *testing.T) {
	mainCalled.Store(true)
	j, err := Open(t.Context(), Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	removed := map[string]string{}
	j.groups = fakeHierarchy(t, removed)
	if err := j.groups.try(); err != nil {
		t.Fatal(err)
	}
	spec := &Spec{
		Dir: t.TempDir(), Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin"}, ReadOnly: SystemPaths(),
		Limits: Limits{Memory: 1 << 30, Disk: 1 << 20, Processes: 100}, Require: []string{LayerCgroup},
	}
	result, err := j.Run(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if result.End != EndExit || result.ExitCode != 0 || !slices.Contains(result.Layers, LayerCgroup) || result.Missing[LayerCgroup] != "" {
		t.Errorf("%+v", result)
	}
	// The fake keeps what is longer than the value written over it.
	memory, _ := strconv.ParseInt(removed["memory.max"], 10, 64)
	if memory != 1<<30 && memory != 1<<30+1<<20 || !strings.HasPrefix(removed["pids.max"], "800") || removed["cgroup.kill"] != "1" || removed["cgroup.procs"] == "" {
		t.Errorf("the group was %v", removed)
	}
	if left, err := filepath.Glob(filepath.Join(j.groups.dir, groupPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("groups left: %v %v", left, err)
	}
}

func TestOutOfMemoryInAGroup(t *testing.T) {
	h := fakeHierarchy(t, map[string]string{})
	g, err := h.make(Limits{Memory: 1 << 20}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if g.ranOutOfMemory() {
		t.Error("before")
	}
	if err := os.WriteFile(filepath.Join(g.dir, "memory.events"), []byte("oom 1\noom_kill 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !g.ranOutOfMemory() {
		t.Error("after")
	}
}

func TestGroupsThatCannotBeHad(t *testing.T) {
	j := &Jail{groups: fakeHierarchy(t, nil), missing: map[string]string{}}
	j.groups.mkdir = func(string) error { return os.ErrPermission }
	if g, why := j.newGroup(&order{}); g != nil || why != os.ErrPermission.Error() {
		t.Errorf("group %v, %q", g, why)
	}
	if err := os.WriteFile(filepath.Join(j.groups.dir, "cgroup.subtree_control"), []byte("cpu pids\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := j.groups.try(); err == nil || !strings.Contains(err.Error(), "controller memory") {
		t.Errorf("error %v", err)
	}
}

func TestCandidates(t *testing.T) {
	const v2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	for _, test := range []struct {
		name, mounts, own string
		want              []string
	}{
		{"systemd", v2, "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run.scope\n", []string{
			"/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run.scope",
			"/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice",
		}},
		{"a container", v2, "0::/\n", []string{"/sys/fs/cgroup"}},
		{"a subtree is mounted", "29 23 0:26 /machine/a /cg rw - cgroup2 c rw\n", "0::/machine/a/b\n", []string{"/cg/b", "/cg"}},
		{"both versions", "30 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "4:memory:/a\n0::/\n", []string{"/sys/fs/cgroup/unified"}},
		{"version 1", "30 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/\n", nil},
	} {
		got, err := candidates(test.mounts, test.own)
		if !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}
