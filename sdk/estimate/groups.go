package estimate

import (
	"maps"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

type groupNames []string

func groupsOf(t *outcome.Table) groupNames {
	names := map[string]bool{}
	for q := range t.Queries {
		if g := t.Group(q); g != "" {
			names[g] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// groupOf returns the index of a group, or len(n) if it is unknown.
func (n groupNames) groupOf(name string) int {
	if at, known := slices.BinarySearch(n, name); known {
		return at
	}
	return len(n)
}
