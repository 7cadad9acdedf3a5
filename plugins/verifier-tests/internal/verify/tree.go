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

// tree is a snapshot of a work tree.
type tree struct {
	runner.Tree
	// links are the paths of its symbolic links, sorted.
	links []string
	// earlier are folders with earlier versions of its files: .git, and Python's compiled files. They are not
	// judged, and runs cannot see them.
	earlier []string
	// hash changes when a file is added, removed, written or replaced.
	hash string
	root *os.Root
	// walls run its tests; image is the image if they are a container's.
	walls jail.Walls
	image string
}

// openTree walks the tree. The hash is over names, sizes, modes and change times, not contents: a program that writes
// a file cannot preserve those.
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

// content returns a hash of the tree's content, which is the same for every tree with that content.
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

// findFiles sets Near in edits that name a file without its folder, if the tree has exactly one file of that name.
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

// installedFolders returns the paths outside of the tree that its dependencies need: targets of links such as
// node_modules, and the installation behind a virtual environment.
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
