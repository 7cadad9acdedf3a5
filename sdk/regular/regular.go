// Package regular reads and replaces files that others can change at any time. A file can be replaced by a
// pipe, a socket or a device, and opening a pipe blocks until somebody writes to it. So files are opened
// without blocking, and checked afterwards.
//
// Functions take the OpenFile method of an [os.Root] if links must not lead out of a tree, and otherwise
// [os.OpenFile].
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// opener is [os.OpenFile], or the OpenFile method of an [os.Root].
type opener = func(name string, flag int, perm fs.FileMode) (*os.File, error)

// Open opens a regular file for reading. Its errors are *[fs.PathError]; for any other kind of file the error
// is [fs.ErrInvalid].
func Open(open opener, name string) (*os.File, fs.FileInfo, error) {
	file, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: no regular file", fs.ErrInvalid)}
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// Read returns the content of a regular file, which must not exceed most bytes. For a larger file the error is
// [fs.ErrInvalid], also if the file grows while it is read.
func Read(open opener, name string, most int64) ([]byte, error) {
	file, _, err := Open(open, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		data, err = nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: larger than %d bytes", fs.ErrInvalid, most)}
	}
	return data, err
}

// FS returns the tree of root like [os.Root.FS], but only opens regular files and folders.
func FS(root *os.Root) fs.StatFS { return tree{root} }

type tree struct{ root *os.Root }

func (t tree) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	return t.root.Stat(name)
}

func (t tree) Open(name string) (fs.File, error) {
	info, err := t.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return t.root.FS().Open(name)
	}
	file, _, err := Open(t.root.OpenFile, name)
	if err != nil {
		return nil, err
	}
	return file, nil
}
