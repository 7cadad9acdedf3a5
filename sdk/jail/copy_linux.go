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

// copyTree copies the directories, regular files and symbolic links below from
// to the existing directory to. Files share their blocks where the file system
// can do that. With a uid of 0 or more, the copies belong to uid and gid.
func copyTree(from, to string, uid, gid int) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(relative string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch {
		case relative == ".":
			err = os.Chmod(to, info.Mode().Perm()|0o700)
		case entry.IsDir():
			err = os.Mkdir(target, info.Mode().Perm()|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			var link string
			if link, err = root.Readlink(relative); err == nil {
				err = os.Symlink(link, target)
			}
		case info.Mode().IsRegular():
			err = copyFile(root, relative, target, info.Mode().Perm())
		default:
			return nil // sockets, pipes and devices stay behind
		}
		if err == nil && uid >= 0 {
			err = os.Lchown(target, uid, gid)
		}
		return err
	})
}

// copyFile copies a regular file of root, and not what may have come in its place and
// leads out.
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

// heavyFolders are directories that tests read, and in which they write no further down
// than their caches are.
var heavyFolders = map[string]bool{".git": true, "node_modules": true, "vendor": true, ".hg": true, ".svn": true}

// ownTree lets uid write to the directories of an overlay whose lower directory
// belongs to another: it makes the directories in upper, and copies the files
// that uid could not read.
func ownTree(lower, upper string, uid, gid int) error {
	root, err := os.OpenRoot(lower)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(relative string, entry fs.DirEntry, err error) error {
		if err != nil || relative == "." {
			return err
		}
		target := filepath.Join(upper, relative)
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while walking
		}
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			if err := os.Mkdir(target, info.Mode().Perm()|0o700); err != nil {
				return err
			}
		case info.Mode().IsRegular() && info.Mode().Perm()&0o004 == 0:
			if err := copyFile(root, relative, target, info.Mode().Perm()|0o400); err != nil {
				return err
			}
		default:
			return nil
		}
		if err := os.Lchown(target, uid, gid); err != nil {
			return err
		}
		if entry.IsDir() && heavyFolders[entry.Name()] && info.Mode().Perm()&0o005 == 0o005 {
			return fs.SkipDir
		}
		return nil
	})
}
