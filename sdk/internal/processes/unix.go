//go:build unix

// Package processes starts and ends groups of processes, where the system has them.
package processes

import (
	"errors"
	"os/exec"
	"syscall"
)

// OwnGroup makes the command the leader of a group of its own.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills all of the group that the process pid leads. A failure means that nobody
// is left.
func KillGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// Exists reports whether there is a process pid.
func Exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
