package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// Take takes the file's lock, or fails at once when another process holds it. The kernel releases it when the file is
// closed or the process ends. It locks one byte far beyond the end, since these locks would keep others from reading.
func Take(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}

// NoFollow has no effect here: only administrators can create links.
const NoFollow = 0
