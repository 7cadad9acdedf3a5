package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountWorkTree mounts the work tree: itself, as an overlay, or as a copy if overlays are unavailable.
func (t *tree) mountWorkTree() error {
	if t.order.Dir == "" {
		return nil
	}
	if t.order.InPlace {
		return t.bind(t.order.Dir, 0)
	}
	upper, err := "", error(unix.EOVERFLOW)
	if !t.hasUnknownOwner(t.order.Dir) {
		upper, err = t.overlay(t.order.Dir, []string{t.order.Dir}, func(upper string) error {
			return ownTree(t.order.Dir, upper, t.order.UID, t.order.GID)
		})
	}
	if err != nil {
		target := filepath.Join(t.root, t.order.Dir)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		return copyTree(t.order.Dir, target, t.order.UID, t.order.GID)
	}
	t.written = strings.TrimPrefix(upper, t.root)
	return nil
}

// arePlaced reports for each file whether it was put into the upper layer for the run: another process cannot change it.
func (t *tree) arePlaced(files []string) []bool {
	placed := make([]bool, len(files))
	for i, file := range files {
		placed[i] = t != nil && t.written != "" && isAbove(t.written, file)
	}
	return placed
}

// isWritten reports whether a run has written, replaced or removed a file of the work tree dir that has changed. In an
// overlay all that a run does is in the upper layer; without it there, another process has changed the file underneath.
func (t *tree) isWritten(dir, file string) bool {
	if t == nil || t.written == "" {
		return true
	}
	if isAbove(t.written, file) {
		return true
	}
	folder, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.Dir(file)))
	if err != nil {
		return true // a link to its folder, perhaps, that leads nowhere since a run removed that
	}
	real, isBelow := strings.CutPrefix(filepath.Join(folder, filepath.Base(file)), dir+"/")
	return isBelow && isAbove(t.written, real)
}

// isAbove reports whether the upper layer of an overlay has a file, or hides it with a folder above it.
func isAbove(upper, file string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(file), "/") {
		upper = filepath.Join(upper, part)
		info, err := os.Lstat(upper)
		if err != nil {
			return false
		}
		if !info.IsDir() {
			return true
		}
		if n, err := unix.Lgetxattr(upper, "user.overlay.opaque", nil); err == nil && n > 0 {
			return true
		}
	}
	return true
}

// hasUnknownOwner reports whether a directory or one of its entries belongs to a user or group that the
// user namespace does not map: an overlay can neither write to nor remove such files.
func (t *tree) hasUnknownOwner(dir string) bool {
	const unknown = 65534 // the kernel's overflow uid and gid
	if !t.order.UserNamespace {
		return false
	}
	entries, err := os.ReadDir(dir)
	names := []string{dir}
	for _, entry := range entries {
		names = append(names, filepath.Join(dir, entry.Name()))
	}
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		info, err := os.Lstat(name)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		return ok && (stat.Uid == unknown || stat.Gid == unknown)
	})
}

func (t *tree) mountCaches() error {
	for _, cache := range t.order.Caches {
		lower := slices.DeleteFunc(slices.Clone(cache.Lower), func(dir string) bool {
			info, err := os.Stat(dir)
			return err != nil || !info.IsDir()
		})
		upper, err := t.overlay(cache.Path, lower, func(upper string) error {
			if cache.Deep && len(lower) == 1 {
				return ownTree(lower[0], upper, t.order.UID, t.order.GID)
			}
			return t.ownFirstLevel(lower, upper)
		})
		if err != nil {
			// An empty cache is slow but correct.
			upper = filepath.Join(t.root, cache.Path)
			if err := t.makeForCommand(upper); err != nil {
				return err
			}
		}
		if cache.Keep == "" {
			continue
		}
		keep, err := t.bindPrivate(cache.Keep)
		if err != nil {
			return err
		}
		t.kept = append(t.kept, keptCache{strings.TrimPrefix(upper, t.root), keep, cache.Deep})
	}
	return nil
}

func (t *tree) makeForCommand(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chown(dir, t.order.UID, t.order.GID)
}

// overlay mounts the lower directories under a new upper one at a path of the new root, and returns the
// upper directory. If the command has another uid, it owns the upper directory, and own changes the
// owner of what else the command must own; this happens before the mount, because an overlay caches
// owners. own is also called for directories of unknown owners, which the overlay cannot create itself.
func (t *tree) overlay(at string, lower []string, own func(upper string) error) (string, error) {
	base := filepath.Join(t.layers, strconv.Itoa(t.overlays))
	t.overlays++
	upper, work, target := filepath.Join(base, "upper"), filepath.Join(base, "work"), filepath.Join(t.root, at)
	for _, dir := range []string{upper, work, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	names, err := bindLower(base, lower)
	if err != nil {
		return "", err
	}
	if t.order.UID >= 0 || slices.ContainsFunc(lower, t.hasUnknownOwner) {
		if err := errors.Join(t.makeForCommand(upper), own(upper)); err != nil {
			return "", err
		}
	}
	options := "lowerdir=" + strings.Join(names, ":") + ",upperdir=" + upper + ",workdir=" + work + ",userxattr"
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return "", fmt.Errorf("mounting an overlay: %w", err)
	}
	for i := range lower {
		// The overlay has its own references to these; left mounted, they would bypass it.
		if err := unix.Unmount(names[i], unix.MNT_DETACH); err != nil {
			return "", fmt.Errorf("hiding %s: %w", lower[i], err)
		}
	}
	return upper, nil
}

// bindLower binds the lower directories of an overlay to short names without special characters, for the
// mount options. If there are none, it returns one empty directory.
func bindLower(base string, lower []string) (names []string, err error) {
	for i := range max(1, len(lower)) {
		name := filepath.Join(base, strconv.Itoa(i))
		if err := os.Mkdir(name, 0o755); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	for i, dir := range lower {
		if err := unix.Mount(dir, names[i], "", unix.MS_BIND, ""); err != nil {
			return nil, fmt.Errorf("showing %s: %w", dir, err)
		}
	}
	return names, nil
}

// ownFirstLevel creates the first-level directories of lower in upper, owned by the command, so that it
// can add files to them: build caches have no deeper ones.
func (t *tree) ownFirstLevel(lower []string, upper string) error {
	for _, dir := range lower {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !entry.IsDir() {
				continue
			}
			path := filepath.Join(upper, entry.Name())
			if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := os.Chown(path, t.order.UID, t.order.GID); err != nil {
				return err
			}
		}
	}
	return nil
}

// bindPrivate mounts dir at a path that only the first process can access.
func (t *tree) bindPrivate(dir string) (string, error) {
	name := filepath.Join(t.layers, "keep"+strconv.Itoa(t.overlays))
	t.overlays++
	if err := os.MkdirAll(name, 0o700); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if err := unix.Mount(dir, name, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("showing %s: %w", dir, err)
	}
	return strings.TrimPrefix(name, t.root), nil
}
