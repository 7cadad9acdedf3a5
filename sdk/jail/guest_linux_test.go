package jail_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

// both runs a test with namespaces, if they are available, and without.
func both(t *testing.T, test func(t *testing.T, j *jail.Jail)) {
	t.Run("namespaces", func(t *testing.T) {
		j := open(t)
		need(t, j, jail.LayerPID)
		test(t, j)
	})
	t.Run("none", func(t *testing.T) {
		j, err := jail.Open(t.Context(), jail.Options{Temp: t.TempDir(), NoNamespaces: true})
		if err != nil {
			t.Fatal(err)
		}
		test(t, j)
	})
}

// A relative path would be mounted elsewhere.
func TestPathsOfAGuestAreAbsolute(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		_, err := j.Start(t.Context(), exec.Command("/bin/true"), &jail.Confinement{Sandbox: true, ReadOnly: []string{"."}})
		if err == nil || !strings.Contains(err.Error(), "not absolute") {
			t.Errorf("got %v", err)
		}
	})
}

// guest starts this binary as a hostile guest and waits for it.
func guest(t *testing.T, j *jail.Jail, c *jail.Confinement, arguments ...string) (exit int, output string, confined *jail.ConfinedProgram) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	command := exec.Command(self, append([]string{"hostile"}, arguments...)...)
	command.Stdout, command.Stderr, command.Dir = &out, &out, "/"
	confined, err = j.Start(t.Context(), command, c)
	if err != nil {
		t.Fatal(err)
	}
	defer confined.Close()
	var failed *exec.ExitError
	if err := command.Wait(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	t.Log(out.String(), confined.Layers)
	return command.ProcessState.ExitCode(), out.String(), confined
}

func TestGuestIsSandboxed(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		secret, own := filepath.Join(t.TempDir(), "secret"), t.TempDir()
		if err := os.WriteFile(secret, []byte("s"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := &jail.Confinement{Sandbox: true, Writable: []string{own}, Require: []string{"filesystem", jail.LayerSeccomp}}
		for _, act := range [][]string{{"read", secret}, {"write", secret}, {"connect", listener.Addr().String()}, {"namespace"}, {"supervisor"}} {
			if code, _, _ := guest(t, j, c, act...); code != 1 {
				t.Errorf("%s: exit code %d, want it refused", act[0], code)
			}
		}
		if code, _, _ := guest(t, j, c, "write", filepath.Join(own, "mine")); code != 0 {
			t.Errorf("it could not write to its own folder: exit code %d", code)
		}
	})
}

func TestGuestIsHeld(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		code, _, confined := guest(t, j, &jail.Confinement{}, "connect", listener.Addr().String())
		if code != 0 {
			t.Errorf("exit code %d: the network is not to be taken from it", code)
		}
		if !slices.Contains(confined.Layers, jail.LayerRlimits) || slices.Contains(confined.Layers, jail.LayerNetwork) {
			t.Errorf("layers %v", confined.Layers)
		}
		argument := unique()
		guest(t, j, &jail.Confinement{}, "escape", argument)
		gone(t, argument)
		if raceDetector {
			return // it alone takes more memory than is allowed here
		}
		if code, output, _ := guest(t, j, &jail.Confinement{Limits: jail.Limits{Memory: 256 << 20}}, "memories"); code != 137 || !strings.Contains(output, "memory") {
			t.Errorf("exit code %d, output %q", code, output)
		}
	})
}

func TestGuestIsNotStartedWithoutWhatIsRequired(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		command := exec.Command("/bin/sh", "-c", "echo started >&2")
		var out bytes.Buffer
		command.Stderr = &out
		_, err := j.Start(t.Context(), command, &jail.Confinement{Require: []string{jail.LayerNetwork}})
		if !errors.Is(err, jail.ErrLacks) || !strings.Contains(err.Error(), "network") || out.Len() > 0 {
			t.Errorf("error %v, output %q", err, out.String())
		}
	})
}

func TestGuestGetsItsFiles(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		for _, sandbox := range []bool{false, true} {
			shell, err := os.Open("/bin/sh")
			if err != nil {
				t.Fatal(err)
			}
			defer shell.Close()
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			var out bytes.Buffer
			command := exec.Command(fmt.Sprintf("/proc/self/fd/%d", shell.Fd()), "-c", `read line; echo "$0 $line $NAME"; echo through >&3; ls /proc/self/fd; kill -TERM $$`)
			command.Args[0], command.Env = "own-name", []string{"NAME=value", "PATH=/usr/bin:/bin"}
			command.Stdin, command.Stdout, command.ExtraFiles = strings.NewReader("in\n"), &out, []*os.File{write}
			confined, err := j.Start(t.Context(), command, &jail.Confinement{Sandbox: sandbox})
			if err != nil {
				t.Fatal(err)
			}
			write.Close()
			if got, err := io.ReadAll(read); err != nil || string(got) != "through\n" {
				t.Errorf("sandboxed %v: %q came by the further descriptor: %v", sandbox, got, err)
			}
			_ = command.Wait()
			confined.Close()
			if code := command.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
				t.Errorf("sandboxed %v: exit code %d", sandbox, code)
			}
			// ls itself opens the folder, as one more than those that it got.
			if got := out.String(); got != "own-name in value\n0\n1\n2\n3\n4\n" {
				t.Errorf("sandboxed %v: output %q", sandbox, got)
			}
		}
	})
}

func TestSignalsReachTheGuest(t *testing.T) {
	both(t, func(t *testing.T, j *jail.Jail) {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		command := exec.Command("/bin/sh", "-c", `trap "exit 7" TERM; echo ready; while :; do sleep 0.05; done`)
		command.Stdout = in
		confined, err := j.Start(t.Context(), command, &jail.Confinement{})
		if err != nil {
			t.Fatal(err)
		}
		defer confined.Close()
		in.Close()
		if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait()
		if code := command.ProcessState.ExitCode(); code != 7 {
			t.Errorf("exit code %d", code)
		}
	})
}

// TestGuestDiesWithItsStarter: so do processes that left its process group.
func TestGuestDiesWithItsStarter(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"namespaces", "none"} {
		argument := unique()
		starter := exec.Command(self, "hostile", "starter", way, argument)
		if err := starter.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); sleepers(t, argument) < 2; {
			if time.Now().After(deadline) {
				t.Fatal("the guest did not start")
			}
		}
		if err := starter.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = starter.Wait()
		gone(t, argument)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t).Start(ctx, exec.Command("/bin/sleep", "60"), &jail.Confinement{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
