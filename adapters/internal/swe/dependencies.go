package swe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/regular"
)

// dependencyFolders are the folders that package managers install into a tree.
var dependencyFolders = []string{"node_modules", ".venv", "venv", "vendor", "bower_components"}

// includeFile lists, as patterns of .gitignore, the ignored files that work trees get nevertheless. Other tools that
// make work trees for agents read the same file.
const includeFile = ".worktreeinclude"

// ignoredFiles lists paths that git ignores in a repository and that its work trees therefore lack.
type ignoredFiles struct {
	dependencies []string // folders of installed packages, which are linked
	included     []string // files that includeFile matches, which are copied
	other        []string // all others; whole folders have one entry
}

func listIgnored(ctx context.Context, dir string) (ignoredFiles, error) {
	var i ignoredFiles
	list := []string{"ls-files", "-z", "--others", "--ignored"}
	out, err := git(ctx, dir, append(list, "--exclude-standard", "--directory")...)
	if err != nil {
		return i, err
	}
	for name := range strings.FieldsFuncSeq(out, isNUL) {
		if name = strings.TrimSuffix(name, "/"); slices.Contains(dependencyFolders, path.Base(name)) {
			i.dependencies = append(i.dependencies, name)
		} else {
			i.other = append(i.other, name)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, includeFile)); err != nil || !info.Mode().IsRegular() {
		return i, nil //nolint:nilerr // there is none
	}
	if out, err = git(ctx, dir, append(list, "--exclude-from="+includeFile)...); err != nil {
		return i, err
	}
	for name := range strings.FieldsFuncSeq(out, isNUL) {
		isOther := slices.ContainsFunc(i.other, func(other string) bool { return name == other || strings.HasPrefix(name, other+"/") })
		if isOther && !jail.LooksSecret(name) && !jail.LooksSecret(path.Base(name)) { // also below tests, where tracked files are harmless
			i.included = append(i.included, name)
		}
	}
	return i, nil
}

// lackingNote names some of the ignored files that work trees lack, or is empty.
func (r *Repository) lackingNote() string {
	ignored, err := r.ignored()
	names := slices.DeleteFunc(slices.Clone(ignored.other), func(name string) bool {
		return slices.Contains(ignored.included, name) || strings.HasPrefix(path.Base(name), ".") || path.Base(name) == "__pycache__"
	})
	if err != nil || len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" (work trees lack what git ignores, such as %s: list what the tests need in %s)", strings.Join(names[:min(3, len(names))], ", "), includeFile)
}

func isNUL(r rune) bool { return r == 0 }

// copyIncluded copies the included files into the tree, unless the commit has its own, or does not ignore them: they would
// be in the patch.
func (c *Checkout) copyIncluded(ctx context.Context) error {
	ignored, err := c.repo.ignored()
	if err != nil || len(ignored.included) == 0 {
		return err
	}
	from, err := os.OpenRoot(c.repo.dir)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenRoot(c.Dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, name := range ignored.included {
		err := copyFile(from, to, filepath.FromSlash(name))
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			return fmt.Errorf("copying a file that %s names: %w", includeFile, err)
		}
	}
	added, err := c.git(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for name := range strings.FieldsFuncSeq(added, isNUL) {
		if slices.Contains(ignored.included, name) {
			if err := to.Remove(filepath.FromSlash(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFile copies a regular file; the error is [fs.ErrInvalid] for any other, links included.
func copyFile(from, to *os.Root, name string) error {
	if info, err := from.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return cmp.Or(err, fs.ErrInvalid)
	}
	in, info, err := regular.Open(from.OpenFile, name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := to.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// linkDependencies links the dependencies that are installed in the repository into the tree. Commands in the tree
// can read them but not write to them.
func (c *Checkout) linkDependencies() error {
	ignored, err := c.repo.ignored()
	if err != nil {
		return err
	}
	c.linked, c.readable = nil, nil
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range ignored.dependencies {
		target := filepath.Join(c.repo.dir, filepath.FromSlash(name))
		err := root.Symlink(target, filepath.FromSlash(name))
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			continue // the commit has its own, or lacks the parent folder
		}
		if err != nil {
			return err
		}
		c.linked, c.readable = append(c.linked, name), append(c.readable, target)
	}
	return nil
}
