package estimate

import (
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// fitSignals fits the observations other than verdicts: signals, the lengths of
// answers and their agreement, given the posterior of the ease.
func (f *latentFit) fitSignals() {
	n, t := len(f.Base), f.t
	f.Ante, f.Post = f.fitEmissions(t.Ante), f.fitEmissions(t.Post)
	if t.OutputTokens != nil {
		for i := range n {
			l, ok := f.fitLength(i)
			if !ok {
				f.Lengths = nil
				break
			}
			f.Lengths = append(f.Lengths, l)
		}
	}
	if t.Answers != nil {
		f.fitNoAnswer()
		f.fitAgreement()
	}
}

// fitEmissions fits the emissions of a signal by model, or returns nil without the signal.
func (f *latentFit) fitEmissions(signal [][]float64) (list []emission) {
	if signal == nil {
		return nil
	}
	for i := range f.Base {
		list = append(list, fitEmission(f.columns(signal, i), f.columns(f.t.Quality, i)))
	}
	return list
}

// lengthPrecisionOfAnswers shrinks the effects of ease and wrongness on the length of
// answers to 0.
const lengthPrecisionOfAnswers = 10

// fitLength regresses, in each group, the logarithm of the length of a model's answers
// on the ease and on whether the answer is wrong. It reports false if there are too few
// answers.
func (f *latentFit) fitLength(i int) (answerLength, bool) {
	var overall moments
	for q := range f.ease {
		for _, i := range f.triesOf(i) {
			if y := f.t.OutputTokens[q][i]; y > 0 {
				overall.add(math.Log(y))
			}
		}
	}
	if overall.n < 10 {
		return answerLength{}, false
	}
	l := answerLength{}
	for g := range f.Mean {
		a, b := square(3), make([]float64, 3)
		squares, n := 0.0, 0.0
		for q := range f.ease {
			for _, i := range f.triesOf(i) {
				y, v := f.t.OutputTokens[q][i], f.t.Quality[q][i]
				if f.group[q] != g && g != len(f.Groups) || !(y > 0) || math.IsNaN(v) {
					continue
				}
				y = math.Log(y) - overall.mean
				n++
				squares += y * y
				for k, w := range f.weight[q] {
					x := [3]float64{1, f.Nodes[k], 1 - v}
					for r := range x {
						for c := r; c < 3; c++ {
							a[r][c] += w * x[r] * x[c]
						}
						b[r] += w * x[r] * y
					}
				}
			}
		}
		a[0][0]++
		a[1][1] += lengthPrecisionOfAnswers
		a[2][2] += lengthPrecisionOfAnswers
		c := solve(a, b)
		if c == nil {
			return answerLength{}, false
		}
		rest := squares - b[0]*c[0] - b[1]*c[1] - b[2]*c[2]
		const weight = 10
		l.Group = append(l.Group, lengthIn{
			Mean: overall.mean + c[0], PerEase: c[1], IfWrong: c[2],
			StdDev: math.Sqrt((max(rest, 0)+weight*overall.m2/overall.n)/(n+weight)) + 0.02,
		})
	}
	return l, true
}

// fitNoAnswer counts how often right and wrong answers are missing, with the rates of
// each model shrunk towards those of all.
func (f *latentFit) fitNoAnswer() {
	f.Empty = emptyAnswers(f.t, f.group, len(f.Mean))
	const prior = 20
	n := len(f.Base)
	missing, all := zeros(n+1, 2), zeros(n+1, 2) // model (the last: all), wrong or right
	for q, row := range f.t.Quality {
		for i, v := range row {
			if math.IsNaN(v) || f.Empty[f.group[q]] {
				continue
			}
			for _, k := range []int{f.triesOf(i)[0], n} {
				all[k][0] += 1 - v
				all[k][1] += v
				if f.t.Answers[q][i] == "" {
					missing[k][0] += 1 - v
					missing[k][1] += v
				}
			}
		}
	}
	rate := func(i, right int) float64 {
		overall := (missing[n][right] + 0.5) / (all[n][right] + 1)
		return (missing[i][right] + prior*overall) / (all[i][right] + prior)
	}
	for i := range n {
		i := f.triesOf(i)[0]
		f.NoAnswer = append(f.NoAnswer, absence{IfRight: rate(i, 1), IfWrong: rate(i, 0)})
	}
}

// fitAgreement counts how often two right answers are equal, and two wrong ones.
func (f *latentFit) fitAgreement() {
	// The prior, for groups with few pairs: its weight in pairs, and the shares of equal ones.
	const prior, usualWrong, usualRight = 20, 0.2, 0.97
	f.Agree = make([]agreement, len(f.Mean))
	for g := range f.Agree {
		const wrongOfFamily = 2
		var same, pairs [3]float64 // wrong, right, and wrong ones of one family
		for q, row := range f.t.Quality {
			if f.group[q] != g && g != len(f.Groups) {
				continue
			}
			for i, v := range row {
				for j := range i {
					u := row[j]
					a, b := f.t.Answers[q][i], f.t.Answers[q][j]
					if a == "" || b == "" || u != v || u != 0 && u != 1 {
						continue
					}
					kind := int(v)
					if own := f.tables.family(i); own != nil && own == f.tables.family(j) {
						if v == 1 {
							continue
						}
						kind = wrongOfFamily
					}
					pairs[kind]++
					if a == b {
						same[kind]++
					}
				}
			}
		}
		wrong := (same[0] + prior*usualWrong) / (pairs[0] + prior)
		right := (same[1] + prior*usualRight) / (pairs[1] + prior)
		f.Agree[g] = agreement{Spread: min(max(1/max(wrong, 1e-3)-1, 0.2), 100), Differ: min(max((1-right)/2, 0.002), 0.2)}
		if f.Family != nil {
			chance := 1 / (1 + f.Agree[g].Spread)
			f.Agree[g].Repeat = min(max(((same[wrongOfFamily]+prior*usualRepeat)/(pairs[wrongOfFamily]+prior)-chance)/(1-chance), 0), mostRepeat)
		}
	}
}

// changeRows is the number of queries on which changes are measured.
const changeRows = 500

// fitChange measures how much a model's own run changes its estimate.
func (f *latentFit) fitChange() {
	n := len(f.Base)
	replay, err := (&Estimator{Models: f.t.Models, Quality: f.latent, Cost: &costMean{CostUSD: make([]float64, n)}}).On(f.t)
	if err != nil {
		return // impossible: it is the table of the fit
	}
	sums, counts := zeros(len(f.Mean), n), make([]float64, len(f.Mean))
	before, after := make([]cascade.Belief, n), make([]cascade.Belief, n)
	every := max(1, len(f.t.Queries)/changeRows)
	for q := 0; q < len(f.t.Queries); q += every {
		x := replay.Start(q)
		x.Means(nil, before)
		for i := range n {
			x.Means([]int{i}, after)
			d := after[i].Mean - before[i].Mean
			for _, g := range []int{f.group[q], len(f.Groups)} {
				sums[g][i] += d * d
			}
		}
		counts[f.group[q]]++
		if f.group[q] != len(f.Groups) {
			counts[len(f.Groups)]++
		}
	}
	last := len(f.Groups)
	for i := range n {
		sums[last][i] /= max(counts[last], 1)
	}
	for _, row := range sums {
		pool(f.tries, row)
	}
	for g := range last {
		for i := range n {
			sums[g][i] = math.Sqrt((sums[g][i] + groupWeight*sums[last][i]) / (counts[g] + groupWeight))
		}
	}
	for i := range n {
		sums[last][i] = math.Sqrt(sums[last][i])
	}
	f.Change = sums
}
