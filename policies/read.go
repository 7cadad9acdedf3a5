package policies

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/regular"
)

// read returns the content of a file of a policy. It must be a regular file of at most most bytes in a folder of
// the policy, with symbolic links resolved, and not a device or a file of /proc. The policy file itself, top, can
// be anywhere; its resolved folder then becomes one of the policy's folders.
func (l *loader) read(path string, most int64, top bool) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingFileError(path)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", path, reason(err))
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	if top {
		l.roots = append(l.roots, filepath.Dir(real))
	}
	isInside := slices.ContainsFunc(l.roots, func(root string) bool {
		below, err := filepath.Rel(root, real)
		return err == nil && filepath.IsLocal(below)
	})
	if !isInside || isMachineFile(real) {
		return nil, outsideError(path)
	}
	return readRegular(real, path, most)
}

func (l *loader) setFolder(dir string) {
	l.dir = dir
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if full, err := filepath.Abs(dir); err == nil {
		l.roots = append(l.roots, full)
	}
}

type missingFileError string

func (m missingFileError) Error() string      { return "there is no file " + string(m) }
func (missingFileError) Is(target error) bool { return target == fs.ErrNotExist }

type outsideError string

func (o outsideError) Error() string { return string(o) + " is outside the policy's folder" }

const hintOutside = "A policy's files must be in or below its folder, also behind links."

// readRegular reads a regular file of at most most bytes; path is its name in errors.
func readRegular(real, path string, most int64) ([]byte, error) {
	f, _, err := regular.Open(os.OpenFile, real)
	switch {
	case errors.Is(err, fs.ErrInvalid):
		return nil, fmt.Errorf("%s is no regular file", path)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", path, reason(err))
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, reason(err))
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("%s is larger than %s", path, Bytes(most))
	}
	return content, nil
}

// reason returns the error without the path, which the message already has.
func reason(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// isMachineFile reports whether a path is in /proc, /sys or /dev, which expose for instance the environment of
// processes.
func isMachineFile(path string) bool {
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool {
		return strings.HasPrefix(path, dir+string(filepath.Separator))
	})
}
