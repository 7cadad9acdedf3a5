package jail_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stepfall/stepfall/sdk/jail"
)

// TestAttackBounds: every way of exceeding a limit ends the run or is denied, in a view of a tree and in
// place, with and without namespaces.
func TestAttackBounds(t *testing.T) {
	tests := []struct {
		act    string
		limits jail.Limits
	}{
		{"shared", jail.Limits{Memory: 128 << 20}},
		{"tmpfile", jail.Limits{Disk: 64 << 20}},
		{"files", jail.Limits{Files: 1000}},
		{"print", jail.Limits{}},
		{"memfd", jail.Limits{Memory: 128 << 20}},
		{"segment", jail.Limits{Memory: 128 << 20}},
		{"let go", jail.Limits{Memory: 128 << 20}},
		{"zero", jail.Limits{Memory: 128 << 20}},
		{"mapped segment", jail.Limits{Memory: 128 << 20}},
		{"tables", jail.Limits{Memory: 128 << 20}},
		{"messages", jail.Limits{Memory: 128 << 20}},
		{"memories", jail.Limits{Memory: 256 << 20}},
		{"disk", jail.Limits{Disk: 64 << 20}},
	}
	if !everyAttack() {
		tests = tests[:4] // one of memory, of the disk, of files and of output
	}
	for _, test := range tests {
		t.Run(test.act, func(t *testing.T) {
			both(t, func(t *testing.T, j *jail.Jail) {
				need(t, j, "memory", jail.LayerSeccomp)
				if raceDetector {
					t.Skip("the race detector alone takes more than this test allows")
				}
				for _, inPlace := range places(t) {
					spec := attack(t, tree(t, nil), test.act)
					spec.Limits, spec.InPlace = test.limits, inPlace
					spec.Limits.Wall = 30 * time.Second
					result, err := j.Run(t.Context(), spec)
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("in place %v: %s %d in %s %.300s", inPlace, result.End, result.ExitCode, result.Duration, result.Stderr)
					if result.End == jail.EndExit && result.ExitCode == 0 {
						t.Errorf("in place %v: it took what it wanted", inPlace)
					}
					if result.End == jail.EndTimeout {
						t.Errorf("in place %v: only time ended it", inPlace)
					}
				}
			})
		})
	}
}

// everyAttack reports whether every attack is run, as in CI: there an ordinary user runs all attacks on the
// jail, and a sample of those in other packages.
func everyAttack() bool {
	return slices.Contains([]string{"all", "jail"}, os.Getenv("STEPFALL_ATTACKS"))
}

// places are the kinds of runs of a test: in a view of a tree and in place, each with and without namespaces
// if every attack is run, and otherwise one of them with and the other without.
func places(t *testing.T) []bool {
	t.Helper()
	if everyAttack() {
		return []bool{false, true}
	}
	return []bool{strings.HasSuffix(t.Name(), "/none")}
}

// TestAttackWaysOut: neither socket pairs nor pages, terminals or process groups lead out of a run, with and
// without namespaces.
func TestAttackWaysOut(t *testing.T) {
	path := filepath.Join(filepath.Dir(unixListener(t).Addr().String()), "d")
	daemon, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Close()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, act := range [][]string{{"datagram", path}, {"odd pair"}, {"hugepages"}, {"terminal"}, {"group"}, {"page cache"}} {
		t.Run(act[0], func(t *testing.T) {
			both(t, func(t *testing.T, j *jail.Jail) {
				need(t, j, jail.LayerSeccomp)
				if result := run(t, j, attack(t, tree(t, nil), act[0], act[1:]...)); result.End != jail.EndExit || result.ExitCode != 1 {
					t.Errorf("end %s, exit code %d: %s", result.End, result.ExitCode, result.Stdout)
				}
			})
		})
	}
}

// TestAttackDeviceTimes: the timestamps of the machine's devices keep no data of a run.
func TestAttackDeviceTimes(t *testing.T) {
	j := open(t)
	need(t, j, jail.LayerMount)
	if result := run(t, j, attack(t, tree(t, nil), "device times")); result.End != jail.EndExit || result.ExitCode != 1 {
		t.Errorf("end %s, exit code %d: %s", result.End, result.ExitCode, result.Stdout)
	}
}

// TestAttackLimits: without a pid namespace, a process of the run cannot change the limits of processes
// outside; a limit on CPU time could kill one.
func TestAttackLimits(t *testing.T) {
	j, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir(), NoNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	need(t, j, jail.LayerSeccomp)
	for _, inPlace := range []bool{false, true} {
		spec := attack(t, tree(t, nil), "limit")
		spec.InPlace = inPlace
		if result := run(t, j, spec); result.End != jail.EndExit || result.ExitCode != 1 || !strings.Contains(string(result.Stdout), unix.EPERM.Error()) {
			t.Errorf("end %s, exit code %d: %s", result.End, result.ExitCode, result.Stdout)
		}
	}
}

// TestAttackBoundsInPlaceAddUp: several commands together cannot exceed an agent's limits.
func TestAttackBoundsInPlaceAddUp(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		dir := tree(t, nil)
		ended := jail.End("")
		for n := range 4 {
			spec := shell(dir, "head -c 30000000 /dev/zero > f"+string(rune('a'+n))+"; sleep 1")
			spec.InPlace, spec.Limits = true, jail.Limits{Disk: 64 << 20}
			if ended = run(t, j, spec).End; ended != jail.EndExit {
				break
			}
		}
		if ended != jail.EndDisk {
			t.Errorf("ended by %s", ended)
		}
	})
}

// TestAttackDeepFolders: walking what a run leaves behind takes no longer than its timeout.
func TestAttackDeepFolders(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		dir := tree(t, nil)
		defer os.RemoveAll(filepath.Join(dir, "d"))
		for _, inPlace := range places(t) {
			spec := attack(t, dir, "deep")
			spec.InPlace, spec.Limits = inPlace, jail.Limits{Wall: 5 * time.Second}
			start := time.Now()
			run(t, j, spec)
			if took := time.Since(start); took > 2*time.Minute && !testing.Short() {
				t.Errorf("took %v", took)
			}
		}
	})
}

// TestAttackDeepChange: a change with a very long path is applied in time or rejected.
func TestAttackDeepChange(t *testing.T) {
	j := open(t)
	spec := shell(tree(t, nil), "true")
	spec.Changes = []jail.Change{{Path: strings.Repeat("a/", 6000) + "b", Data: []byte("x")}}
	start := time.Now()
	if result, err := j.Run(t.Context(), spec); err == nil {
		t.Errorf("a path of 6000 folders was made: %+v", result.End)
	}
	if took := time.Since(start); took > time.Minute && !testing.Short() {
		t.Errorf("took %v", took)
	}
}

// TestAttackSetuid: a command of an agent cannot leave a setuid or setgid file on disk, neither by chmod nor
// by creating one.
func TestAttackSetuid(t *testing.T) {
	find := func() string {
		for _, path := range []string{"/usr/bin/python3", "/usr/local/bin/python3"} {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
		t.Skip("no python3 here")
		return ""
	}()
	both(t, func(t *testing.T, j *jail.Jail) {
		need(t, j, jail.LayerSeccomp)
		dir := tree(t, nil)
		spec := shell(dir, "")
		spec.Argv = []string{find, "-c", `import os
open('a', 'w').close(); os.chmod('a', 0o755)
fd = os.open('b', os.O_CREAT | os.O_WRONLY, 0o755)
os.umask(0)
for mode in 0o4755, 0o2755, 0o6777:
    for way in (lambda: os.chmod('a', mode), lambda: os.fchmod(fd, mode), lambda: os.chmod('a', mode, dir_fd=os.open('.', os.O_RDONLY)),
            lambda: os.open('c%o' % mode, os.O_CREAT | os.O_WRONLY, mode), lambda: os.mknod('d%o' % mode, 0o100000 | mode), lambda: os.open('.', os.O_TMPFILE | os.O_WRONLY, mode)):
        try:
            way()
            print('made', mode)
        except OSError:
            pass
open('e', 'w').write('as usual')
os.mkdir('f', 0o755)
print(open('e').read())
`}
		spec.InPlace = true
		result := run(t, j, spec)
		if result.ExitCode != 0 || string(result.Stdout) != "as usual\n" {
			t.Errorf("%d: %s%s", result.ExitCode, result.Stdout, result.Stderr)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) < 4 {
			t.Fatal(entries, err)
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("%s: %v, %v", entry.Name(), info.Mode(), err)
			}
		}
	})
}
