//go:build !unix

package process

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: process groups are a thing of unix.
func ownGroup(*exec.Cmd) {}

// killGroup kills the process alone.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
