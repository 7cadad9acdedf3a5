package forecast

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// sameError is how often models that err all say the same, sharedEase how much of what decides
// whether a model is right is the query's, and ofKind how much of that is the same for all calls of
// a tool: as with recorded function calls (BFCL), where 29 models agree on some kinds of calls
// more often than on others, with a deviation of 0.46 of the normal quantile.
const (
	sameError  = 1.0 / 3
	sharedEase = 0.5
	ofKind     = 0.32
)

// The shift of ease is a priori normal with this mean and deviation: two cheap models agree on
// 79 % of the queries, and on 60 to 94 % in nineteen of twenty programs. strayDev is how far
// queries of which fewer than two answers are recorded may differ from the others.
const (
	meanShift = 0.2
	shiftDev  = 0.45
	strayDev  = 0.15
)

// trials is how many worlds are drawn from what is believed of the shift.
const trials = 12

// agreement says how the answers of models that are compared agree. A model is right where
// its skill and the shift exceed the hardness of the query and an error of its own. Right
// answers are the same; wrong ones are the same on a share of the queries.
type agreement struct {
	models []Model
	// shifts are of the ease of all queries, one for each trial: quantiles of what is believed.
	shifts []float64
	odds   []odds // by trial
	// queries is the number of queries with answers of two models that shifts rest on.
	queries int
	// kinds are those of which answers of two models are recorded, by the tools that answers call: other
	// kinds are as hard as it is drawn in each trial.
	kinds map[string]bool
}

// odds are the probabilities that models are right, by hardness and model.
type odds [][]float64

// Hardness is a standard normal variable on a grid.
const (
	hardnesses   = 21
	mostHardness = 4.0
)

func hardness(k int) float64 { return mostHardness * (2*float64(k)/(hardnesses-1) - 1) }

// normal is how hard queries are taken to be.
type normal struct{ mean, variance float64 }

// anyKind is how hard queries of all kinds are.
var anyKind = normal{0, 1}

func (a *agreement) hardnessOf(seed uint64, trial int, kind string) normal {
	if a.kinds[kind] {
		return anyKind
	}
	return normal{math.Sqrt(ofKind) * rand.New(rand.NewPCG(seed+uint64(trial), hashOf(kind))).NormFloat64(), 1 - ofKind}
}

func newAgreement(models []Model, shifts ...float64) *agreement {
	a := &agreement{models: models, shifts: shifts}
	for _, shift := range shifts {
		a.odds = append(a.odds, oddsAt(models, shift))
	}
	return a
}

func oddsAt(models []Model, shift float64) odds {
	o := make(odds, hardnesses)
	for k := range o {
		o[k] = make([]float64, len(models))
		for i, m := range models {
			ease := math.Sqrt2*math.Erfinv(2*m.Quality.Mean-1) + shift - math.Sqrt(sharedEase)*hardness(k)
			o[k][i] = math.Erfc(-ease/math.Sqrt(2*(1-sharedEase))) / 2
		}
	}
	return o
}

// cause is a way in which answers may have come about.
type cause struct {
	// hardness is a place on the grid. right is the text of the right answer, "" where nobody
	// gave it, and wrong that of all wrong ones, if isSame.
	hardness     int
	right, wrong string
	isSame       bool
	weight       float64
}

// causes returns the ways in which the answers of models, by model, may have come about, with
// their probabilities, of queries that are so hard. An answer without a text is not known.
func (o odds) causes(answers []Outcome, hard normal) (list []cause, total float64) {
	rights := []string{""}
	for i := range answers {
		if text := answers[i].Text; text != "" && !slices.Contains(rights, text) {
			rights = append(rights, text)
		}
	}
	for _, right := range rights {
		wrong, errors, kinds, judged := "", 0, 0, true
		for i := range answers {
			a := &answers[i]
			isRight := a.Text == right
			switch {
			case a.Text == "":
				continue
			case a.Judged && isRight != (a.truth() >= 0.5):
				judged = false
			case isRight:
				continue
			}
			errors++
			if a.Text != wrong {
				kinds++
			}
			wrong = a.Text
		}
		for _, isSame := range []bool{true, false} {
			if !judged || isSame && kinds > 1 || !isSame && kinds < errors {
				continue
			}
			share := sameError
			if !isSame {
				share = 1 - sameError
			}
			for k := range o {
				z := hardness(k) - hard.mean
				weight := share * math.Exp(-z*z/2/hard.variance)
				for i := range answers {
					switch answers[i].Text {
					case "":
					case right:
						weight *= o[k][i]
					default:
						weight *= 1 - o[k][i]
					}
				}
				total += weight
				list = append(list, cause{hardness: k, right: right, wrong: wrong, isSame: isSame, weight: weight})
			}
		}
	}
	return list, total
}

// draw returns what the i-th model does with query n, which is so hard, given what is known of the others'
// answers. With the same seed all models meet the same query.
func (a *agreement) draw(seed uint64, n, trial, i int, hard normal, answers []Outcome) Outcome {
	o := a.odds[trial%len(a.odds)]
	common := rand.New(rand.NewPCG(seed, uint64(n*trials+trial)))
	list, total := o.causes(answers, hard)
	if !(total > 0) {
		list, total = o.causes(nil, hard) // nothing that is thought of explains these answers
	}
	u, at := common.Float64()*total, 0
	for ; at < len(list)-1 && u >= list[at].weight; at++ {
		u -= list[at].weight
	}
	c, m := &list[at], &a.models[i]
	switch {
	case m.chance(seed, n*trials+trial).Float64() < o[c.hardness][i]:
		return Outcome{Quality: 1, Text: cmp.Or(c.right, "right")}
	case c.isSame:
		return Outcome{Text: cmp.Or(c.wrong, "wrong")}
	}
	return Outcome{Text: "wrong as " + m.Name + " is"}
}

func (a *agreement) index(name string) int {
	return slices.IndexFunc(a.models, func(m Model) bool { return m.Name == name })
}

// The grid of shifts on which their probability is worked out.
const (
	leastShift = -2.5
	shiftStep  = 0.05
	shiftCount = 121
)

// learn returns the agreement of models as the answers to queries say, of each of which the
// cluster is given: queries of one run are not independent. One shift of ease is learnt by the
// likelihood of who said the same, which counts for as much as scores of clusters scatter
// (Godambe, 1960). Where an answer is missing there are several trials.
func learn(models []Model, queries [][]Outcome, clusters []int) *agreement {
	grid := make([]odds, shiftCount)
	for s := range grid {
		grid[s] = oddsAt(models, leastShift+shiftStep*float64(s))
	}
	patterns := map[string][]float64{}
	byCluster := map[int][]float64{}
	total := make([]float64, shiftCount)
	isWhole, seen := true, 0
	for q, answers := range queries {
		known := 0
		for i := range answers {
			if answers[i].Text != "" {
				known++
			}
		}
		isWhole = isWhole && known == len(models)
		if known < 2 {
			continue
		}
		seen++
		name := pattern(answers)
		logs, ok := patterns[name]
		if !ok {
			logs = make([]float64, shiftCount)
			for s := range logs {
				_, p := grid[s].causes(answers, anyKind)
				logs[s] = math.Log(max(p, 1e-300))
			}
			patterns[name] = logs
		}
		sums := byCluster[clusters[q]]
		if sums == nil {
			sums = make([]float64, shiftCount)
			byCluster[clusters[q]] = sums
		}
		for s, log := range logs {
			sums[s] += log
			total[s] += log
		}
	}
	if isWhole {
		return newAgreement(models, meanShift) // nothing is drawn
	}
	posterior := make([]float64, shiftCount)
	for s := range posterior {
		z := (leastShift + shiftStep*float64(s) - meanShift) / shiftDev
		posterior[s] = -z * z / 2
	}
	weight := independence(total, byCluster)
	for s := range posterior {
		posterior[s] += weight * total[s]
	}
	a := newAgreement(models, quantiles(posterior, trials)...)
	a.queries = seen
	return a
}

// pattern names which answers are the same, and what is known of them.
func pattern(answers []Outcome) string {
	var texts, name []byte
	for i := range answers {
		first := slices.IndexFunc(answers, func(o Outcome) bool { return o.Text == answers[i].Text })
		if answers[i].Text == "" {
			first = -1
		}
		texts = fmt.Appendf(texts, "%d,", first)
		name = fmt.Appendf(name, "%t%t", answers[i].Judged, answers[i].truth() >= 0.5)
	}
	return string(texts) + string(name)
}

// independence is how much of a logarithm of likelihoods counts, of which the parts by cluster
// are given: the curvature at its maximum over the sum of squares of the clusters' slopes.
func independence(total []float64, byCluster map[int][]float64) float64 {
	at := 1
	for s := range total[1 : len(total)-1] {
		if total[s+1] > total[at] {
			at = s + 1
		}
	}
	curvature := 2*total[at] - total[at-1] - total[at+1]
	squares := 0.0
	for _, sums := range byCluster {
		slope := (sums[at+1] - sums[at-1]) / 2
		squares += slope * slope
	}
	if !(curvature > 0 && squares > 0) {
		return 1
	}
	return min(max(curvature/squares, 0.1), 1)
}

// quantiles returns n quantiles of the shift at equal distances, from the logarithm of its
// density on the grid, spread by what those queries may differ of which nothing was learnt.
func quantiles(log []float64, n int) []float64 {
	top := slices.Max(log)
	mean, squares, sum := 0.0, 0.0, 0.0
	for s := range log {
		w, x := math.Exp(log[s]-top), leastShift+shiftStep*float64(s)
		mean, squares, sum = mean+w*x, squares+w*x*x, sum+w
	}
	mean /= sum
	dev := math.Hypot(math.Sqrt(max(squares/sum-mean*mean, 0)), strayDev)
	list := make([]float64, n)
	for k := range list {
		list[k] = mean + dev*math.Sqrt2*math.Erfinv(2*(float64(k)+0.5)/float64(n)-1)
	}
	return list
}
