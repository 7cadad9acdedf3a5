package pgtest

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Cluster is a server with its data.
type Cluster struct {
	dir, bin string
	as       owner
	options  []string
	server   *exec.Cmd
	lifeline io.Closer
	made     atomic.Int64
	env      []string
}

// Find returns the folder of the server's programs, or "".
func Find() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		// A link can be the only program in its folder.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// Start starts a server, or skips the test where PostgreSQL is not installed. Options are settings of the server,
// such as "max_connections=20".
func Start(t testing.TB, options ...string) *Cluster {
	t.Helper()
	bin := Find()
	if bin == "" {
		t.Skip("PostgreSQL is not installed")
	}
	c, err := New(bin, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// New creates and starts a cluster.
func New(bin string, options ...string) (*Cluster, error) {
	as, err := ordinary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sfpg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, bin: bin, as: as, options: options}
	err = as.give(dir)
	if err == nil {
		cmd := as.command(filepath.Join(bin, "initdb"), "-D", c.data(), "-U", "stepfall", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
		cmd.Dir = dir
		if out, fault := cmd.CombinedOutput(); fault != nil {
			err = fmt.Errorf("initdb: %w\n%s", fault, out)
		}
	}
	if err == nil {
		err = c.Up()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// AdvanceClock advances the server's clock by d from the next Up on. It reports whether that is possible, which needs
// libfaketime.
func (c *Cluster) AdvanceClock(d time.Duration) bool {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(found) == 0 {
		return false
	}
	// Timeouts run at normal speed.
	c.env = append(os.Environ(), "LD_PRELOAD="+found[0], fmt.Sprintf("FAKETIME=%+ds", int(d.Seconds())), "FAKETIME_DONT_FAKE_MONOTONIC=1")
	return true
}

// Up starts the server after Down.
func (c *Cluster) Up() error {
	args := []string{"-D", c.data(), "-k", c.dir, "-c", "listen_addresses=", "-c", "max_connections=200"}
	for _, o := range c.options {
		args = append(args, "-c", o)
	}
	// The shell stops the server when the lifeline is closed, which includes the death of the test.
	script := `"$0" "$@" </dev/null & pid=$!; read -r _; kill -INT $pid 2>/dev/null; wait $pid`
	cmd := c.as.command("sh", append([]string{"-c", script, filepath.Join(c.bin, "postgres")}, args...)...)
	cmd.Dir = c.dir
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, c.env
	if c.lifeline, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.server = cmd
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ready := c.as.command(filepath.Join(c.bin, "pg_isready"), "-q", "-h", c.dir, "-U", "stepfall", "-d", "postgres")
		ready.Dir = c.dir
		if ready.Run() == nil {
			return nil
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			return errors.Join(fmt.Errorf("the server does not come up:\n%s", text), c.Down(syscall.SIGQUIT))
		}
	}
}

// Down stops the server: with SIGINT as an operator does, with SIGQUIT as in a crash.
func (c *Cluster) Down(how syscall.Signal) error {
	if c.server == nil {
		return nil
	}
	if pid := c.pid(); pid > 0 && how != syscall.SIGINT {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Signal(how)
		}
	}
	c.lifeline.Close()
	_ = c.server.Wait() // the exit code of a stopped server
	c.server = nil
	return nil
}

func (c *Cluster) pid() int {
	text, err := os.ReadFile(filepath.Join(c.data(), "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

// Close stops the server and removes its data.
func (c *Cluster) Close() error {
	return errors.Join(c.Down(syscall.SIGINT), os.RemoveAll(c.dir))
}

// URL returns the address of a database.
func (c *Cluster) URL(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {c.dir}, "user": {"stepfall"}}.Encode()
}

// Database creates an empty database and returns its address.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("db%d", c.made.Add(1))
	cmd := c.as.command(filepath.Join(c.bin, "createdb"), "-h", c.dir, "-U", "stepfall", name)
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("createdb: %v\n%s", err, out)
	}
	return c.URL(name)
}

// Command returns a command that runs as the server's user, in its folder.
func (c *Cluster) Command(name string, args ...string) *exec.Cmd {
	cmd := c.as.command(name, args...)
	cmd.Dir = c.dir
	return cmd
}
