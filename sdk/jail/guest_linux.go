package jail

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ConfinedProgram is a program started by [Jail.Start]. Wait for its command as usual, then call Close.
type ConfinedProgram struct {
	// Layers are active; Missing are unavailable, with the reason.
	Layers  []string
	Missing map[string]string

	lifeline   *os.File
	group      *group
	namespaces bool
}

// Start starts the command with the isolation that c asks for, and returns when the program has
// started. The command's process is the jail's first process. It forwards signals, exits with the
// program's exit code (128 plus the signal that ended it), and then kills everything that the program
// started, whether or not it left the process group. It also exits when this process does.
//
// Files, standard streams, environment, directory and process group are those of the command. A
// command whose path is an open file (/proc/self/fd/N) is run from that file.
func (j *Jail) Start(ctx context.Context, command *exec.Cmd, c *Confinement) (*ConfinedProgram, error) {
	if command.Err != nil {
		return nil, command.Err
	}
	o := &order{
		Spec: Spec{
			Argv: command.Args, Env: command.Environ(),
			ReadOnly: append(SystemPaths(), c.ReadOnly...), Writable: c.Writable, Limits: c.Limits, Require: c.Require,
		},
		Guest:      &guest{Sandbox: c.Sandbox, Path: command.Path, Dir: command.Dir, Files: len(command.ExtraFiles)},
		Namespaces: j.namespaces, UserNamespace: j.namespaces && j.userNamespace, UID: -1, GID: -1,
	}
	for _, path := range o.ReadOnly {
		if !filepath.IsAbs(path) { // it would be mounted elsewhere: "." over the whole root
			return nil, fmt.Errorf("the path %s is not absolute", path)
		}
	}
	program, err := openProgram(command.Path)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", command.Path, err)
	}
	if o.Guest.FromFile = program != nil; o.Guest.FromFile {
		defer program.Close()
	} else {
		o.ReadOnly = append(o.ReadOnly, command.Path)
	}
	asked := *command
	defer func() {
		command.Path, command.Args, command.Env, command.Dir = asked.Path, asked.Args, asked.Env, asked.Dir
		command.ExtraFiles = asked.ExtraFiles
	}()
	command.Path, command.Args = j.self, []string{helperName, strconv.Itoa(3 + len(asked.ExtraFiles))}
	command.Env, command.Dir = []string{"GOMAXPROCS=2", "GOMEMLIMIT=64MiB", exitAtOnce}, ""
	command.SysProcAttr = cmp.Or(command.SysProcAttr, &syscall.SysProcAttr{})
	j.unshare(command.SysProcAttr, o)
	p, err := openPipes()
	if err != nil {
		return nil, err
	}
	defer p.close()
	command.ExtraFiles = append(slices.Clip(asked.ExtraFiles), p.childEnds()...)
	if program != nil {
		command.ExtraFiles = append(command.ExtraFiles, program)
	}
	group, noGroup, err := j.launch(command, o)
	if err != nil {
		return nil, err
	}
	confined := &ConfinedProgram{lifeline: p.orders, group: group, namespaces: j.namespaces}
	stop := context.AfterFunc(ctx, func() { confined.Kill(command.Process) })
	defer stop()
	r, err := p.exchange(o)
	if err := cmp.Or(ctx.Err(), r.refusal(err)); err != nil {
		confined.Kill(command.Process)
		_ = command.Wait()
		confined.Close()
		return nil, err
	}
	p.orders = nil // now the lifeline, not to be closed here
	confined.Layers, confined.Missing = j.layersOf(r, noGroup)
	return confined, nil
}

// openProgram returns a duplicate of the open file at a path below /proc/self/fd, nil for other paths.
func openProgram(path string) (*os.File, error) {
	number, isFile := strings.CutPrefix(path, "/proc/self/fd/")
	if !isFile && !filepath.IsAbs(path) {
		return nil, errors.New("the path is not absolute")
	}
	if !isFile {
		return nil, nil
	}
	fd, err := strconv.Atoi(number)
	if err == nil {
		fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// refusal returns the reason why a guest does not run; said is the error of reading its report.
func (r *report) refusal(said error) error {
	switch {
	case said != nil:
		return fmt.Errorf("no report from the jail: %w", said)
	case r.Error != "":
		return errors.New(r.Error)
	case len(r.Lacks) > 0:
		return fmt.Errorf("%w: %s", ErrLacks, strings.Join(r.Lacks, ", "))
	}
	return nil
}

// killGrace is the time that the first process has for killing its descendants.
const killGrace = 300 * time.Millisecond

// Kill kills the program and everything that it started. It does not wait.
func (c *ConfinedProgram) Kill(process *os.Process) {
	c.group.kill()
	c.lifeline.Close()
	if c.namespaces {
		_ = process.Kill() // and so the kernel kills the namespace
		return
	}
	time.AfterFunc(killGrace, func() { _ = process.Kill() })
}

// Close releases the confinement's resources and kills the program if it is still running.
func (c *ConfinedProgram) Close() {
	c.lifeline.Close()
	c.group.end()
}

// guest is a long-lived program that keeps the open files and streams of its command.
type guest struct {
	Sandbox bool
	Path    string
	Dir     string
	// Files is the number of the program's descriptors, from 3 on.
	Files int
	// FromFile means that the program is an open file, the last descriptor.
	FromFile bool
	// program is that descriptor, or 0.
	program int
}

func (g *guest) isFile() bool { return g != nil && g.FromFile }

// programDescriptor is above the descriptors that are passed on.
const programDescriptor = 100

// runGuest is the first process of a guest: it starts the guest, reports, and waits until it ends.
func runGuest(o *order, r *report, reports io.WriteCloser) (code int, err error) {
	g := o.Guest
	if g.FromFile {
		if g.program, err = unix.FcntlInt(uintptr(3+g.Files+2), unix.F_DUPFD_CLOEXEC, programDescriptor); err != nil {
			return 0, err
		}
		unix.Close(3 + g.Files + 2)
	}
	if _, err := buildWalls(o, r); err != nil {
		return 0, err
	}
	command := &exec.Cmd{Path: g.Path, Args: o.Argv, Dir: g.Dir, Env: o.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if g.FromFile {
		command.Path = "/proc/self/fd/" + strconv.Itoa(g.program)
	}
	for fd := 3; fd < 3+g.Files; fd++ {
		command.ExtraFiles = append(command.ExtraFiles, os.NewFile(uintptr(fd), "passed on"))
	}
	handOver := func() error { return nil }
	if o.Namespaces {
		if err := restrict(o, r); err != nil || recordLacks(o, r) {
			return 0, err
		}
	} else if handOver, err = startThroughInner(command, o, r); err != nil {
		return 0, err
	}
	// From here on, so that signals are handled before the parent learns that the guest has started.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("starting %s: %w", o.Argv[0], err)
	}
	if err := handOver(); err != nil || len(r.Lacks) > 0 {
		return 0, err
	}
	for _, file := range append(command.ExtraFiles, os.Stdin, os.Stdout) {
		file.Close()
	}
	if err := json.NewEncoder(reports).Encode(r); err != nil {
		return 0, err
	}
	reports.Close()
	return waitForGuest(o, command.Process.Pid, signals), nil
}

// waitForGuest forwards signals until the guest has ended, and returns its exit code.
func waitForGuest(o *order, pid int, signals <-chan os.Signal) int {
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(pid, number)
			}
		}
	}()
	var end atomic.Value
	stop := make(chan struct{})
	go watch(o, guestWatchEvery, &end, stop)
	status := reap(pid)
	close(stop)
	killAll(o.Namespaces)
	if reason, ok := end.Load().(End); ok {
		fmt.Fprintln(os.Stderr, StoppedBy, reason)
	}
	return exitCode(status)
}

// guestWatchEvery is the interval of the watchdog for programs that can run for days.
const guestWatchEvery = 250 * time.Millisecond
