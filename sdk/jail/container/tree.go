package container

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/regular"
)

type archivedTree struct {
	file *os.File
	// sums are the checksums of the guarded files, by path.
	sums map[string][sha256.Size]byte
}

// epoch is the modification time of all files that are copied in.
var epoch = time.Unix(1_700_000_000, 0)

// pack writes the tree with its changes to a temporary archive.
func (o *order) pack() (_ *archivedTree, err error) {
	file, err := os.CreateTemp("", "stepfall-tree-")
	if err != nil {
		return nil, err
	}
	// The unlinked file exists as long as its descriptor.
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &archivedTree{file: file, sums: map[string][sha256.Size]byte{}}
	w := &writer{tar.NewWriter(file), o, p, map[string]bool{}, map[string]bool{}}
	for _, name := range o.Guarded {
		w.guarded[name] = true
	}
	if err := w.writeAll(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return p, nil
}

type writer struct {
	*tar.Writer
	o *order
	p *archivedTree
	// folders are those already in the archive.
	folders map[string]bool
	guarded map[string]bool
}

func (w *writer) writeAll() error {
	if err := w.addFolder(w.o.at); err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, change := range w.o.Changes {
		changed[path.Clean(change.Path)] = true
	}
	if w.o.Dir != "" && !w.o.InPlace {
		if err := w.addTree(changed); err != nil {
			return err
		}
	}
	for _, change := range w.o.Changes {
		if change.Delete {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(change.Path)) {
			return fmt.Errorf("%s is outside of the work tree", change.Path)
		}
		if err := w.addContent(path.Join(w.o.at, change.Path), cmp.Or(change.Mode.Perm(), 0o644), change.Data); err != nil {
			return err
		}
	}
	for _, file := range w.o.ReadOnly {
		if err := w.addFile(file); err != nil {
			return err
		}
	}
	return w.Close()
}

// maxFileBytes is the largest file that is copied into a container.
const maxFileBytes = 1 << 30

func (w *writer) addTree(changed map[string]bool) error {
	root, err := os.OpenRoot(w.o.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := path.Join(w.o.at, name)
		switch {
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir():
			return w.addFolder(at)
		case changed[name]:
			return nil
		case entry.Type() == fs.ModeSymlink:
			target, err := root.Readlink(name)
			if err != nil {
				return err
			}
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: inArchive(at), Linkname: target, Mode: 0o777, ModTime: epoch})
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := regular.Read(root.OpenFile, name, maxFileBytes)
		if err != nil {
			return err
		}
		if w.guarded[name] {
			w.p.sums[name] = sha256.Sum256(data)
		}
		return w.addContent(at, info.Mode().Perm()|0o444, data)
	})
}

// addFile adds a regular file outside the tree that the command needs, such as a program.
func (w *writer) addFile(file string) error {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(file, "/etc/") || strings.HasPrefix(file, "/usr/") {
		return nil // toolchains are the image's
	}
	data, err := regular.Read(os.OpenFile, file, maxFileBytes)
	if err != nil {
		return err
	}
	return w.addContent(filepath.ToSlash(file), info.Mode().Perm()|0o444, data)
}

func (w *writer) addContent(at string, mode fs.FileMode, data []byte) error {
	if err := w.addFolder(path.Dir(at)); err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: inArchive(at), Mode: int64(mode), Size: int64(len(data)), ModTime: epoch}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, bytes.NewReader(data))
	return err
}

// addFolder adds a folder and its parents. Existing folders of the image stay as they are.
func (w *writer) addFolder(at string) error {
	if w.folders[at] || at == "/" || at == "." {
		return nil
	}
	if err := w.addFolder(path.Dir(at)); err != nil {
		return err
	}
	w.folders[at] = true
	mode := int64(0o755)
	if at == "/tmp" {
		mode = 0o1777
	}
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: inArchive(at) + "/", Mode: mode, ModTime: epoch})
}

func inArchive(at string) string { return strings.TrimPrefix(at, "/") }

// maxReport limits the size of a report, in bytes.
const maxReport = 16 << 20

func (e *Engine) collect(ctx context.Context, name string, o *order, tree *archivedTree, result *jail.Result) error {
	if len(o.Reports)+len(tree.sums) == 0 {
		return nil
	}
	result.Reports = map[string][]byte{}
	if pattern := slices.ContainsFunc(o.Reports, func(report string) bool { return strings.Contains(report, "*") }); len(tree.sums) == 0 && !pattern {
		return e.collectReports(ctx, name, o, result)
	}
	seen := map[string]bool{}
	err := e.copyOut(ctx, name, o.at, func(file string, data []byte) {
		// The names in the archive begin with the folder's own.
		_, file, _ = strings.Cut(file, "/")
		if slices.ContainsFunc(o.Reports, func(report string) bool { return jail.Match(report, file) }) {
			result.Reports[file] = data
		}
		if sum, guarded := tree.sums[file]; guarded && sum == sha256.Sum256(data) {
			seen[file] = true
		}
	})
	if err != nil {
		return err
	}
	for _, file := range o.Guarded {
		if _, guarded := tree.sums[file]; guarded && !seen[file] {
			result.Touched = append(result.Touched, file)
		}
	}
	return nil
}

func (e *Engine) collectReports(ctx context.Context, name string, o *order, result *jail.Result) error {
	for _, report := range o.Reports {
		if err := e.copyOut(ctx, name, path.Join(o.at, report), func(_ string, data []byte) { result.Reports[report] = data }); err != nil {
			return err
		}
	}
	return nil
}

// copyOut copies a file or folder out of the container and calls each with every regular file in it. A path
// that does not exist has none.
func (e *Engine) copyOut(ctx context.Context, name, from string, each func(file string, data []byte)) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	cmd := e.command(inner, "cp", name+":"+from, "-")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	archive := tar.NewReader(pipe)
	for {
		header, err := archive.Next()
		if err != nil {
			break // end of the archive, or the path does not exist
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(archive, maxReport))
		if err != nil {
			break
		}
		each(path.Clean(header.Name), data)
	}
	stop()
	_ = cmd.Wait()
	return ctx.Err()
}
