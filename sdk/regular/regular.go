// Package regular reads and replaces files that others may change meanwhile. A file may be replaced by a
// pipe, a socket or a device at any time, and opening a pipe blocks until somebody writes. So files are
// opened without blocking, and checked after that.
//
// Functions take the OpenFile of an [os.Root], where links must not lead out of a
// tree, or [os.OpenFile].
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// opener is [os.OpenFile], or the method of that name of an [os.Root].
type opener = func(name string, flag int, perm fs.FileMode) (*os.File, error)

// Open opens a regular file for reading. Its errors are of [*fs.PathError]; what is
// no regular file is [fs.ErrInvalid].
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

// Read returns the content of a regular file of at most most bytes; a larger one is
// [fs.ErrInvalid], also when it grows while it is read.
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

// FS is the tree of root as [os.Root.FS] has it, but for what is neither a regular file
// nor a folder, which is not opened.
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
