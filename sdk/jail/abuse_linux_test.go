package jail_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

// attack runs this binary as a hostile program.
func attack(t *testing.T, dir string, act string, arguments ...string) *jail.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &jail.Spec{
		Dir: dir, Argv: append([]string{self, "hostile", act}, arguments...), Env: []string{"PATH=/usr/bin:/bin"},
		ReadOnly: append([]string{self}, system...), Limits: jail.Limits{Wall: 20 * time.Second},
	}
}

// unixListener listens on a Unix socket, like Docker's daemon.
func unixListener(t *testing.T) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "sock") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func TestHarmIsRefused(t *testing.T) {
	j := open(t)
	dir := tree(t, map[string]string{"a": "x"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		act  []string
		need string
	}{
		{"connects to the host", []string{"connect", listener.Addr().String()}, jail.LayerNetwork},
		{"connects to the internet", []string{"connect", "192.0.2.1:80"}, jail.LayerNetwork},
		{"connects to the machine monitor", []string{"vsock"}, jail.LayerSeccomp},
		{"connects to a daemon by its file", []string{"docker", unixListener(t).Addr().String()}, jail.LayerNetwork},
		{"reads a secret", []string{"read", secret}, "filesystem"},
		{"reads password hashes", []string{"read", "/etc/shadow"}, "filesystem"},
		{"writes outside", []string{"write", filepath.Join(filepath.Dir(secret), "evil")}, "filesystem"},
		{"writes over a secret", []string{"write", secret}, "filesystem"},
		{"writes over a tool", []string{"write", "/usr/bin/evil"}, "filesystem"},
		{"mounts", []string{"mount", dir}, jail.LayerSeccomp},
		{"makes namespaces", []string{"namespace"}, jail.LayerSeccomp},
		{"traces its supervisor", []string{"ptrace"}, jail.LayerSeccomp},
		{"becomes another user", []string{"root"}, jail.LayerUser},
		{"looks into its supervisor", []string{"supervisor"}, jail.LayerPID},
		{"writes to inherited descriptors", []string{"descriptors"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.need != "" {
				need(t, j, test.need)
			}
			if result := run(t, j, attack(t, dir, test.act[0], test.act[1:]...)); result.ExitCode != 1 || result.End != jail.EndExit {
				t.Errorf("end %s, exit code %d", result.End, result.ExitCode)
			}
		})
	}
}

func TestRunawayIsStopped(t *testing.T) {
	j := open(t)
	need(t, j, "memory", "processes")
	for _, test := range []struct {
		act    string
		limits jail.Limits
		ends   []jail.End
	}{
		{"loop", jail.Limits{Wall: 300 * time.Millisecond}, []jail.End{jail.EndTimeout}},
		{"loop", jail.Limits{Wall: 20 * time.Second, CPU: time.Nanosecond}, []jail.End{jail.EndExit}},
		{"fork", jail.Limits{Wall: 5 * time.Second, Processes: 64}, []jail.End{jail.EndProcesses, jail.EndExit, jail.EndTimeout}},
		{"memory", jail.Limits{Wall: 10 * time.Second, Memory: 256 << 20}, []jail.End{jail.EndExit, jail.EndMemory}},
		{"memories", jail.Limits{Wall: 10 * time.Second, Memory: 256 << 20}, []jail.End{jail.EndMemory}},
		{"disk", jail.Limits{Wall: 10 * time.Second, Disk: 64 << 20}, []jail.End{jail.EndExit}},
		{"flood", jail.Limits{Wall: 10 * time.Second, Output: 4 << 10}, []jail.End{jail.EndOutput}},
		{"kill", jail.Limits{Wall: 10 * time.Second}, []jail.End{jail.EndExit, jail.EndLost}},
	} {
		t.Run(test.act, func(t *testing.T) {
			if raceDetector && test.limits.Memory > 0 {
				t.Skip("the race detector alone takes more memory than this test allows")
			}
			spec := attack(t, tree(t, nil), test.act)
			spec.Limits = test.limits
			start := time.Now()
			result := run(t, j, spec)
			if took := time.Since(start); took > test.limits.Wall+time.Minute && !testing.Short() {
				t.Errorf("took %s", took)
			}
			found := false
			for _, end := range test.ends {
				found = found || result.End == end
			}
			if !found || result.End == jail.EndExit && result.ExitCode == 0 {
				t.Errorf("end %s, exit code %d; want one of %v", result.End, result.ExitCode, test.ends)
			}
			if len(result.Stdout) > 8<<20 {
				t.Errorf("%d bytes of output were kept", len(result.Stdout))
			}
		})
	}
}

// sleepers counts the processes that run sleep with this odd argument.
func sleepers(t *testing.T, argument string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range lines {
		data, err := os.ReadFile(line)
		if err == nil && bytes.HasPrefix(data, []byte("sleep\x00"+argument+"\x00")) {
			n++
		}
	}
	return n
}

// gone waits until there is no sleeper left, which can take the kernel a moment.
func gone(t *testing.T, argument string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		n := sleepers(t, argument)
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes are left", n)
		}
	}
}

func unique() string {
	return "9" + strconv.Itoa(os.Getpid()) + strconv.FormatInt(time.Now().UnixNano()%1e6, 10)
}

func TestEscapeLeavesNothing(t *testing.T) {
	j := open(t)
	argument := unique()
	result := run(t, j, attack(t, tree(t, nil), "escape", argument))
	if result.LeftOver == 0 {
		t.Error("the escaped processes were not seen")
	}
	gone(t, argument)
}

func TestKilledPluginLeavesNothing(t *testing.T) { killPlugin(t) }

func TestKilledPluginLeavesNothingWithoutNamespaces(t *testing.T) { killPlugin(t, "without") }

func killPlugin(t *testing.T, more ...string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	temp, argument := t.TempDir(), unique()
	plugin := exec.Command(self, append([]string{"hostile", "plugin", temp, tree(t, nil), argument}, more...)...)
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); sleepers(t, argument) < 2; {
		if time.Now().After(deadline) {
			t.Fatal("the run did not start")
		}
	}
	if err := plugin.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = plugin.Wait()
	gone(t, argument)
	for deadline := time.Now().Add(time.Minute); ; {
		left, err := os.ReadDir(temp)
		if err == nil && len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left in the temporary folder: %v %v", left, err)
		}
	}
	if left := mountsBelow(t, filepath.Dir(temp)); len(left) > 0 {
		t.Errorf("mounts are left: %v", left)
	}
}

// TestWithoutNamespaces checks the protections that remain if the machine does not allow namespaces.
func TestWithoutNamespaces(t *testing.T) {
	j, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir(), NoNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	layers, missing := j.Layers()
	for _, layer := range []string{jail.LayerUser, jail.LayerPID, jail.LayerMount} {
		if missing[layer] == "" {
			t.Errorf("%s is not reported as missing: %v %v", layer, layers, missing)
		}
	}
	need(t, j, jail.LayerLandlock, jail.LayerSeccomp)
	t.Run("tree", func(t *testing.T) { treeIsAView(t, j) })
	t.Run("in place", func(t *testing.T) { inPlace(t, j) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	daemon := unixListener(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, act := range [][]string{
		{"connect", listener.Addr().String()}, {"docker", daemon.Addr().String()}, {"read", secret}, {"write", secret}, {"vsock"}, {"namespace"}, {"ptrace"}, {"supervisor"}, {"kill"},
	} {
		if result := run(t, j, attack(t, tree(t, nil), act[0], act[1:]...)); result.End != jail.EndExit || result.ExitCode != 1 {
			t.Errorf("%s: end %s, exit code %d", act[0], result.End, result.ExitCode)
		}
	}
	argument := unique()
	run(t, j, attack(t, tree(t, nil), "escape", argument))
	gone(t, argument)
	loop := attack(t, tree(t, nil), "loop")
	loop.Limits.Wall = 200 * time.Millisecond
	if result := run(t, j, loop); result.End != jail.EndTimeout {
		t.Errorf("loop: end %s", result.End)
	}
}

// mountsBelow returns the mounts of or in a folder. Containers of other tests mount elsewhere meanwhile.
func mountsBelow(t *testing.T, dir string) (found []string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

// BenchmarkRun measures a run of /bin/true in the jail; BenchmarkBare measures it without.
func BenchmarkRun(b *testing.B) {
	j := open(b)
	spec := &jail.Spec{Dir: tree(b, map[string]string{"a": "x"}), Argv: []string{"/bin/true"}, Env: []string{"PATH=/usr/bin:/bin"}, ReadOnly: system}
	for b.Loop() {
		if _, err := j.Run(b.Context(), spec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSmallMemoryIsTheCommands: memory that the jail's own processes have mapped, such as thread stacks,
// does not count against the command's limit.
func TestSmallMemoryIsTheCommands(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		spec := shell(tree(t, nil), "exit 0")
		spec.Limits.Memory = 32 << 20
		if result := run(t, j, spec); result.End != jail.EndExit || result.ExitCode != 0 {
			t.Errorf("end %s, exit code %d: %s", result.End, result.ExitCode, result.Stderr)
		}
	})
}
