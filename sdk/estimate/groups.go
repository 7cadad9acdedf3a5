package estimate

import (
	"maps"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// groupNames are the names of the groups of queries, sorted.
type groupNames []string

// groupsOf returns the groups of a table.
func groupsOf(t *outcome.Table) groupNames {
	names := map[string]bool{}
	for q := range t.Queries {
		if g := t.Group(q); g != "" {
			names[g] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// groupOf returns the place of a group, behind the last for one that is not known.
func (n groupNames) groupOf(name string) int {
	if at, known := slices.BinarySearch(n, name); known {
		return at
	}
	return len(n)
}
