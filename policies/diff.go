package policies

import (
	"bytes"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Change is an argument whose value differs between two policies.
type Change struct {
	// Path names the argument in the syntax of --set: model.small.price.input_usd_per_million.
	Path string `json:"path"`
	// Old and New are the values as written in a policy; secrets are
	// env("NAME"). Empty means that the argument, or the block around it, is absent.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// Diff returns the differences in effect between two policies, whatever their values come from: files,
// environment, flags, defaults, the catalogue. New and changed arguments come first, in the order of
// the language, then removed ones. It compares neither the programs of plugins nor the answers of servers.
func Diff(before, after *Policy) []Change {
	old, next := before.effective(), after.effective()
	var list []Change
	for _, path := range next.order {
		if old.values[path] != next.values[path] {
			list = append(list, Change{Path: path, Old: old.values[path], New: next.values[path]})
		}
	}
	for _, path := range old.order {
		if _, stays := next.values[path]; !stays {
			list = append(list, Change{Path: path, Old: old.values[path]})
		}
	}
	// The order of blocks matters: the first that applies is used.
	for _, block := range next.blocks {
		was, is := old.labels[block], next.labels[block]
		was, is = commonNames(was, is), commonNames(is, was)
		if !slices.Equal(was, is) {
			list = append(list, Change{Path: "order of " + block + " blocks", Old: strings.Join(was, ", "), New: strings.Join(is, ", ")})
		}
	}
	if a, b := before.Fit, after.Fit; a != nil && b != nil && a.Profile != b.Profile && !sameContent(a.Profile, b.Profile) {
		list = append(list, Change{Path: "content of the profile", Old: a.Profile, New: b.Profile})
	}
	return list
}

// effective is a policy in the form that Diff compares.
type effective struct {
	values map[string]string // by path
	order  []string
	labels map[string][]string // labels of the blocks of one kind, by the path of the kind
	blocks []string
}

func (p *Policy) effective() effective {
	e := effective{values: map[string]string{}, labels: map[string][]string{}}
	for _, s := range p.settings {
		if s.Path[0] == "catalog" || s.Path[0] == "include" {
			continue // their effects are part of other settings
		}
		if a := e.addLabels(s.Path); a != nil && a.fallback == "" && a.meansAbsent(s.Value) {
			continue
		}
		path := settingPath(s.Path)
		e.values[path] = s.Value
		e.order = append(e.order, path)
	}
	return e
}

// addLabels records the labels on the path to an argument and returns the argument, or nil for one of a plugin.
func (e *effective) addLabels(path []string) *argument {
	b := language()
	for i := 0; i < len(path)-1; i++ {
		if b = b.block(path[i]); b == nil || b.free {
			return nil
		}
		if b.label < 0 {
			continue
		}
		kind := settingPath(path[:i+1])
		i++
		if e.labels[kind] == nil {
			e.blocks = append(e.blocks, kind)
		}
		if !slices.Contains(e.labels[kind], path[i]) {
			e.labels[kind] = append(e.labels[kind], path[i])
		}
	}
	return b.arg(path[len(path)-1])
}

// meansAbsent reports whether this value of an argument without a default has the same meaning as its absence.
func (a *argument) meansAbsent(value string) bool {
	switch a.kind {
	case kindText:
		return value == `""`
	case kindNumber, kindWhole:
		return value == "0"
	default: // checks = false is not the same as no checks
		return false
	}
}

func settingPath(path []string) string {
	var b strings.Builder
	for i, element := range path {
		switch {
		case !hclsyntax.ValidIdentifier(element):
			b.WriteString("[" + quote(element) + "]")
		case i > 0:
			b.WriteString("." + element)
		default:
			b.WriteString(element)
		}
	}
	return b.String()
}

func commonNames(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !slices.Contains(other, s) })
}

func sameContent(a, b string) bool {
	one, errA := os.ReadFile(a)
	two, errB := os.ReadFile(b)
	return errA == nil && errB == nil && bytes.Equal(one, two)
}
