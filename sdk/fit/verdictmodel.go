package fit

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The joint verdict of the judges.
const (
	verdictFail = iota
	verdictPass
	verdictNone
	verdictKinds
)

// The nodes of a query's ease, the priors, and the number of rounds of the fit.
const (
	easeNodes      = 15
	easeSpan       = 3.0
	usualSlope     = 1.5
	levelPrecision = 0.05
	verdictRounds  = 100
	leastRate      = 1e-6 // keeps logarithms finite
)

// verdictModel explains verdicts if the truth is mostly unknown. A query has an ease z ~ N(0, 1), the
// answer of model m is right with probability 1/(1 + exp(-slope·z - level[m])), and the judges err at
// their rates. These are the latent classes of Dawid and Skene (1979), with shares that depend on an ease
// as in item response theory. Right answers to a query are correlated, and errors of judges are not: that
// identifies the rates, and the better the more models have answered.
type verdictModel struct {
	rates cascade.Rates
	slope float64
	level []float64

	answers        [][]judgedAnswer // by query
	node, logPrior [easeNodes]float64
	// logRight and logWrong are the log-probabilities that a model's answer is right, or wrong, and gets
	// a verdict, by model, node and verdict.
	logRight, logWrong [][easeNodes][verdictKinds]float64
}

// judgedAnswer is a model's answer with its verdict and the truth, which is NaN if unknown. In that case
// repeats is the index of an equal answer of an earlier model: a judge errs on equal answers alike. It is
// -1 if there is none.
type judgedAnswer struct {
	model, verdict int
	truth          float64
	repeats        int
}

// judgedAnswers returns, by query, the answers of a table whose qualities are verdicts, or truths that
// became known later.
func judgedAnswers(t *outcome.Table) [][]judgedAnswer {
	all := make([][]judgedAnswer, len(t.Queries))
	for q, row := range t.Quality {
		for m, quality := range row {
			a := judgedAnswer{m, verdictNone, quality, -1}
			said := outcome.At(t.StepVerdicts, q, m)
			if math.IsNaN(said) {
				said, a.truth = quality, math.NaN()
			}
			switch {
			case math.IsNaN(quality):
				continue
			case said < 0.5:
				a.verdict = verdictFail
			case said > 0.5, math.IsNaN(a.truth):
				a.verdict = verdictPass
			}
			if math.IsNaN(a.truth) && t.Answer(q, m) != "" {
				a.repeats = slices.IndexFunc(all[q], func(b judgedAnswer) bool { return t.Answer(q, b.model) == t.Answer(q, m) })
			}
			all[q] = append(all[q], a)
		}
	}
	return all
}

// fitVerdicts fits the model to the verdicts of a table by expectation maximisation. Unknown rates are
// learned, with the prior of [cascade.LearnRates].
func fitVerdicts(t *outcome.Table, known *cascade.Rates) *verdictModel {
	v := &verdictModel{
		rates: cascade.LearnRates(0, 0, 0, 0), slope: usualSlope, level: make([]float64, len(t.Models)), answers: judgedAnswers(t),
	}
	if known != nil {
		v.rates = *known
	}
	sum := 0.0
	for k := range v.node {
		v.node[k] = easeSpan * (2*float64(k)/(easeNodes-1) - 1)
		sum += math.Exp(-v.node[k] * v.node[k] / 2)
	}
	for k, z := range v.node {
		v.logPrior[k] = -z*z/2 - math.Log(sum)
	}
	v.prepare()
	for range verdictRounds {
		v.round(known == nil)
		v.prepare()
	}
	return v
}

func (v *verdictModel) prepare() {
	v.logRight = make([][easeNodes][verdictKinds]float64, len(v.level))
	v.logWrong = make([][easeNodes][verdictKinds]float64, len(v.level))
	for m, level := range v.level {
		for k, z := range v.node {
			odds := v.slope*z + level
			for said := range verdictKinds {
				ifRight, ifWrong := 1.0, 1.0
				if said != verdictNone {
					ifRight, ifWrong = v.rates.Likelihoods(said == verdictPass)
				}
				v.logRight[m][k][said] = math.Log(max(ifRight, leastRate)) - math.Log1p(math.Exp(-odds))
				v.logWrong[m][k][said] = math.Log(max(ifWrong, leastRate)) - math.Log1p(math.Exp(odds))
			}
		}
	}
}

// right returns the probability that an answer is right at node k of the ease, given its verdict or truth,
// and the log-likelihood of those. A truth between 0 and 1, such as a share of the blame for a run, is
// used as it is.
func (v *verdictModel) right(a judgedAnswer, k int) (right, logLikelihood float64) {
	x, y := v.logRight[a.model][k][a.verdict], v.logWrong[a.model][k][a.verdict]
	if !math.IsNaN(a.truth) {
		return a.truth, a.truth*x + (1-a.truth)*y
	}
	most := max(x, y)
	both := most + math.Log(math.Exp(x-most)+math.Exp(y-most))
	return math.Exp(x - both), both
}

// weigh returns the posterior of each node given the answers to a query, and the probability at each node
// that each answer is right. Repeated answers have the probability of the first, and add no evidence.
func (v *verdictModel) weigh(answers []judgedAnswer) (weight [easeNodes]float64, right [][easeNodes]float64) {
	weight, right = v.logPrior, make([][easeNodes]float64, len(answers))
	for i, a := range answers {
		if a.repeats >= 0 {
			right[i] = right[a.repeats]
			continue
		}
		for k := range weight {
			var log float64
			right[i][k], log = v.right(a, k)
			weight[k] += log
		}
	}
	most, sum := slices.Max(weight[:]), 0.0
	for k, w := range weight {
		weight[k] = math.Exp(w - most)
		sum += weight[k]
	}
	for k := range weight {
		weight[k] /= sum
	}
	return weight, right
}

// round is one round of expectation maximisation: the expectations of the answers, then a Newton step
// for slope and levels.
func (v *verdictModel) round(learns bool) {
	right, all := make([][easeNodes]float64, len(v.level)), make([][easeNodes]float64, len(v.level))
	var rights, wrongs [verdictKinds]float64
	for _, answers := range v.answers {
		weight, r := v.weigh(answers)
		for i, a := range answers {
			if a.repeats >= 0 {
				continue
			}
			for k, w := range weight {
				right[a.model][k] += w * r[i][k]
				all[a.model][k] += w
				rights[a.verdict] += w * r[i][k]
				wrongs[a.verdict] += w * (1 - r[i][k])
			}
		}
	}
	if learns {
		v.rates = cascade.LearnRates(wrongs[verdictPass]+wrongs[verdictFail], wrongs[verdictPass], rights[verdictPass]+rights[verdictFail], rights[verdictFail])
	}
	slope, bend := usualSlope-v.slope, 1.0
	for m, level := range v.level {
		rise, curve := -levelPrecision*level, levelPrecision
		for k, z := range v.node {
			n := all[m][k]
			p := 1 / (1 + math.Exp(-v.slope*z-level))
			off, spread := right[m][k]-n*p, n*p*(1-p)
			slope, bend = slope+z*off, bend+z*z*spread
			rise, curve = rise+off, curve+spread
		}
		v.level[m] += rise / curve
	}
	v.slope = max(0, v.slope+slope/bend)
}

// posteriors returns, for each answer of a table with the same models, the probability that it is right
// given all answers to its query, and its verdict; NaN means none.
func (v *verdictModel) posteriors(t *outcome.Table) (quality, verdicts [][]float64) {
	for _, answers := range judgedAnswers(t) {
		row, said := slices.Repeat([]float64{math.NaN()}, len(t.Models)), slices.Repeat([]float64{math.NaN()}, len(t.Models))
		weight, right := v.weigh(answers)
		for i, a := range answers {
			row[a.model] = 0
			for k, w := range weight {
				row[a.model] += w * right[i][k]
			}
			row[a.model] = min(row[a.model], 1)
			if a.verdict != verdictNone {
				said[a.model] = float64(a.verdict)
			}
		}
		quality, verdicts = append(quality, row), append(verdicts, said)
	}
	return quality, verdicts
}
