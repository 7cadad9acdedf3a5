package swe_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/sdk/jail"
)

func newJail(t *testing.T) *swe.Jail {
	t.Helper()
	j, err := swe.NewJail(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func in(t *testing.T, j *swe.Jail, dir, script string) *swe.Ran {
	t.Helper()
	ran, err := j.Run(t.Context(), dir, nil, "", 20*time.Second, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return ran
}

func TestJailRunsCommands(t *testing.T) {
	dir := t.TempDir()
	ran := in(t, newJail(t), dir, "echo hello > f && cat f && exit 3")
	if ran.Code != 3 || ran.Output != "hello\n" {
		t.Errorf("code %d, output %q", ran.Code, ran.Output)
	}
}

func TestJailKeepsSecrets(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	if ran := in(t, newJail(t), t.TempDir(), "env"); strings.Contains(ran.Output, "sk-secret") {
		t.Errorf("the key is in the environment:\n%s", ran.Output)
	}
}

func TestJailHasNoNetwork(t *testing.T) {
	j := newJail(t)
	if !slices.Contains(j.Layers, jail.LayerNetwork) {
		t.Skip("no network namespaces here:", j.Missing)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if ran := in(t, j, t.TempDir(), "exec 3<>/dev/tcp/127.0.0.1/"+port+" && echo through"); strings.Contains(ran.Output, "through") {
		t.Error("a command reached a server of the machine")
	}
	ran, err := j.Run(t.Context(), t.TempDir(), nil, "", 20*time.Second, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port+" && echo through")
	if err != nil || strings.Contains(ran.Output, "through") {
		t.Errorf("a command reached a server of the machine: %v %q", err, ran.Output)
	}
}

func TestJailKeepsFilesOutOfReach(t *testing.T) {
	j := newJail(t)
	if len(jail.Lacks([]string{"filesystem"}, j.Layers)) > 0 {
		t.Skip("files are not confined here:", j.Missing)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("treasure"), 0o644); err != nil {
		t.Fatal(err)
	}
	ran := in(t, j, t.TempDir(), "cat "+secret+"; echo x > "+secret+"; echo done")
	if strings.Contains(ran.Output, "treasure") || !strings.Contains(ran.Output, "done") {
		t.Errorf("output: %q", ran.Output)
	}
	if data, _ := os.ReadFile(secret); string(data) != "treasure" {
		t.Errorf("the file was changed to %q", data)
	}
}

func TestJailEndsWhatWasStarted(t *testing.T) {
	dir := t.TempDir()
	j := newJail(t)
	mark := fmt.Sprintf("600.%d", os.Getpid()) // no other process has such an argument
	ran, err := j.Run(t.Context(), dir, nil, "", time.Second, "sh", "-c", "setsid sleep "+mark+" & sleep 600")
	if err != nil || !ran.TimedOut {
		t.Fatalf("ran %+v, %v", ran, err)
	}
	if !slices.Contains(j.Layers, jail.LayerPID) {
		t.Skip("no process namespaces here")
	}
	// The namespace is gone when Run returns, and with it all of its processes.
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		if line, _ := os.ReadFile(path); strings.Contains(string(line), "\x00"+mark+"\x00") {
			t.Errorf("a process outlived the command: %q", line)
		}
	}
}

func TestJailBoundsOutput(t *testing.T) {
	ran := in(t, newJail(t), t.TempDir(), "yes | head -c 20000000; echo end")
	if len(ran.Output) > 2<<20 || !strings.HasSuffix(ran.Output, "end\n") {
		t.Errorf("%d bytes of output", len(ran.Output))
	}
}

// TestTreeCannotLeadGitAstray: a command can overwrite .git and name a filter.
func TestTreeCannotLeadGitAstray(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	git("init", "-q")
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", ".")
	git("commit", "-qm", "a")
	repo, err := swe.OpenRepository(t.Context(), dir, filepath.Join(t.TempDir(), "trees"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repo.Checkout(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	evil := filepath.Join(t.TempDir(), "evil")
	script := `rm .git; mkdir .git; cd .git; git init -q --bare .; git config core.bare false; git config filter.x.clean "sh -c 'touch ` + evil + `; cat'"; cd ..; echo "* filter=x" > .gitattributes; echo new > a`
	if ran := in(t, newJail(t), tree.Dir, script); ran.Code != 0 {
		t.Fatalf("%+v", ran)
	}
	patch, _, err := tree.Diff(t.Context())
	if err != nil || !strings.Contains(patch, "+new") {
		t.Errorf("the patch is %q, %v", patch, err)
	}
	if _, err := os.Stat(evil); err == nil {
		t.Error("git ran what the tree named")
	}
}
