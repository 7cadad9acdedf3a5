//go:build !unix

package processes

import (
	"os"
	"os/exec"
)

// OwnGroup does nothing: process groups are a thing of unix.
func OwnGroup(*exec.Cmd) {}

// KillGroup does nothing: the process itself is killed by who has it.
func KillGroup(int) {}

// Exists reports whether a process could be found.
func Exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}
