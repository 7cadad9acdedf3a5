package jail

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/stepfall/stepfall/sdk/regular"
)

func fillCaches(o *order) error {
	for i, cache := range o.Caches {
		path := cache.Path
		if !o.Namespaces {
			path = o.cacheFolder(i)
			o.replaceValue(cache.Path, path)
		}
		err := os.MkdirAll(path, 0o755)
		if err == nil && !o.Namespaces {
			err = fillCache(o, cache, path)
		}
		if err == nil {
			err = o.writeFiles(path, cache.Files)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cacheFolder returns the directory of the ith cache if there is no mount namespace.
func (o *order) cacheFolder(i int) string { return filepath.Join(o.Temp, fmt.Sprintf("cache%d", i)) }

// replaceValue sets every variable with the value old to value.
func (o *order) replaceValue(old, value string) {
	for i, entry := range o.Env {
		if name, own, ok := strings.Cut(entry, "="); ok && own == old {
			o.Env[i] = name + "=" + value
		}
	}
}

func (o *order) writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		file := filepath.Join(dir, name)
		// An existing file may be a link to a shared one, so it is replaced, not written to.
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
		if err := os.Chown(file, o.UID, o.GID); err != nil {
			return err
		}
	}
	return nil
}

// Limits of how much of a cache is copied or linked into each run without a mount namespace. A large
// build cache is expensive to copy for every run, while runs of trusted code leave a small one; a link
// takes microseconds.
const (
	maxKeptCopy  = 1 << 30  // bytes copied from what earlier runs kept
	maxCacheCopy = 64 << 20 // bytes copied from anywhere else
	maxKeptLinks = 50_000   // links to what earlier runs kept, most of which are in the pool
	maxLinks     = 5_000    // links to anything else
)

// fillCache fills a cache if there is no mount namespace, from the first lower directory that exists,
// unless that is so large that an empty cache is faster. The first of several is what earlier runs kept.
func fillCache(o *order, cache Cache, to string) error {
	i := slices.IndexFunc(cache.Lower, exists)
	if i < 0 {
		return nil
	}
	dir := cache.Lower[i]
	most, links, pool := int64(maxCacheCopy), maxLinks, ""
	if i == 0 && len(cache.Lower) > 1 {
		most, links, pool = maxKeptCopy, maxKeptLinks, dir+linkPool
	}
	large := func(u usage) bool { return u.Bytes > most }
	fill := func() error { return copyTree(dir, to, -1, -1) }
	if !cache.Deep && canLink(dir, to) {
		large = func(u usage) bool { return u.Files > links }
		fill = func() error { return o.linkTree(dir, to, pool) }
	}
	if large(measureTrees([]string{dir}, large)) {
		return nil
	}
	if err := fill(); err != nil {
		return fmt.Errorf("filling the cache from %s: %w", dir, err)
	}
	return nil
}

// linkPool is the suffix of a directory of symbolic links to a kept cache. Runs get hard links to these,
// which are faster to make.
const linkPool = ".links"

// link makes a link to a file. Landlock gives the command only read access through it.
func link(from, to, pooled string) error {
	if pooled == "" {
		return os.Symlink(from, to)
	}
	err := os.Link(pooled, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(pooled), 0o700); err == nil {
			err = os.Symlink(from, pooled)
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Link(pooled, to)
		}
	}
	if err != nil {
		return os.Symlink(from, to) // the pool is on another file system or not writable
	}
	return nil
}

func canLink(from, to string) bool {
	if _, err := ll.LandlockGetABIVersion(); err != nil {
		return false
	}
	ok, name := false, filepath.Join(to, "try")
	_ = filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		ok = link(path, name, "") == nil && os.Remove(name) == nil
		return fs.SkipAll
	})
	return ok
}

// linkTree creates the first-level folders of from in to, and links to all other entries. It does not
// count the links as written by the run.
func (o *order) linkTree(from, to, pool string) error {
	from = filepath.Clean(from) + "/"
	return filepath.WalkDir(from+".", func(path string, entry fs.DirEntry, err error) error { // from itself may be a link
		name, isBelow := strings.CutPrefix(path, from)
		if err != nil || !isBelow || name == "." {
			return err
		}
		own := filepath.Join(to, name)
		if entry.IsDir() && !strings.Contains(name, "/") {
			return os.Mkdir(own, 0o755)
		}
		o.Before.Files++
		pooled := ""
		if pool != "" {
			pooled = filepath.Join(pool, name)
		}
		if err := link(path, own, pooled); err != nil || !entry.IsDir() {
			return err
		}
		return fs.SkipDir
	})
}

// maxDepth limits the depth of a change's path, whose folders are walked from the top.
const maxDepth = 256

// applyChanges applies the order's changes below dir. No change can reach outside of it.
func applyChanges(dir string, o *order) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, change := range o.Changes {
		if err := o.applyChange(root, change); err != nil {
			return err
		}
	}
	return nil
}

func (o *order) applyChange(root *os.Root, change Change) error {
	if depth := strings.Count(change.Path, "/"); depth > maxDepth {
		return fmt.Errorf("a change %d folders deep is refused", depth)
	}
	name := filepath.FromSlash(change.Path)
	if err := root.RemoveAll(name); err != nil {
		return fmt.Errorf("replacing %s: %w", change.Path, err)
	}
	if change.Delete {
		return nil
	}
	if err := makeParents(root, filepath.Dir(name), o); err != nil {
		return err
	}
	if err := root.WriteFile(name, change.Data, cmp.Or(change.Mode.Perm(), 0o644)); err != nil {
		return fmt.Errorf("writing %s: %w", change.Path, err)
	}
	return root.Lchown(name, o.UID, o.GID)
}

func makeParents(root *os.Root, dir string, o *order) error {
	if dir == "." {
		return nil
	}
	if _, err := root.Stat(dir); err == nil {
		return nil
	}
	if err := makeParents(root, filepath.Dir(dir), o); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return root.Lchown(dir, o.UID, o.GID)
}

// identity identifies the state of a file: it changes whenever the file is written, replaced or
// removed, since no program can set a ctime.
type identity struct {
	inode       uint64
	size        int64
	change      syscall.Timespec
	there, link bool
}

func identify(dir string, files []string) []identity {
	ids := make([]identity, len(files))
	for i, file := range files {
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			ids[i] = identity{stat.Ino, stat.Size, stat.Ctim, true, info.Mode()&fs.ModeSymlink != 0}
		}
	}
	return ids
}

func readReports(dir string, names []string) map[string][]byte {
	if dir == "" || len(names) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	found := map[string][]byte{}
	room := int64(maxReport * max(len(names), 4)) // for all files together
	for _, name := range matchPatterns(root.FS(), names) {
		file, _, err := regular.Open(root.OpenFile, filepath.FromSlash(name))
		if err != nil {
			continue
		}
		var data bytes.Buffer
		if _, err := io.Copy(&data, io.LimitReader(file, min(maxReport, room))); err == nil {
			found[name] = data.Bytes()
			room -= int64(data.Len())
		}
		file.Close()
	}
	return found
}

const maxReports = 10_000

// matchPatterns returns names with each pattern replaced by the files that match it.
func matchPatterns(tree fs.FS, names []string) []string {
	patterns := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.Contains(name, "*") })
	if len(patterns) == 0 {
		return names
	}
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "*") })
	_ = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil: // skip unreadable folders
		case entry.IsDir() && slices.Contains([]string{".git", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case len(found) >= maxReports:
			return fs.SkipAll
		case entry.Type().IsRegular() && slices.ContainsFunc(patterns, func(pattern string) bool { return Match(pattern, name) }):
			found = append(found, name)
		}
		return nil
	})
	return found
}
