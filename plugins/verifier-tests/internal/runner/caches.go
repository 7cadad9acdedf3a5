package runner

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxTargets bounds the trees whose build cache is kept.
const maxTargets = 8

// keepOf returns the folder name below dir, which it makes, and removes those that
// were not used for longest.
func keepOf(dir, name string) (string, error) {
	keep, now := filepath.Join(dir, name), time.Now()
	// The files in it may be written to by another uid, and by nobody else.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return "", err
	}
	if err := os.Chtimes(keep, now, now); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= maxTargets {
		return keep, err
	}
	used := map[string]time.Time{}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			used[entry.Name()] = info.ModTime()
		}
	}
	names := slices.SortedFunc(maps.Keys(used), func(a, b string) int { return used[b].Compare(used[a]) })
	for _, old := range names[min(maxTargets, len(names)):] {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return "", err
		}
	}
	return keep, nil
}

// maxUnused is how long a file of Go's build cache is kept after it was written;
// Go itself keeps its own as long. sweepEvery is how often that is looked at.
const (
	maxUnused  = 5 * 24 * time.Hour
	sweepEvery = 24 * time.Hour
)

// sweep removes what was written long ago from a build cache, now and then.
func sweep(dir string) error {
	stamp, now := dir+".swept", time.Now()
	if info, err := os.Stat(stamp); err == nil && now.Sub(info.ModTime()) < sweepEvery {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(stamp), 0o700); err != nil {
		return err
	}
	// Written first: of two processes, the second has nothing to do.
	if err := os.WriteFile(stamp, nil, 0o600); err != nil {
		return err
	}
	if err := os.RemoveAll(dir + ".links"); err != nil { // to what is there no more
		return err
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if info, err := entry.Info(); err != nil || now.Sub(info.ModTime()) < maxUnused {
			return nil // another process may have removed it
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
