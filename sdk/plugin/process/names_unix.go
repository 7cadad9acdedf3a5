//go:build unix

package process

import (
	"io/fs"
	"syscall"
)

// linkCount returns how many names a file has, 1 if unknown.
func linkCount(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert,nolintlint // it is narrower on some systems
	}
	return 1
}
