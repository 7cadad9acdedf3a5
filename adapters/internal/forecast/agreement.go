package forecast

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// sameError is the probability that all models that err on a query give the same wrong answer. sharedEase is the
// share of the latent variance of success that is due to the query, and ofKind the share of that which is common to
// all calls of one tool: in recorded function calls (BFCL) the agreement of 29 models varies between kinds of calls
// with a deviation of 0.46 on the scale of normal quantiles.
const (
	sameError  = 1.0 / 3
	sharedEase = 0.5
	ofKind     = 0.32
)

// The prior of the shift of ease is normal with meanShift and shiftDev: two cheap models agree on 79 % of the
// queries, and on 60 to 94 % in nineteen of twenty programs. strayDev is how far queries with fewer than two recorded
// answers can differ from the others.
const (
	meanShift = 0.2
	shiftDev  = 0.45
	strayDev  = 0.15
)

// trials is the number of worlds drawn from the posterior of the shift.
const trials = 12

// agreement models how the answers of compared models agree. A model is right where its skill and the shift exceed
// the hardness of the query plus an error of its own. Right answers are the same; wrong ones are the same on a share
// sameError of the queries.
type agreement struct {
	models []Model
	// shifts holds one shift of the ease of all queries per trial: quantiles of the posterior.
	shifts []float64
	odds   []odds // by trial
	// queries is the number of queries with answers of two models, from which the shifts were learned.
	queries int
	// kinds holds the kinds of queries, by the tools that answers call, with recorded answers of two models. The
	// hardness of other kinds is drawn in each trial.
	kinds map[string]bool
}

// odds holds the probabilities that models are right, by hardness and model.
type odds [][]float64

// Hardness is standard normal, on a grid.
const (
	hardnesses   = 21
	mostHardness = 4.0
)

func hardness(k int) float64 { return mostHardness * (2*float64(k)/(hardnesses-1) - 1) }

// normal is a distribution of hardness.
type normal struct{ mean, variance float64 }

// anyKind is the hardness of queries of all kinds together.
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

// cause is one explanation of a query's answers.
type cause struct {
	// hardness is an index on the grid. right is the text of the right answer, or "" where no model gave it; wrong is
	// that of all wrong answers if isSame.
	hardness     int
	right, wrong string
	isSame       bool
	weight       float64
}

// causes returns the explanations of the answers, which are by model, and their probabilities, for queries whose
// hardness has the distribution hard. An answer without a text is unknown.
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

// draw draws the outcome of the i-th model on query n, given the hardness of its kind and the known answers of the
// others. With the same seed all models get the same query.
func (a *agreement) draw(seed uint64, n, trial, i int, hard normal, answers []Outcome) Outcome {
	o := a.odds[trial%len(a.odds)]
	common := rand.New(rand.NewPCG(seed, uint64(n*trials+trial)))
	list, total := o.causes(answers, hard)
	if !(total > 0) {
		list, total = o.causes(nil, hard) // no cause explains these answers
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

// The grid on which the posterior of the shift is computed.
const (
	leastShift = -2.5
	shiftStep  = 0.05
	shiftCount = 121
)

// learn fits the agreement of models to their answers. clusters holds the cluster of each query, as queries of one
// run are not independent. A single shift of ease is learned from the likelihood of which answers are equal, weighted
// by the scatter of the clusters' scores (Godambe, 1960). There are several trials where answers are missing.
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
		return newAgreement(models, meanShift) // no answer has to be drawn
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

// pattern returns a key for which answers are equal, and which are known to be right.
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

// independence returns the weight of a log likelihood, given its parts by cluster: the curvature at the maximum
// divided by the sum of squares of the clusters' slopes.
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

// quantiles returns n evenly spaced quantiles of the shift, given its log density on the grid, widened by strayDev
// for queries from which nothing could be learned.
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
