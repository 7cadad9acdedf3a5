package queue

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/stepfall/stepfall/sdk/regular"
)

// SendTree sends the files and folders at paths, which are below dir and relative to it; without paths, all of dir.
// Only files, folders and links that stay inside are sent. [Cache.Tree] fetches them by the returned name.
func (q *Queue) SendTree(ctx context.Context, dir string, paths ...string) (name string, err error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	sum := sha256.New()
	if err := pack(sum, dir, paths); err != nil {
		return "", fmt.Errorf("sending %s: %w", dir, err)
	}
	name = "tree-" + hex.EncodeToString(sum.Sum(nil))
	return name, q.Send(ctx, name, func(w io.Writer) error { return pack(w, dir, paths) })
}

// pack writes a reproducible archive: the same for the same contents, without times and owners.
func pack(w io.Writer, dir string, paths []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var names []string
	for _, p := range paths {
		err := fs.WalkDir(root.FS(), filepath.ToSlash(p), func(name string, _ fs.DirEntry, err error) error {
			names = append(names, name)
			return err
		})
		if err != nil {
			return err
		}
	}
	slices.Sort(names)
	out := tar.NewWriter(w)
	for _, name := range slices.Compact(names) {
		if err := packOne(out, root, name); err != nil {
			return err
		}
	}
	return out.Close()
}

func packOne(out *tar.Writer, root *os.Root, name string) error {
	local := filepath.FromSlash(name)
	info, err := root.Lstat(local)
	if err != nil || name == "." {
		return err
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return out.WriteHeader(h)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(local)
		if err != nil || !filepath.IsLocal(filepath.Join(filepath.Dir(local), target)) || filepath.IsAbs(target) {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, filepath.ToSlash(target)
		return out.WriteHeader(h)
	case !info.Mode().IsRegular():
		return nil
	}
	file, info, err := regular.Open(root.OpenFile, local)
	if err != nil {
		return err
	}
	defer file.Close()
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(out, file, h.Size); err != nil {
		return fmt.Errorf("%s changes while it is read: %w", name, err)
	}
	return nil
}

func unpack(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpackOne(root, in, h)
		}
		if err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
	}
}

func unpackOne(root *os.Root, in io.Reader, h *tar.Header) error {
	name := path.Clean(h.Name)
	mode := fs.FileMode(h.Mode).Perm()
	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, mode|0o700)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		return root.Symlink(h.Linkname, name)
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, in)
	return errors.Join(err, file.Close())
}
