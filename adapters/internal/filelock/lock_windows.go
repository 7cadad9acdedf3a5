package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// Take takes the file's lock, or fails at once when another has it. The kernel gives
// it back when the file is closed or the process ends. What is locked is one byte far
// past the end: locks of this kind would keep others from reading.
func Take(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}

// NoFollow is nothing here: links are made by administrators only.
const NoFollow = 0
