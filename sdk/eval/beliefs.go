package eval

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// guesses are predictions of quality before the call, with each model's mean cost.
type guesses struct {
	quality [][]float64
	cost    []float64
}

func (g *guesses) Start(query int) replay.Cursor { return &guess{g.quality[query], g.cost} }

type guess struct{ quality, cost []float64 }

func (g *guess) Believe(_ []int, beliefs []cascade.Belief, costs []float64) {
	for m, v := range g.quality {
		beliefs[m] = cascade.Belief{Mean: v, Unseen: true}
	}
	copy(costs, g.cost)
}

// textFeatures is the number of hashed features of a prompt's words.
const textFeatures = 64

// vectors returns the features of each query before the call: its group, the length and the words of its
// prompt, and signals.
func vectors(t *outcome.Table, groups []string) [][]float64 {
	out := make([][]float64, len(t.Queries))
	words := make([]float64, textFeatures)
	for q := range out {
		x := make([]float64, len(groups), len(groups)+1+textFeatures+len(t.Models))
		if g := slices.Index(groups, t.Group(q)); g >= 0 {
			x[g] = 1
		}
		x = append(x, math.Log1p(float64(t.PromptTokens(q)))/4)
		if prompt := t.Prompt(q); prompt != "" {
			n := feature.NGrams(prompt, words)
			for _, v := range words {
				x = append(x, v/math.Sqrt(float64(max(n, 1))))
			}
		}
		if t.Ante != nil {
			x = append(x, t.Ante[q]...)
		}
		out[q] = x
	}
	return out
}

// routerSources returns the predictions on both halves. predict gets the train queries
// to learn from, and the queries to predict.
func routerSources(h *Halves, name string, predict func(x, y [][]float64, at [][]float64) [][]float64) *fittedSources {
	var groups []string
	for q := range h.Train.Queries {
		if g := h.Train.Group(q); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	slices.Sort(groups)
	train, test := vectors(h.Train, groups), vectors(h.Test, groups)
	costs := h.Train.MeanCosts()
	own := make([][]float64, len(train))
	folds := foldQueries(h.Train)
	for f := range trainFolds {
		var x, y, at [][]float64
		var places []int
		for q := range train {
			if folds[q] == f {
				at, places = append(at, train[q]), append(places, q)
			} else {
				x, y = append(x, train[q]), append(y, h.Train.Quality[q])
			}
		}
		for i, row := range predict(x, y, at) {
			own[places[i]] = row
		}
	}
	return &fittedSources{Name: name, Train: &guesses{own, costs}, Test: &guesses{predict(train, h.Train.Quality, test), costs}}
}

// foldQueries assigns queries to folds; copies of a query share one.
func foldQueries(t *outcome.Table) []int {
	folds := t.Folds(trainFolds, 0)
	first := map[string]int{}
	for q, id := range t.Queries {
		if f, known := first[id]; known {
			folds[q] = f
		} else {
			first[id] = folds[q]
		}
	}
	return folds
}

const neighbours = 20

func knnSources(h *Halves) *fittedSources {
	return routerSources(h, "nearest neighbours", func(x, y, at [][]float64) [][]float64 {
		out := make([][]float64, len(at))
		for i, p := range at {
			distance := make([]float64, len(x))
			for k, other := range x {
				for j, v := range other {
					distance[k] += (v - p[j]) * (v - p[j])
				}
			}
			near := byValue(distance)[:min(neighbours, len(x))]
			out[i] = make([]float64, len(y[0]))
			for _, k := range near {
				for m, v := range y[k] {
					out[i][m] += v / float64(len(near))
				}
			}
		}
		return out
	})
}

// Boosted trees of depth two on binned features.
const (
	boostRounds = 30
	boostRate   = 0.2
	boostBins   = 8
)

func zeros(rows, columns int) [][]float64 {
	out := make([][]float64, rows)
	for i := range out {
		out[i] = make([]float64, columns)
	}
	return out
}

func gbtSources(h *Halves) *fittedSources {
	return routerSources(h, "boosted trees", func(x, y, at [][]float64) [][]float64 {
		cuts := binCuts(x)
		train, test := binFeatures(x, cuts), binFeatures(at, cuts)
		out := zeros(len(at), len(y[0]))
		residual := make([]float64, len(x))
		for m := range y[0] {
			base := 0.0
			for q := range y {
				base += y[q][m] / float64(len(y))
			}
			for q := range y {
				residual[q] = y[q][m] - base
			}
			for i := range out {
				out[i][m] = base
			}
			for range boostRounds {
				t := growTree(train, residual)
				for q, row := range train {
					residual[q] -= boostRate * t.at(row)
				}
				for i, row := range test {
					out[i][m] += boostRate * t.at(row)
				}
			}
		}
		return out
	})
}

func binCuts(x [][]float64) [][]float64 {
	cuts := make([][]float64, len(x[0]))
	column := make([]float64, len(x))
	for j := range cuts {
		for q := range x {
			column[q] = x[q][j]
		}
		slices.Sort(column)
		for b := 1; b < boostBins; b++ {
			cuts[j] = append(cuts[j], column[b*len(column)/boostBins])
		}
		cuts[j] = slices.Compact(cuts[j])
	}
	return cuts
}

func binFeatures(x, cuts [][]float64) [][]uint8 {
	out := make([][]uint8, len(x))
	for q, row := range x {
		for j, v := range row {
			bin := 0
			for bin < len(cuts[j]) && v >= cuts[j][bin] {
				bin++
			}
			out[q] = append(out[q], uint8(bin))
		}
	}
	return out
}

// split sends rows below a bin to the left.
type split struct {
	feature     int
	bin         uint8
	left, right float64 // means
}

type tree struct {
	root     split
	children [2]split
}

func (t *tree) at(row []uint8) float64 {
	side := 0
	if row[t.root.feature] >= t.root.bin {
		side = 1
	}
	if s := &t.children[side]; row[s.feature] < s.bin {
		return s.left
	}
	return t.children[side].right
}

func growTree(x [][]uint8, residual []float64) *tree {
	all := make([]int, len(x))
	for i := range all {
		all[i] = i
	}
	t := &tree{root: bestSplit(x, residual, all)}
	var sides [2][]int
	for _, q := range all {
		side := 0
		if x[q][t.root.feature] >= t.root.bin {
			side = 1
		}
		sides[side] = append(sides[side], q)
	}
	for side, rows := range sides {
		t.children[side] = bestSplit(x, residual, rows)
	}
	return t
}

// bestSplit returns the split that reduces the squared residuals most. Each side's mean is shrunk towards
// zero by one observation.
func bestSplit(x [][]uint8, residual []float64, rows []int) split {
	var best split
	if len(rows) == 0 {
		return best
	}
	top := math.Inf(-1)
	for j := range x[0] {
		var sums, counts [boostBins]float64
		for _, q := range rows {
			sums[x[q][j]] += residual[q]
			counts[x[q][j]]++
		}
		total, n := 0.0, float64(len(rows))
		for _, s := range sums {
			total += s
		}
		left, below := 0.0, 0.0
		for b := range boostBins {
			if gain := left*left/(below+1) + (total-left)*(total-left)/(n-below+1); gain > top {
				top = gain
				best = split{j, uint8(b), left / (below + 1), (total - left) / (n - below + 1)}
			}
			left, below = left+sums[b], below+counts[b]
		}
	}
	return best
}

// costNoise replaces a source's predicted costs by the true cost plus noise, shrunk towards the mean
// according to the noise.
type costNoise struct {
	replay.Source
	predicted [][]float64
}

// newCostNoise simulates the costs on a table. The shrinkage is computed from the mean and variance of
// each model's cost on the train half.
func newCostNoise(s replay.Source, train, on *outcome.Table, stdDev float64, seed uint64) *costNoise {
	rng := rand.New(rand.NewPCG(seed, 0xc057))
	n := len(train.Models)
	means, slopes := make([]float64, n), make([]float64, n)
	column := make([]float64, len(train.Queries))
	for m := range n {
		for q := range train.Queries {
			column[q] = train.CostUSD[q][m]
		}
		mean, variance := stat.PopMeanVariance(column, nil)
		means[m], slopes[m] = mean, variance/(variance+stdDev*stdDev)
	}
	c := &costNoise{Source: s}
	for _, row := range on.CostUSD {
		predicted := make([]float64, n)
		for m, cost := range row {
			seen := cost + stdDev*rng.NormFloat64()
			predicted[m] = math.Max(0, means[m]+slopes[m]*(seen-means[m]))
		}
		c.predicted = append(c.predicted, predicted)
	}
	return c
}

// Start returns a cursor with the source's beliefs about quality.
func (c *costNoise) Start(query int) replay.Cursor {
	return &noisyCosts{c.Source.Start(query), c.predicted[query]}
}

type noisyCosts struct {
	replay.Cursor
	predicted []float64
}

func (c *noisyCosts) Believe(ran []int, beliefs []cascade.Belief, costs []float64) {
	c.Cursor.Believe(ran, beliefs, costs)
	copy(costs, c.predicted)
}

// LookUSD implements [replay.Pricer]: the price of a look is not a predicted cost.
func (c *noisyCosts) LookUSD(look int) float64 { return c.Cursor.(replay.Pricer).LookUSD(look) }
