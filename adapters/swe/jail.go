package swe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Jail runs commands that models ask for. The zero value runs them in a process
// group of their own, with a clean environment and bounded output; [NewJail] adds
// the isolation that the machine has.
type Jail struct {
	// Helper is a program that calls [JailMain] first; it restricts the files that
	// the command can reach. Empty means no restriction.
	Helper string
	// Layers and Missing say what holds the commands and what could not be had.
	Layers  []string
	Missing map[string]string

	namespaces bool
}

// Ran is what a command did.
type Ran struct {
	Code     int
	Output   string
	TimedOut bool
}

// maxOutput is the largest output of a command that is kept.
const maxOutput = 1 << 20

// keep are the variables that commands get; everything else, keys above all, stays
// out of their reach.
var keep = []string{"PATH", "LANG", "GOROOT", "GOTOOLCHAIN", "PYENV_ROOT", "NODE_PATH", "VIRTUAL_ENV", "CC"}

// Run runs a command in dir. The error is only for what the command could not help.
func (j *Jail) Run(ctx context.Context, dir string, timeout time.Duration, args ...string) (*Ran, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	temp, err := os.MkdirTemp("", "stepfall-swe-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	cmd := j.command(ctx, dir, temp, args)
	output := &capped{limit: maxOutput}
	cmd.Stdout, cmd.Stderr = output, output
	// Whatever holds the pipes after the group was killed is not waited for.
	cmd.WaitDelay = time.Second
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Start()
	if err != nil {
		return &Ran{Code: 127, Output: err.Error()}, nil
	}
	pid := cmd.Process.Pid
	err = cmd.Wait()
	// A command that ended may have left others of its group behind.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	result := &Ran{Output: output.String(), TimedOut: errors.Is(ctx.Err(), context.DeadlineExceeded)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		result.Code = exit.ExitCode()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil:
		return nil, err
	}
	return result, nil
}

func (j *Jail) environment(dir, temp string) []string {
	env := []string{
		"HOME=" + temp, "TMPDIR=" + temp, "GOWORK=off", "GOFLAGS=-trimpath", "GOPROXY=off", "GOTELEMETRY=off",
		"PYTHONDONTWRITEBYTECODE=1", "NO_COLOR=1", "PWD=" + dir,
	}
	for _, name := range keep {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, folder := range caches() {
		env = append(env, name+"="+folder)
	}
	return env
}

// caches are the folders of the Go command that make a run fast. The build cache
// is one of the agent's own: what models run must not reach the cache that the
// verifier or the user builds from.
var caches = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	if home, err := os.UserHomeDir(); err == nil {
		modules := os.Getenv("GOMODCACHE")
		if modules == "" {
			modules = filepath.Join(home, "go", "pkg", "mod")
		}
		if info, err := os.Stat(modules); err == nil && info.IsDir() {
			found["GOMODCACHE"] = modules
		}
	}
	if base, err := os.UserCacheDir(); err == nil {
		own := filepath.Join(base, "stepfall", "agent-go-build")
		if os.MkdirAll(own, 0o755) == nil {
			found["GOCACHE"] = own
		}
	}
	return found
})

// capped keeps the first half and the last half of what is written to it.
type capped struct {
	limit      int
	head, tail []byte
	lost       int
}

// Write never fails.
func (c *capped) Write(p []byte) (int, error) {
	n := len(p)
	if room := c.limit/2 - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	c.tail = append(c.tail, p...)
	if over := len(c.tail) - c.limit/2; over > c.limit/2 {
		c.lost += over
		c.tail = bytes.Clone(c.tail[over:])
	}
	return n, nil
}

func (c *capped) String() string {
	text := string(c.head)
	if c.lost > 0 {
		text += "\n... output left out ...\n"
	}
	return strings.ToValidUTF8(text+string(c.tail), "?")
}
