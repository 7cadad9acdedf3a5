package container

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
)

// maxOpenFiles and maxTasks are limits that engines can set even when they are sandboxed themselves.
const (
	maxOpenFiles = 1024
	maxTasks     = 512
)

// wrapper runs the command as a child of the container's first process, which kills everything when its
// standard input closes: when this process exits.
const wrapper = `exec 3<&0; n=$1; shift; while [ "$n" -gt 0 ]; do rm -rf -- "$1"; shift; n=$((n-1)); done
(cat <&3 >/dev/null; kill -9 -1) & "$@" 3<&- </dev/null; exit $?`

// Run runs a command to its end. An error means that it could not be run at all, or that ctx ended;
// everything else is in the result. Caches are ignored; of Spec.ReadOnly only regular files are copied
// in, since toolchains are the image's. With InPlace the tree is mounted and writes to it persist.
func (e *Engine) Run(ctx context.Context, spec *jail.Spec) (result *jail.Result, err error) {
	start := time.Now()
	if lacks := jail.Lacks(spec.Require, e.layers); len(lacks) > 0 {
		return &jail.Result{End: jail.EndRefused, ExitCode: -1, Lacks: lacks, Layers: e.layers, Missing: e.missing}, nil
	}
	if err := e.Pull(); err != nil {
		return nil, err
	}
	o := e.order(spec)
	name := newName()
	defer func() {
		if left := e.remove(context.WithoutCancel(ctx), name); left != nil {
			result, err = nil, errors.Join(err, left)
		}
	}()
	if _, err := e.do(ctx, o.create(e, name)...); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	tree, err := o.pack()
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", spec.Dir, err)
	}
	defer tree.file.Close()
	copyIn := e.command(ctx, "cp", "-", name+":/")
	copyIn.Stdin = tree.file
	if out, err := copyIn.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copying the tree in: %w: %s", cmp.Or(ctx.Err(), err), bytes.TrimSpace(out))
	}
	if result, err = e.runAttached(ctx, name, o); err != nil {
		return nil, err
	}
	if err := e.collect(ctx, name, o, tree, result); err != nil {
		return nil, err
	}
	result.Duration = time.Since(start)
	result.Layers, result.Missing = e.layers, maps.Clone(e.missing)
	return result, nil
}

// order is a specification as seen in the container.
type order struct {
	jail.Spec
	// at is the path of the tree in the container.
	at string
}

func (e *Engine) order(spec *jail.Spec) *order {
	o := &order{*spec, cmp.Or(e.options.Dir, filepath.ToSlash(spec.Dir), "/work")}
	o.Limits = spec.Limits.WithDefaults()
	if spec.Limits.Processes <= 0 {
		o.Limits.Processes = maxTasks
	}
	o.Argv = slices.Clone(spec.Argv)
	for i, argument := range spec.Argv {
		if spec.Dir != "" && (argument == spec.Dir || strings.HasPrefix(argument, spec.Dir+string(filepath.Separator))) {
			o.Argv[i] = o.at + filepath.ToSlash(strings.TrimPrefix(argument, spec.Dir))
		}
	}
	return o
}

func (o *order) create(e *Engine, name string) []string {
	memory := strconv.FormatInt(o.Limits.Memory, 10)
	arguments := []string{
		"create", "--name", name, "--label", label + "=" + owner(), "--interactive", "--pull", "never",
		"--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--memory", memory, "--memory-swap", memory, "--pids-limit", strconv.Itoa(o.Limits.Processes + 4), // the wrapper's
		"--ulimit", fmt.Sprintf("nofile=%d:%d", maxOpenFiles, maxOpenFiles), "--ulimit", fmt.Sprintf("nproc=%d:%d", maxTasks, maxTasks),
		"--ulimit", fmt.Sprintf("fsize=%d:%d", o.Limits.Disk, o.Limits.Disk), "--ulimit", "core=0:0",
		"--workdir", o.at, "--entrypoint", "/bin/sh",
	}
	if len(e.runtime) > 0 && e.isDocker() {
		arguments = append(arguments, e.runtime...)
	}
	if o.InPlace {
		arguments = append(arguments, "--volume", o.Dir+":"+o.at)
	}
	tools := jail.ToolEnv()
	for _, variable := range o.Env {
		// The image has its own toolchains.
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains([]string{"PATH", "HOME", "PWD", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT", "VIRTUAL_ENV", "JAVA_HOME", "GRADLE_RO_DEP_CACHE"}, name) &&
			(name != "MAVEN_OPTS" || !slices.Contains(tools, variable)) {
			arguments = append(arguments, "--env", variable)
		}
	}
	var removed []string
	for _, change := range o.Changes {
		if change.Delete {
			removed = append(removed, path.Join(o.at, change.Path))
		}
	}
	arguments = append(arguments, e.options.Image, "-c", wrapper, "sh", strconv.Itoa(len(removed)))
	return slices.Concat(arguments, removed, o.Argv)
}

var errTooMuch = errors.New("too much output")

// outputFactor times the output limit is what a command can write before it is stopped.
const outputFactor = 4

// runAttached starts the container and waits until its command has ended or was stopped.
func (e *Engine) runAttached(ctx context.Context, name string, o *order) (*jail.Result, error) {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timed, cancel := context.WithTimeoutCause(inner, o.Limits.Wall, context.DeadlineExceeded)
	defer cancel()
	stdout := &jail.Output{Limit: o.Limits.Output, Most: outputFactor * o.Limits.Output, Full: func() { stop(errTooMuch) }}
	stderr := &jail.Output{Limit: o.Limits.Output, Most: outputFactor * o.Limits.Output, Full: func() { stop(errTooMuch) }}
	// The engine's monitor creates files in its working directory: not in somebody's repository.
	dir, err := os.MkdirTemp("", "stepfall-container-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := e.command(context.WithoutCancel(ctx), "start", "--attach", "--interactive", name)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, stdout, stderr
	if o.CombineOutput {
		cmd.Stderr = stdout
	}
	// Closing it ends the container.
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	defer lifeline.Close()
	begin := time.Now()
	ran := e.start(timed, cmd, name, lifeline)
	result := &jail.Result{
		End: jail.EndExit, ExitCode: -1, Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Truncated: stdout.Truncated() || stderr.Truncated(), Command: time.Since(begin),
	}
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(context.Cause(inner), errTooMuch):
		result.End = jail.EndOutput
	case timed.Err() != nil:
		result.End = jail.EndTimeout
	default:
		return result, e.state(ending, name, ran, result)
	}
	return result, nil
}

// startGrace is the time that the engine has for starting a container that is to be stopped.
const startGrace = time.Minute

// start runs the engine's start command until the container has ended. When ctx ends, the container is
// killed, so that files do not change while they are copied out. The start command itself is not killed:
// the engine might not have recorded the container yet, and would then never remove it.
func (e *Engine) start(ctx context.Context, cmd *exec.Cmd, name string, lifeline io.Closer) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	_ = lifeline.Close()
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), startGrace)
	defer done()
	for {
		_, _ = e.do(ending, "kill", name) // fails while the container is not running
		select {
		case err := <-ended:
			return err
		case <-ending.Done():
			return errors.Join(ending.Err(), cmd.Process.Kill(), <-ended)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// remove removes the container in any state, retrying until it succeeds or a timeout passes.
func (e *Engine) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		_, err := e.do(ctx, "rm", "--force", "--volumes", name)
		if err == nil || strings.Contains(strings.ToLower(err.Error()), "no such container") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("removing the container: %w", err)
		case <-time.After(time.Second):
		}
	}
}

func (e *Engine) state(ctx context.Context, name string, ran error, result *jail.Result) error {
	said, err := e.do(ctx, "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}", name)
	if err != nil {
		return errors.Join(ran, err)
	}
	var status string
	var oom bool
	if _, err := fmt.Sscan(said, &status, &result.ExitCode, &oom); err != nil {
		return fmt.Errorf("reading the state %q: %w", said, err)
	}
	switch {
	case slices.Contains([]string{"created", "configured", "initialized"}, status):
		return fmt.Errorf("the container did not start: %w: %s", ran, result.Stderr)
	case oom:
		result.End = jail.EndMemory
	case result.ExitCode == 137 && ran == nil:
		result.End = jail.EndLost
	}
	return nil
}
