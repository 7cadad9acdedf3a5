package queue

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/policies"
)

// Policy is a policy as sent to workers. Its env() references are resolved in the worker's environment.
type Policy struct {
	// Tree is the parcel with its files; empty for a library policy.
	Tree string `json:"tree,omitempty"`
	// Path is the path of the policy within the tree.
	Path string `json:"path"`
	// Sets are the settings of --set.
	Sets []string `json:"sets,omitempty"`
	// WithoutProfile ignores the fit block.
	WithoutProfile bool `json:"without_profile,omitempty"`
}

// SendPolicy sends a loaded policy: its files, its profile, and the files and folders below its folder that the
// configuration of its plugins names. sets are the settings that it was loaded with.
func (q *Queue) SendPolicy(ctx context.Context, p *policies.Policy, sets ...string) (Policy, error) {
	sent := Policy{Path: p.Path, Sets: sets, WithoutProfile: p.Fit == nil}
	if strings.HasPrefix(p.Path, "library:") {
		return sent, nil
	}
	files := append([]string{p.Path}, p.Files...)
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasPrefix(file, "library:") })
	if p.Fit != nil && p.Fit.Profile != "" {
		files = append(files, p.Fit.Profile)
	}
	files = append(files, pluginFiles(p)...)
	root, paths, err := commonFolder(files)
	if err != nil {
		return sent, err
	}
	sent.Path = filepath.ToSlash(paths[0])
	if info, err := os.Stat(p.Path); err == nil && info.IsDir() {
		paths = paths[1:] // its files are listed; others in the folder do not belong to it
	}
	sent.Tree, err = q.SendTree(ctx, root, paths...)
	return sent, err
}

// commonFolder returns the deepest folder that contains all files, and their paths within it.
func commonFolder(files []string) (root string, paths []string, err error) {
	for i := range files {
		if files[i], err = filepath.Abs(files[i]); err != nil {
			return "", nil, err
		}
	}
	root, paths = filepath.Dir(files[0]), make([]string, len(files))
	for i := 0; i < len(files); i++ {
		if paths[i], err = filepath.Rel(root, files[i]); err != nil {
			return "", nil, err
		}
		if !filepath.IsLocal(paths[i]) {
			root, i = filepath.Dir(root), -1
		}
	}
	return root, paths, nil
}

// pluginFiles returns the existing files below the policy's folder that its plugins' config
// names by relative paths.
func pluginFiles(p *policies.Policy) []string {
	var names, found []string
	for i := range p.Plugins {
		names = append(names, p.Plugins[i].Read...)
	}
	for i := range p.Verifiers {
		names = append(names, stringsOf(p.Verifiers[i].Config.Values())...)
	}
	for i := range p.Estimators {
		names = append(names, stringsOf(p.Estimators[i].Config.Values())...)
	}
	for _, name := range names {
		if filepath.IsLocal(name) && filepath.Clean(name) != "." {
			file := filepath.Join(filepath.Dir(p.Path), name)
			if _, err := os.Stat(file); err == nil {
				found = append(found, file)
			}
		}
	}
	return found
}

func stringsOf(v any) []string {
	var out []string
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			out = append(out, stringsOf(e)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, stringsOf(v[name])...)
		}
	}
	return out
}
