//go:build unix

package filelock

import (
	"os"
	"syscall"
)

// Take takes the file's lock, or fails at once when another has it. The kernel gives
// it back when the file is closed or the process ends.
func Take(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// NoFollow has a file opened only when it is no symbolic link.
const NoFollow = syscall.O_NOFOLLOW
