package estimate

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

type costMeans struct {
	Groups groupNames `json:"groups"`
	// Mean is by group (the last row for any other) and model, of the log cost.
	Mean [][]float64 `json:"mean"`
	// PerLength is added per unit of the prompt's log length, by model.
	PerLength []float64 `json:"per_length"`
	Center    float64   `json:"center"`
}

// Precisions of the priors that shrink the effects of groups and of length to 0, in outcomes.
const (
	costGroupPrecision  = 3
	costLengthPrecision = 10
)

// fit fits the means and returns the residuals by query and model, which are NaN if
// the cost is unknown.
func (e *costMeans) fit(t *outcome.Table) [][]float64 {
	n := len(t.Models)
	e.PerLength = make([]float64, n)
	var center moments
	logs, x := make([][]float64, len(t.Queries)), make([]float64, len(t.Queries))
	for q, row := range t.CostUSD {
		x[q] = logOf(promptTokens(t, q))
		center.add(x[q])
		logs[q] = make([]float64, n)
		for i, c := range row {
			logs[q][i] = logOf(c)
		}
	}
	e.Center = center.mean
	e.Groups = groupsOf(t)
	e.Mean = zeros(len(e.Groups)+1, n)
	group := make([]int, len(t.Queries))
	for q := range x {
		group[q] = e.Groups.groupOf(t.Group(q))
		x[q] -= e.Center
		if math.IsNaN(x[q]) {
			x[q] = 0
		}
	}
	for _, tries := range triesOf(t.Models) {
		e.regress(tries, logs, x, group)
	}
	for q := range logs {
		for i := range n {
			logs[q][i] -= e.Mean[group[q]][i] + e.PerLength[i]*x[q]
		}
	}
	return logs
}

// regress fits the mean of the samples of one model. The normal equations are diagonal
// except for the effect of the length, which is eliminated last.
func (e *costMeans) regress(tries []int, logs [][]float64, x []float64, group []int) {
	groups := len(e.Groups)
	var overall moments
	for q := range logs {
		for _, i := range tries {
			overall.add(logs[q][i])
		}
	}
	count, length, sum := make([]float64, groups+1), make([]float64, groups+1), make([]float64, groups+1)
	slope, against := float64(costLengthPrecision), 0.0
	for q, row := range logs {
		for _, i := range tries {
			if math.IsNaN(row[i]) {
				continue
			}
			g, y := group[q], row[i]-overall.mean
			slope += x[q] * x[q]
			against += x[q] * y
			count[g]++
			length[g] += x[q]
			sum[g] += y
		}
	}
	for g := range groups {
		count[g] += costGroupPrecision
		slope -= length[g] * length[g] / count[g]
		against -= length[g] * sum[g] / count[g]
	}
	for _, i := range tries {
		e.PerLength[i] = against / slope
		e.Mean[groups][i] = overall.mean
		for g := range groups {
			e.Mean[g][i] = overall.mean + (sum[g]-length[g]*e.PerLength[i])/count[g]
		}
	}
}

// triesOf lists the models, each with its further samples (see [sdk.Samples]). These
// cost the same, apart from chance.
func triesOf(models []string) [][]int {
	first := sdk.Samples(models)
	var list [][]int
	for i, f := range first {
		if f != i {
			continue
		}
		var tries []int
		for j, f := range first {
			if f == i {
				tries = append(tries, j)
			}
		}
		list = append(list, tries)
	}
	return list
}

// pool sets the values of all samples of a model to their mean.
func pool(tries [][]int, values []float64) {
	for _, own := range tries {
		mean := 0.0
		for _, i := range own {
			mean += values[i] / float64(len(own))
		}
		for _, i := range own {
			values[i] = mean
		}
	}
}

// factors returns, by model, the factor that makes the mean of the predictions before
// any run equal to the mean cost. variance returns that of a model's log cost.
func (e *costMeans) factors(t *outcome.Table, variance func(i int) float64) []float64 {
	means, out, logs := meanCosts(t), make([]float64, len(t.Models)), make([]float64, len(t.Models))
	sums, counts := make([]float64, len(out)), make([]float64, len(out))
	for q := range t.Queries {
		e.at(logs, &queryFacts{Group: t.Group(q), InputTokens: promptTokens(t, q)})
		for i, c := range t.CostUSD[q] {
			if !math.IsNaN(c) {
				sums[i] += math.Exp(logs[i] + variance(i)/2)
				counts[i]++
			}
		}
	}
	for i := range out {
		if sums[i] > 0 {
			out[i] = means[i] * counts[i] / sums[i]
		}
	}
	return out
}

// meanCosts returns the mean costs of the models, equal for all samples of one.
func meanCosts(t *outcome.Table) []float64 {
	means := t.MeanCosts()
	pool(triesOf(t.Models), means)
	return means
}

func (e *costMeans) at(dst []float64, q *queryFacts) {
	g := e.Groups.groupOf(q.Group)
	x := 0.0
	if q.InputTokens > 0 {
		x = math.Log(q.InputTokens) - e.Center
	}
	for i := range dst {
		dst[i] = e.Mean[g][i] + e.PerLength[i]*x
	}
}

func (e *costMeans) check(models int) error {
	if len(e.PerLength) != models || len(e.Mean) != len(e.Groups)+1 || !wide(e.Mean, models) {
		return fmt.Errorf("parameters do not fit %d models", models)
	}
	return nil
}

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
