package swe

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// dependencyFolders are the folders that package managers install into a tree.
var dependencyFolders = []string{"node_modules", ".venv", "venv", "vendor", "bower_components"}

// ignoredDependencies returns the dependency folders that git ignores and that work trees therefore lack.
func ignoredDependencies(ctx context.Context, dir string) ([]string, error) {
	out, err := git(ctx, dir, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		return nil, err
	}
	var found []string
	for name := range strings.SplitSeq(out, "\x00") {
		name = strings.TrimSuffix(name, "/")
		if slices.Contains(dependencyFolders, path.Base(name)) {
			found = append(found, name)
		}
	}
	return found, nil
}

// linkDependencies links the dependencies that are installed in the repository into the tree. Commands in the tree
// can read them but not write to them.
func (c *Checkout) linkDependencies() error {
	names, err := c.repo.dependencies()
	if err != nil {
		return err
	}
	c.linked, c.readable = nil, nil
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
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
