package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const tempPrefix = "stepfall-jail-"

// newTemp creates a directory for one run, which release removes. It is locked during the run, which
// distinguishes it from directories that killed programs left behind.
func newTemp(parent string) (dir string, release func(), err error) {
	dir, err = os.MkdirTemp(parent, tempPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), os.RemoveAll(dir))
	}
	return dir, func() {
		os.RemoveAll(dir)
		lock.Close()
	}, nil
}

func removeStale(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		lock.Close()
	}
}
