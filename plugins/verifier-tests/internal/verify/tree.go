package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/patch"
	"github.com/stepfall/stepfall/sdk/regular"
)

// tree is a work tree as it is at one moment.
type tree struct {
	runner.Tree
	// links are the paths of its symbolic links, sorted.
	links []string
	// earlier are folders that hold its files as they were before: git's, and what Python
	// compiled. They are no part of what is judged, and runs do not see them.
	earlier []string
	// hash changes when a file is added, removed, written or replaced.
	hash string
	root *os.Root
	// walls are those that its tests run behind; image is that of a container.
	walls jail.Walls
	image string
}

// openTree walks the tree. The hash is of names, sizes, modes and times of
// change, not of contents: a program that writes a file cannot keep those.
func openTree(dir string) (*tree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("the work tree: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("the work tree: %w", err)
	}
	t := &tree{Tree: runner.Tree{Dir: dir}, root: root}
	hash := sha256.New()
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "__pycache__" && !strings.Contains(name, "-packages/")) {
			t.earlier = append(t.earlier, name)
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			t.Files = append(t.Files, name)
		} else if info.IsDir() {
			return nil // a folder's times change with every file in it
		} else if info.Mode()&fs.ModeSymlink != 0 {
			t.links = append(t.links, name)
		}
		fmt.Fprintf(hash, "%q %d %o ", name, info.Size(), info.Mode())
		return binary.Write(hash, binary.LittleEndian, changeTimes(info))
	})
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("reading the work tree: %w", err)
	}
	slices.Sort(t.links)
	t.hash = hex.EncodeToString(hash.Sum(nil))
	t.Content = sync.OnceValues(t.content)
	return t, nil
}

// content is a hash of what the tree holds, the same for every tree that holds it.
func (t *tree) content() (string, error) {
	hash := sha256.New()
	for _, name := range t.Files {
		file, info, err := regular.Open(t.root.OpenFile, filepath.FromSlash(name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%q %d %o\n", name, info.Size(), info.Mode())
		_, err = io.Copy(hash, file)
		file.Close()
		if err != nil {
			return "", err
		}
	}
	for _, name := range t.links {
		target, err := t.root.Readlink(filepath.FromSlash(name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%q -> %q\n", name, target)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// findFiles says of edits that name a file without its folder, where the tree has one of that
// name, which it is.
func (t *tree) findFiles(edits []patch.Edit) []patch.Edit {
	for i := range edits {
		name := edits[i].Path
		others := slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool { return path.Base(file) != name || name == "__init__.py" })
		if len(others) == 1 {
			edits[i].Near = others[0]
		}
	}
	return edits
}

// installedFolders are the paths outside of the tree that dependencies in it need: those that
// a folder of dependencies is a link to, and the installation behind a virtual environment.
func (t *tree) installedFolders() []string {
	var paths []string
	for _, link := range t.links {
		if !slices.Contains([]string{"node_modules", ".venv", "venv", "vendor", "bower_components"}, filepath.Base(link)) {
			continue
		}
		if target, err := filepath.EvalSymlinks(filepath.Join(t.Dir, filepath.FromSlash(link))); err == nil {
			paths = append(append(paths, target), jail.VenvPaths(target)...)
		}
	}
	for _, file := range t.Files {
		if filepath.Base(file) == "pyvenv.cfg" {
			paths = append(paths, jail.VenvPaths(filepath.Join(t.Dir, filepath.FromSlash(filepath.Dir(file))))...)
		}
	}
	return paths
}

func (t *tree) close() { t.root.Close() }
