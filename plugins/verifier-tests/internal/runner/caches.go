package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxTargets is the number of trees whose build caches are kept.
const maxTargets = 8

// cacheDir returns the folder name below dir, creating it, and removes the least recently used ones beyond
// maxTargets.
func cacheDir(dir, name string) (string, error) {
	keep, now := filepath.Join(dir, name), time.Now()
	// Another uid must be able to write to the files in it, and no other user can reach them.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return "", err
	}
	if err := os.Chtimes(keep, now, now); err != nil {
		return "", err
	}
	used, err := Newest(dir)
	if err != nil {
		return "", err
	}
	for _, old := range used[min(maxTargets, len(used)):] {
		if err := os.RemoveAll(filepath.Join(dir, old.Name())); err != nil {
			return "", err
		}
	}
	return keep, nil
}

// Newest returns the entries of a folder, most recently changed first.
func Newest(dir string) (found []fs.FileInfo, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	return found, err
}

// maxUnused is the age at which files in a copy of Go's build cache are removed; Go's own limit is the same.
// sweepEvery is the interval of that.
const (
	maxUnused  = 5 * 24 * time.Hour
	sweepEvery = 24 * time.Hour
)

// sweep removes files older than maxUnused from a build cache, at most once per sweepEvery.
func sweep(dir string) error {
	stamp := dir + ".swept"
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()) < sweepEvery {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(stamp), 0o700); err != nil {
		return err
	}
	// Written first, so that a second process has nothing to do.
	if err := os.WriteFile(stamp, nil, 0o600); err != nil {
		return err
	}
	if err := os.RemoveAll(dir + ".links"); err != nil { // the links point to removed files
		return err
	}
	return filepath.WalkDir(dir, removeUnused)
}

func removeUnused(path string, entry fs.DirEntry, err error) error {
	var info fs.FileInfo
	if err == nil && entry.Type().IsRegular() {
		info, err = entry.Info()
	}
	if info != nil && time.Since(info.ModTime()) >= maxUnused {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the cache does not exist yet, or another process has removed the file
	}
	return err
}
