//go:build unix

package process

import (
	"io/fs"
	"syscall"
)

// linkCount returns the number of hard links of a file, or 1 if it is unknown.
func linkCount(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert,nolintlint // it is narrower on some systems
	}
	return 1
}
