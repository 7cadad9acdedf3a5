package jail

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/stepfall/stepfall/sdk/regular"
)

// walkTree visits the entries below a directory; root confines the visitor to it. Entries that are
// removed during the walk are skipped.
func walkTree(dir string, visit func(root *os.Root, name string, info fs.FileInfo) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(root, name, info)
	})
}

// copyTree copies the directories, regular files and symbolic links below from to the existing
// directory to. Files share their blocks if the file system supports it. The copies belong to uid and
// gid; -1 leaves the owner unchanged.
func copyTree(from, to string, uid, gid int) error {
	top, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(to, top.Mode().Perm()|0o700), os.Lchown(to, uid, gid)); err != nil {
		return err
	}
	return walkTree(from, func(root *os.Root, name string, info fs.FileInfo) error {
		target, mode := filepath.Join(to, name), info.Mode()
		switch {
		case mode.IsDir():
			err = os.Mkdir(target, mode.Perm()|0o700)
		case mode&fs.ModeSymlink != 0:
			err = copyLink(root, name, target)
		case mode.IsRegular():
			err = copyFile(root, name, target, mode.Perm())
		default:
			return nil // sockets, pipes and devices are skipped
		}
		if err != nil {
			return err
		}
		return os.Lchown(target, uid, gid)
	})
}

func copyLink(root *os.Root, from, to string) error {
	link, err := root.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(link, to)
}

// copyFile copies a file of root if it is still a regular file.
func copyFile(root *os.Root, from, to string, mode fs.FileMode) (err error) {
	source, _, err := regular.Open(root.OpenFile, from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil {
		return nil
	}
	_, err = io.Copy(target, source)
	return err
}

// heavyFolders are large folders that tests read, and in which they write at most at the first level.
// ownTree does not descend into them.
var heavyFolders = map[string]bool{".git": true, "node_modules": true, "vendor": true, ".hg": true, ".svn": true}

// ownTree lets uid write to the directories of an overlay whose lower directory belongs to another
// user: it creates the directories in upper, and copies the files that uid could not read.
func ownTree(lower, upper string, uid, gid int) error {
	return walkTree(lower, func(root *os.Root, name string, info fs.FileInfo) error {
		target, mode, err := filepath.Join(upper, name), info.Mode(), error(nil)
		switch {
		case mode.IsDir():
			err = os.Mkdir(target, mode.Perm()|0o700)
		case mode.IsRegular() && mode.Perm()&0o004 == 0:
			err = copyFile(root, name, target, mode.Perm()|0o400)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		if err := os.Lchown(target, uid, gid); err != nil {
			return err
		}
		if heavyFolders[info.Name()] && mode.IsDir() && mode.Perm()&0o005 == 0o005 {
			return fs.SkipDir
		}
		return nil
	})
}
