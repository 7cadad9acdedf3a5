package jail

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func run(o *order, r *report, dir string) error {
	command := &exec.Cmd{Args: o.Argv, Dir: dir, Env: o.Env, Stdout: os.Stdout, Stderr: os.Stderr}
	home, temp := "/tmp/home", "/tmp"
	if !o.Namespaces {
		home, temp = filepath.Join(o.Temp, "home"), filepath.Join(o.Temp, "tmp")
		for _, path := range []string{home, temp} {
			if err := os.Mkdir(path, 0o755); err != nil {
				return err
			}
		}
	}
	command.Env = append(command.Env, "HOME="+home, "TMPDIR="+temp)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if o.UID >= 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}
	}
	handOver := func() error { return nil }
	if o.Probe {
		command.Path, command.Args = o.Argv[0], []string{probeName}
	} else {
		path, err := lookPath(o.Argv[0], dir, command.Env)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			r.End, r.ExitCode = EndExit, notFound
			return nil
		}
		command.Path = path
	}
	if !o.Namespaces {
		var err error
		if handOver, err = startThroughInner(command, o, r); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", command.Args[0], err)
	}
	var end atomic.Value
	stop := make(chan struct{})
	go watch(o, watchEvery, &end, stop)
	go watchTrees(o, &end, stop)
	refused := handOver()
	status := reap(command.Process.Pid)
	close(stop)
	r.Command = time.Since(start)
	r.LeftOver = killAll(o.Namespaces)
	if refused != nil || len(r.Lacks) > 0 {
		return refused
	}
	r.End, r.ExitCode = EndExit, exitCode(status)
	if reason, ok := end.Load().(End); ok {
		r.End = reason
	}
	return nil
}

// notFound is the exit code of shells for commands that do not exist.
const notFound = 127

func lookPath(name, dir string, env []string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.Contains(name, "/") {
		return filepath.Join(dir, name), nil
	}
	for _, entry := range env {
		list, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(list) {
			path := filepath.Join(folder, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("command %s: %w in the PATH of the jail", name, exec.ErrNotFound)
}

// exitCode returns the exit code as a shell does: 128 plus the signal that ended the process.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// reap waits for child processes, orphans included, until pid has exited.
func reap(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if ended == pid || err != nil {
			return status
		}
	}
}
