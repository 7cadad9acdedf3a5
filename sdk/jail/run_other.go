//go:build !linux

package jail

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/stepfall/stepfall/sdk/internal/processes"
)

// Main does nothing: there is no first process on this platform.
func Main() {}

// Jail runs commands. Isolation needs Linux: elsewhere a Jail only limits time and output, and only
// runs in place.
type Jail struct{}

// errNotLinux is the error of a run that needs a copy-on-write view of the tree.
var errNotLinux = errors.New("a jail with a view of the tree needs Linux")

// Open returns a jail without layers.
func Open(context.Context, Options) (*Jail, error) { return &Jail{}, nil }

// Layers returns no layers.
func (*Jail) Layers() ([]string, map[string]string) {
	missing := map[string]string{}
	for _, layer := range layers {
		missing[layer] = "only on Linux"
	}
	return nil, missing
}

// Run runs a command in place. Any other run is an error.
func (j *Jail) Run(ctx context.Context, spec *Spec) (*Result, error) {
	if !spec.InPlace || len(spec.Changes) > 0 || len(spec.Reports) > 0 {
		return nil, errNotLinux
	}
	limits, begin := spec.Limits.WithDefaults(), time.Now()
	timed, cancel := context.WithTimeout(ctx, limits.Wall)
	defer cancel()
	timed, stop := context.WithCancelCause(timed)
	defer stop(nil)
	tooMuch := func() { stop(errTooMuchOutput) }
	stdout := &Output{Limit: limits.Output, Full: tooMuch}
	stderr := &Output{Limit: limits.Output, Full: tooMuch}
	command := exec.CommandContext(timed, spec.Argv[0], spec.Argv[1:]...)
	command.Dir, command.Env, command.Stdout, command.Stderr = spec.Dir, spec.Env, stdout, stderr
	if spec.CombineOutput {
		command.Stderr = stdout
	}
	command.WaitDelay = time.Second
	processes.OwnGroup(command)
	end := func() error {
		if command.Process == nil {
			return nil
		}
		processes.KillGroup(command.Process.Pid)
		return command.Process.Kill()
	}
	command.Cancel = end
	err := command.Run()
	_ = end() // kill what the command left behind
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	result := &Result{
		End: EndExit, Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Truncated: stdout.Truncated() || stderr.Truncated(),
		Duration: time.Since(begin), Command: time.Since(begin),
	}
	_, result.Missing = j.Layers()
	var exit *exec.ExitError
	switch {
	case errors.Is(context.Cause(timed), errTooMuchOutput):
		result.End, result.ExitCode = EndOutput, -1
	case timed.Err() != nil:
		result.End, result.ExitCode = EndTimeout, -1
	case errors.As(err, &exit):
		result.ExitCode = exit.ExitCode()
	case errors.Is(err, exec.ErrNotFound):
		result.ExitCode = 127
	case err != nil:
		return nil, err
	}
	return result, nil
}
