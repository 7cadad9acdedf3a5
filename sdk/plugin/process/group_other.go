//go:build !unix

package process

import (
	"io/fs"
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

// names cannot know.
func names(fs.FileInfo) uint64 { return 1 }
