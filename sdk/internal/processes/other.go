//go:build !unix

package processes

import (
	"os"
	"os/exec"
)

// OwnGroup does nothing: there are no process groups on this platform.
func OwnGroup(*exec.Cmd) {}

// KillGroup does nothing: the caller must kill the process itself.
func KillGroup(int) {}

// Exists reports whether a process exists.
func Exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}
