//go:build unix

package host

import (
	"io/fs"
	"syscall"
)

// fileID returns what tells a file from any other.
func fileID(info fs.FileInfo) any {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return [2]uint64{uint64(s.Dev), s.Ino}
	}
	return nil
}

// alive reports whether there is a process pid.
func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
