package verify

import (
	"io/fs"
	"syscall"
)

// changeTimes returns the times of modification and of change, and the inode.
func changeTimes(info fs.FileInfo) [4]int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return [4]int64{info.ModTime().UnixNano()}
	}
	return [4]int64{info.ModTime().UnixNano(), stat.Ctim.Sec, stat.Ctim.Nsec, int64(stat.Ino)}
}
