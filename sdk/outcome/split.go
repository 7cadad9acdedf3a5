package outcome

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
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

// Sets returns, by name, the sets of models of the ZeroEval outcomes that the project's
// results use: 3, 5 and 11 models as in the paper, and two families.
func Sets() map[string][]string {
	three := []string{"gemma-2-9b-it", "gpt-4o-mini-2024-07-18", "gpt-4o-2024-08-06"}
	return map[string][]string{
		"3": three,
		"5": append(three[:3:3], "claude-3-haiku-20240307", "llama-3.1-405b-instruct"),
		"11": {
			"gemma-2-2b-it", "gemma-2-9b-it", "qwen2-7b-instruct", "llama-3.1-8b-instruct",
			"qwen2-72b-instruct", "llama-3.1-70b-instruct", "claude-3-haiku-20240307",
			"gpt-4o-mini-2024-07-18", "llama-3.1-405b-instruct", "claude-3-5-sonnet-20241022",
			"gpt-4o-2024-08-06",
		},
		"llama": {"llama-3.1-8b-instruct", "llama-3.1-70b-instruct", "llama-3.1-405b-instruct"},
		"gemma": {"gemma-2-2b-it", "gemma-2-9b-it", "gemma-2-27b-it"},
	}
}

// Subset returns the table of a set of models: "all" (or ""), one of [Sets], or
// models separated by commas.
func (t *Table) Subset(name string) (*Table, error) {
	if name == "" || name == "all" {
		return t, nil
	}
	models, known := Sets()[name]
	if !known {
		models = strings.Split(name, ",")
		for i := range models {
			models[i] = strings.TrimSpace(models[i])
		}
	}
	sub, err := t.Select(models...)
	if err != nil {
		return nil, fmt.Errorf("model set %q: %w", name, err)
	}
	return sub, nil
}
