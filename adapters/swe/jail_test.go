package swe_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/swe"
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
	ran, err := j.Run(t.Context(), dir, 20*time.Second, "sh", "-c", script)
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
	ran, err := j.Run(t.Context(), t.TempDir(), 20*time.Second, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port+" && echo through")
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
	start := time.Now()
	ran, err := j.Run(t.Context(), dir, time.Second, "sh", "-c", "setsid sh -c 'sleep 3; echo late > late' & sleep 60")
	if err != nil || !ran.TimedOut || time.Since(start) > 10*time.Second {
		t.Fatalf("ran %+v, %v after %v", ran, err, time.Since(start))
	}
	if !slices.Contains(j.Layers, jail.LayerPID) {
		t.Skip("no process namespaces here")
	}
	// The namespace is gone when Run returns, and with it all of its processes.
	if _, err := os.Stat(filepath.Join(dir, "late")); err == nil {
		t.Error("a process outlived the command")
	}
}

func TestJailBoundsOutput(t *testing.T) {
	ran := in(t, newJail(t), t.TempDir(), "yes | head -c 20000000; echo end")
	if len(ran.Output) > 2<<20 || !strings.HasSuffix(ran.Output, "end\n") {
		t.Errorf("%d bytes of output", len(ran.Output))
	}
}
