//go:build unix

// Package processes starts and kills process groups, on platforms that have them.
package processes

import (
	"errors"
	"os/exec"
	"syscall"
)

// OwnGroup makes the command the leader of its own process group.
func OwnGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills the process group that pid leads. It ignores errors: no process may be left.
func KillGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// Exists reports whether a process exists.
func Exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
