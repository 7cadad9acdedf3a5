package jail_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

// A user's tree and caches can belong to a group that the user namespace does not map.
func TestUnknownGroup(t *testing.T) {
	const treeVariable = "STEPFALL_TEST_TREE"
	if dir := os.Getenv(treeVariable); dir != "" {
		j, err := jail.Open(t.Context(), jail.Options{Temp: filepath.Dir(dir)})
		if err != nil {
			t.Fatal(err)
		}
		spec := shell(dir, `test ! -e sub && echo x > made && echo x > /cache/a/made && mkdir /cache/b && echo x > /cache/b/made && test -e /cache/a/old`)
		spec.Caches = []jail.Cache{{Path: "/cache", Lower: []string{filepath.Join(filepath.Dir(dir), "cache")}}}
		spec.Changes = []jail.Change{{Path: "sub", Delete: true}}
		if result := run(t, j, spec); result.ExitCode != 0 {
			t.Errorf("exit code %d", result.ExitCode)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can give a tree to another group")
	}
	base, err := os.MkdirTemp("/tmp", "unknown-group-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const user = 1234
	binary, dir, part := filepath.Join(base, "jail.test"), filepath.Join(base, "tree"), filepath.Join(base, "cache", "a")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "sub", "below"), 0o755), os.Chmod(base, 0o755), os.Chown(base, user, user), //nolint:gosec // another user runs there
		os.Chown(dir, user, 0), os.Chown(filepath.Join(dir, "sub"), user, 0), os.Chown(filepath.Join(dir, "sub", "below"), user, 0),
		os.MkdirAll(part, 0o755), os.WriteFile(filepath.Join(part, "old"), nil, 0o600), os.Chown(filepath.Dir(part), user, 0), os.Chown(part, user, 0), os.Chown(filepath.Join(part, "old"), user, 0), //nolint:gosec // as above
		exec.Command("cp", "-L", executable, binary).Run(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(binary, "-test.run=^TestUnknownGroup$", "-test.v")
	command.Env, command.Dir = append(os.Environ(), treeVariable+"="+dir, "HOME="+base, "TMPDIR="+base), base
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	} else {
		t.Logf("%s", out)
	}
}
