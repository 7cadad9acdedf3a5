//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the process the leader of a group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills all of the group that the process pid leads. There is nothing
// to do about a failure: it means that nobody is left.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
