//go:build unix

package process

import (
	"io/fs"
	"os/exec"
	"syscall"
)

// ownGroup makes the process the leader of a group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills all of the group that the process pid leads. There is nothing
// to do about a failure: it means that nobody is left.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// names returns how many names a file has, 1 where nobody knows.
func names(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert,nolintlint // it is narrower on some systems
	}
	return 1
}
