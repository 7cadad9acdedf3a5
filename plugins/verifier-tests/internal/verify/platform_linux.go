package verify

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// changeTimes returns the modification time, the change time and the inode.
func changeTimes(info fs.FileInfo) [4]int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return [4]int64{info.ModTime().UnixNano()}
	}
	return [4]int64{info.ModTime().UnixNano(), stat.Ctim.Sec, stat.Ctim.Nsec, int64(stat.Ino)}
}

// lockFile creates the file and waits for an exclusive lock on it.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
