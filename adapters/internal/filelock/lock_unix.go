//go:build unix

package filelock

import (
	"os"
	"syscall"
)

// Take takes the file's lock, or fails at once when another process holds it. The kernel releases it when the file is
// closed or the process ends.
func Take(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// NoFollow makes opening a symbolic link fail.
const NoFollow = syscall.O_NOFOLLOW
