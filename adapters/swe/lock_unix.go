//go:build unix

package swe

import (
	"os"
	"syscall"
)

// lockFile takes the file's lock, or fails at once when another has it. The kernel
// gives it back when the file is closed or the process ends.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// noFollow has a file opened only when it is no symbolic link.
const noFollow = syscall.O_NOFOLLOW
