package outcome

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// Split divides the queries at random into two tables. The first has the given share of
// every group; groups of one query are divided together. The same seed gives the same
// halves. Queries keep their order.
func (t *Table) Split(share float64, seed uint64) (first, second *Table) {
	a, b := t.SplitRows(share, seed)
	return t.Rows(a), t.Rows(b)
}

// SplitRows is [Table.Split] in terms of the indexes of the queries.
func (t *Table) SplitRows(share float64, seed uint64) (first, second []int) {
	deal := func(members []int) {
		cut := int(math.Round(share * float64(len(members))))
		first = append(first, members[:cut]...)
		second = append(second, members[cut:]...)
	}
	var alone []int
	for _, members := range t.shuffleGroups(seed) {
		if len(members) == 1 {
			alone = append(alone, members[0])
			continue
		}
		deal(members)
	}
	rng := rand.New(rand.NewPCG(seed, 0xa107e))
	rng.Shuffle(len(alone), func(a, b int) { alone[a], alone[b] = alone[b], alone[a] })
	deal(alone)
	slices.Sort(first)
	slices.Sort(second)
	return first, second
}

// Folds divides the queries at random into k folds, each group evenly, and returns
// the fold of each query.
func (t *Table) Folds(k int, seed uint64) []int {
	folds := make([]int, len(t.Queries))
	next := 0
	for _, members := range t.shuffleGroups(seed) {
		for _, q := range members {
			folds[q] = next % k
			next++
		}
	}
	return folds
}

// shuffleGroups returns the queries of each group in random order, groups in order of
// their names.
func (t *Table) shuffleGroups(seed uint64) (groups [][]int) {
	members := map[string][]int{}
	for q := range t.Queries {
		members[t.Group(q)] = append(members[t.Group(q)], q)
	}
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		rng.Shuffle(len(m), func(a, b int) { m[a], m[b] = m[b], m[a] })
		groups = append(groups, m)
	}
	return groups
}
