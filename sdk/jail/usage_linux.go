package jail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

type usage struct {
	Bytes int64
	Files int
}

func (u usage) exceeds(before usage, l *Limits) bool {
	return u.Bytes-before.Bytes > l.Disk || u.Files-before.Files > l.Files
}

// hiddenBytes is the usage of a tree that is too deep to be walked.
const hiddenBytes = 1 << 60

// measureTrees adds up the usage below dirs, until enough returns true. Unreadable entries count as
// nothing, and a tree deeper than the longest path as hiddenBytes.
func measureTrees(dirs []string, enough func(usage) bool) usage {
	var sum usage
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
			if errors.Is(err, unix.ENAMETOOLONG) {
				sum.Bytes = hiddenBytes
				return fs.SkipAll
			}
			if err != nil {
				return nil
			}
			sum.Files++
			if info, err := entry.Info(); err == nil {
				if stat, ok := info.Sys().(*syscall.Stat_t); ok {
					const block = 512
					sum.Bytes += stat.Blocks * block
				}
			}
			if enough(sum) {
				return fs.SkipAll
			}
			return nil
		})
	}
	return sum
}

// unlinkedBytes adds up the processes' open files that have no name: no folder shows their space.
func unlinkedBytes(pids []int) int64 {
	type file struct{ device, inode uint64 }
	seen := map[file]bool{}
	sum := int64(0)
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			var stat unix.Stat_t
			err := unix.Stat(filepath.Join(dir, entry.Name()), &stat)
			if err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink != 0 || seen[file{stat.Dev, stat.Ino}] {
				continue
			}
			seen[file{stat.Dev, stat.Ino}] = true
			const block = 512
			sum += stat.Blocks * block
		}
	}
	return sum
}

// writtenFolders returns the folders on disk that a run can write to. On tmpfs the kernel enforces the limits.
func (o *order) writtenFolders() []string {
	switch {
	case o.Guest != nil:
		return nil
	case !o.Namespaces && o.InPlace:
		return append([]string{o.Temp, o.Dir}, o.Writable...)
	case !o.Namespaces:
		return append([]string{o.Temp}, o.Writable...)
	case o.InPlace && o.Dir != "":
		return append([]string{o.Dir}, o.Writable...)
	}
	return o.Writable
}

// watchTrees ends the run when it has written more to disk than is allowed. It pauses between
// measurements for long enough to use little processor time.
func watchTrees(o *order, end *atomic.Value, stop <-chan struct{}) {
	dirs := o.writtenFolders()
	if len(dirs) == 0 {
		return
	}
	const shortest, part = 200 * time.Millisecond, 10
	rest := shortest
	over := func(now usage) bool { return now.exceeds(o.Before, &o.Limits) }
	for {
		select {
		case <-stop:
			return
		case <-time.After(rest):
		}
		begun := time.Now()
		used := measureTrees(dirs, over)
		used.Bytes += unlinkedBytes(members(o.Namespaces))
		if over(used) {
			end.CompareAndSwap(nil, EndDisk)
			killAll(o.Namespaces)
			return
		}
		rest = max(shortest, part*time.Since(begun))
	}
}
