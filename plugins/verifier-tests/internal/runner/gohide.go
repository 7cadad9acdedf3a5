package runner

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Hider is a runner that can hide the sources of tests from the code that they test.
type Hider interface {
	// Hide changes a plan on a tree, so that the command builds its tests from sources that
	// are not where the tree has them.
	Hide(plan *Plan, tree *Tree)
}

var _ Hider = (*goTest)(nil)

// readsItself matches tests that read sources of tests themselves.
var readsItself = regexp.MustCompile(`_test\.go\b`)

// Hide leaves a package clause of each file of tests. The go command finds the file beside
// it, by an overlay, under another name: what reads or embeds the file by its own name
// gets none of it. Lines and positions are those of the file. The sources lie in the
// build cache, named as its entries are.
func (g *goTest) Hide(plan *Plan, tree *Tree) {
	if g.foreign || hasFlag(plan.Argv, "overlay") || hasFlag(plan.Argv, "c") {
		return
	}
	sources, changes := map[string][]byte{}, []jail.Change(nil) // by where the go command is to find them
	for _, file := range tree.Files {
		if !strings.HasSuffix(file, "_test.go") || hidden(file) {
			continue
		}
		source, err := tree.read(file)
		clause := packageLine.FindSubmatch(source)
		if err != nil || clause == nil {
			continue
		}
		if readsItself.Match(source) {
			return
		}
		at := filepath.Join(tree.Dir, filepath.FromSlash(file))
		sources[filepath.Join(filepath.Dir(at), "z_"+path.Base(file))] = slices.Concat([]byte("//line "+at+":1\n"), bytes.TrimPrefix(source, []byte("\ufeff")))
		changes = append(changes, jail.Change{Path: file, Data: fmt.Appendf(nil, "//go:build ignore\n\npackage %s\n", clause[1])})
	}
	if len(sources) == 0 {
		return
	}
	replace := map[string]string{}
	for beside, source := range sources {
		replace[beside] = plan.putIntoCache(tree, source)
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		panic(err) // names of files
	}
	flag := "-overlay=" + plan.putIntoCache(tree, list)
	plan.Changes = append(plan.Changes, changes...)
	plan.Argv = slices.Insert(plan.Argv, flagsAt(plan.Argv), flag)
	if len(plan.Compile) > 0 {
		plan.Compile = slices.Insert(plan.Compile, flagsAt(plan.Compile), flag)
	}
}

// putIntoCache has a run find a file in its first cache, which is guarded. It returns where.
func (p *Plan) putIntoCache(tree *Tree, data []byte) string {
	cache, name := &p.Caches[0], fmt.Sprintf("%x-d", sha256.Sum256(data))
	cache.Files[name] = data
	file := filepath.Join(cache.Path, name)
	if below, err := filepath.Rel(tree.Dir, file); err == nil {
		p.Guarded = append(p.Guarded, filepath.ToSlash(below))
	}
	return file
}
