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

	"golang.org/x/sys/unix"
)

// devices are the device files in a command's /dev.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// layersDir is the directory of the overlays' layers in the new root.
const layersDir = "/.layers"

// tree is the root of a run while it is being built.
type tree struct {
	order *order
	// root is the mount point of the new root. layers is below it and holds the lower and upper
	// directories of the overlays; the command cannot access it.
	root, layers string
	overlays     int
	kept         []keptCache
	// written is the upper directory of the work tree, or "" if that is no overlay.
	written string
}

// keptCache is a cache whose upper directory is merged into keep after the run.
type keptCache struct {
	upper, keep string
	deep        bool
}

// buildRoot creates the new root and enters it; the old one is unmounted.
func buildRoot(o *order) (*tree, error) {
	root, err := freeMountPoint(o)
	if err != nil {
		return nil, err
	}
	options := "mode=0755,size=" + strconv.FormatInt(o.Limits.Disk, 10)
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return nil, fmt.Errorf("mounting the root: %w", err)
	}
	t := &tree{order: o, root: root, layers: filepath.Join(root, layersDir)}
	for _, step := range []func() error{
		t.makeDirectories,
		func() error {
			return t.bindAll(slices.Compact(slices.Sorted(slices.Values(o.ReadOnly))), unix.MOUNT_ATTR_RDONLY)
		},
		// Read-only, since root without capabilities could still write to /proc/sys.
		func() error { return mountProc(filepath.Join(root, "proc"), unix.MS_RDONLY) },
		t.bindDevices,
		func() error { return t.bindAll(o.Writable, 0) },
		t.mountWorkTree, t.mountCaches, t.limitFiles, t.enter,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// freeMountPoint returns an existing directory that contains no path of the order.
func freeMountPoint(o *order) (string, error) {
	used := slices.Concat([]string{o.Dir, "/dev", "/proc"}, o.ReadOnly, o.Writable)
	for _, cache := range o.Caches {
		used = append(used, cache.Lower...)
		used = append(used, cache.Keep)
	}
candidates:
	for _, dir := range []string{"/mnt", "/media", "/srv", "/opt", "/boot", "/home", "/sys", "/var", "/run", "/tmp"} {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		for _, path := range used {
			if path == dir || strings.HasPrefix(path, dir+"/") {
				continue candidates
			}
		}
		return dir, nil
	}
	return "", errors.New("no directory to mount the root on")
}

// limitFiles limits the number of further files in the new root.
func (t *tree) limitFiles() error {
	var stat unix.Statfs_t
	if err := unix.Statfs(t.root, &stat); err != nil {
		return fmt.Errorf("measuring the root: %w", err)
	}
	inodes := stat.Files - stat.Ffree + uint64(t.order.Limits.Files)
	options := fmt.Sprintf("size=%d,nr_inodes=%d", t.order.Limits.Disk, inodes)
	if err := unix.Mount("", t.root, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("bounding files: %w", err)
	}
	return nil
}

func (t *tree) makeDirectories() error {
	for dir, mode := range map[string]uint32{layersDir: 0o755, "tmp": 0o1777, "dev": 0o755, "dev/shm": 0o1777, "proc": 0o555, "tmp/home": 0o777} {
		path := filepath.Join(t.root, dir)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := unix.Chmod(path, mode); err != nil {
			return fmt.Errorf("chmod %s: %w", dir, err)
		}
	}
	etc := filepath.Join(t.root, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil {
		return err
	}
	id := max(t.order.UID, 0)
	for name, text := range map[string]string{
		"passwd":        fmt.Sprintf("jail:x:%d:%d:jail:/tmp/home:/bin/sh\n", id, id),
		"group":         fmt.Sprintf("jail:x:%d:\n", id),
		"hosts":         "127.0.0.1 localhost\n::1 localhost\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) bindAll(paths []string, attributes uint64) error {
	for _, path := range paths {
		if err := t.bind(path, attributes); err != nil {
			return err
		}
	}
	return nil
}

// bind mounts path, with everything mounted below it, at the same place in the new root. A path that
// does not exist, or that this program cannot access, is skipped; a symbolic link is copied.
func (t *tree) bind(path string, attributes uint64) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	target := filepath.Join(t.root, path)
	isLink := info.Mode()&fs.ModeSymlink != 0
	if _, err := os.Lstat(target); err == nil && isLink {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil && !errors.Is(err, unix.EROFS) {
		return err
	}
	switch {
	case isLink:
		link, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(link, target)
	case info.IsDir():
		err = os.MkdirAll(target, 0o755)
	default:
		err = touch(target)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(path, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("showing %s: %w", path, err)
	}
	set := &unix.MountAttr{Attr_set: attributes | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, set); err != nil {
		return fmt.Errorf("restricting the mount of %s: %w", path, err)
	}
	return nil
}

func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func mountProc(dir string, flags uintptr) error {
	if err := unix.Mount("proc", dir, "proc", flags|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}

// bindDevices binds the machine's devices read-only: their timestamps could carry data from one run to another.
func (t *tree) bindDevices() error {
	for _, name := range devices {
		if err := t.bind(filepath.Join("/dev", name), unix.MOUNT_ATTR_RDONLY); err != nil {
			return err
		}
	}
	for name, link := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(link, filepath.Join(t.root, "dev", name)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) enter() error {
	if err := os.Chdir(t.root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("entering the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	return os.Chdir("/")
}
