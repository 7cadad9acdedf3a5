package fit

import (
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

type kinds struct {
	names []string
	of    []int // by row
}

func kindsOf(t *outcome.Table) *kinds {
	k := &kinds{of: make([]int, len(t.Queries))}
	k.names = slices.Compact(slices.Sorted(slices.Values(t.Groups)))
	for q := range k.of {
		k.of[q], _ = slices.BinarySearch(k.names, t.Group(q))
	}
	return k
}

func (k *kinds) name(row int) string {
	if len(k.names) == 0 {
		return ""
	}
	return k.names[k.of[row]]
}

// costs returns the expected cost of a query in each group, from the costs on some rows, or nil if groups
// do not differ. Group means are shrunk towards the overall mean as far as the variance within groups
// explains their differences (random effects of an analysis of variance), and then shifted so that the
// mean over the rows stays the same.
func (k *kinds) costs(cost []float64, rows []int) map[string]float64 {
	if len(k.names) < 2 {
		return nil
	}
	count, sum := make([]float64, len(k.names)), make([]float64, len(k.names))
	for _, q := range rows {
		count[k.of[q]]++
		sum[k.of[q]] += cost[q]
	}
	n := float64(len(rows))
	all, within, squares, met := 0.0, 0.0, 0.0, 0.0
	for i, c := range count {
		if c > 0 {
			met++
			all += sum[i] / n
			squares += c * c
		}
	}
	for _, q := range rows {
		d := cost[q] - sum[k.of[q]]/count[k.of[q]]
		within += d * d
	}
	within /= max(n-met, 1)
	between := -(met - 1) * within
	for i, c := range count {
		if c > 0 {
			d := sum[i]/c - all
			between += c * d * d
		}
	}
	between /= n - squares/n
	if !(between > 0) {
		return nil
	}
	drawn, shift := make([]float64, len(count)), all
	for i, c := range count {
		if c > 0 {
			drawn[i] = all + (sum[i]/c-all)*c/(c+within/between)
			shift -= drawn[i] * c / n
		}
	}
	out := make(map[string]float64, len(count))
	for i, c := range count {
		if c > 0 {
			out[k.names[i]] = max(drawn[i]+shift, 0)
		}
	}
	return out
}
