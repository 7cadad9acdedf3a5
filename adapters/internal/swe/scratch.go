package swe

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stepfall/stepfall/adapters/internal/filelock"
)

// Scratch is a folder for the work trees of a run without a state folder. A killed run leaves its folder behind; the
// next run removes it.
type Scratch struct {
	Dir  string
	lock *os.File
}

const (
	scratchPrefix = "stepfall-swe-"
	lockName      = "lock"
)

// NewScratch makes a folder under base, where "" means [os.TempDir], and removes the folders of runs that were
// killed. The caller closes it.
func NewScratch(base string) (*Scratch, error) {
	base = cmp.Or(base, os.TempDir())
	left, err := filepath.Glob(filepath.Join(base, scratchPrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range left {
		removeAbandoned(dir)
	}
	dir, err := os.MkdirTemp(base, scratchPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("making a folder for work trees: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a folder for work trees: %w", err), os.RemoveAll(dir))
	}
	return &Scratch{Dir: dir, lock: lock}, nil
}

// removeAbandoned removes a folder whose lock nobody holds. A folder without a lock file is still being made; one of
// another user cannot be opened.
func removeAbandoned(dir string) {
	path := filepath.Join(dir, lockName)
	if _, err := os.Lstat(path); err != nil {
		return
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return
	}
	defer lock.Close()
	// On failure the next run tries again.
	_ = removeAll(dir)
}

// lockFolder takes the folder's lock, which the kernel releases when the process ends.
func lockFolder(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|filelock.NoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Take(lock); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// Close removes the folder.
func (s *Scratch) Close() error { return errors.Join(removeAll(s.Dir), s.lock.Close()) }
