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
// identifies the rates, and the better the more models have answered. Equal answers are right or wrong
// together, and judged alike. How likely it is that answers differ depends on which are right: a right
// answer differs from the earlier right ones with probability differ, and a wrong one equals an earlier
// wrong one with probability repeat.
type verdictModel struct {
	rates          cascade.Rates
	slope          float64
	level          []float64
	differ, repeat float64
	share          []float64 // of right answers, by model

	queries            [][]answerGroup
	node, logPrior     [easeNodes]float64
	logRight, logWrong [][easeNodes]float64 // the log-probabilities that a model's answer is right and wrong, by node
}

// answerGroup has the models that gave the same answer to a query, the joint verdict, and the truth, which
// is NaN if unknown. A truth between 0 and 1 is 1 less a share of the blame for a failed run. An answer
// without a text is a group of its own.
type answerGroup struct {
	models  []int
	text    string
	verdict int
	truth   float64
}

// judgedAnswer is a model's answer with its verdict and the truth, as in an answerGroup.
type judgedAnswer struct {
	model, verdict int
	truth          float64
}

// judgedAnswers returns, by query, the answers of a table whose qualities are verdicts, or truths that
// became known later.
func judgedAnswers(t *outcome.Table) [][]judgedAnswer {
	all := make([][]judgedAnswer, len(t.Queries))
	for q, row := range t.Quality {
		for m, quality := range row {
			a := judgedAnswer{m, verdictNone, quality}
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
			all[q] = append(all[q], a)
		}
	}
	return all
}

// groupAnswers groups the answers to query q of a table by their text. The first verdict and the first
// truth of a group count.
func groupAnswers(t *outcome.Table, q int, answers []judgedAnswer) (groups []answerGroup) {
	for _, a := range answers {
		text := t.Answer(q, a.model)
		at := slices.IndexFunc(groups, func(g answerGroup) bool { return text != "" && g.text == text })
		if at < 0 {
			groups = append(groups, answerGroup{[]int{a.model}, text, a.verdict, a.truth})
			continue
		}
		g := &groups[at]
		g.models = append(g.models, a.model)
		if g.verdict == verdictNone {
			g.verdict = a.verdict
		}
		if math.IsNaN(g.truth) {
			g.truth = a.truth
		}
	}
	return groups
}

// fitVerdicts fits the model to the verdicts of a table by expectation maximisation. Unknown rates are
// learned, with the prior of [cascade.LearnRates].
func fitVerdicts(t *outcome.Table, known *cascade.Rates) *verdictModel {
	v := &verdictModel{
		rates: cascade.LearnRates(0, 0, 0, 0), slope: usualSlope, differ: 0.5, repeat: 0.1,
		level: make([]float64, len(t.Models)), share: slices.Repeat([]float64{0.5}, len(t.Models)),
	}
	if known != nil {
		v.rates = *known
	}
	for q, answers := range judgedAnswers(t) {
		v.queries = append(v.queries, groupAnswers(t, q, answers))
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
	v.logRight, v.logWrong = make([][easeNodes]float64, len(v.level)), make([][easeNodes]float64, len(v.level))
	for m, level := range v.level {
		for k, z := range v.node {
			odds := v.slope*z + level
			v.logRight[m][k], v.logWrong[m][k] = -math.Log1p(math.Exp(-odds)), -math.Log1p(math.Exp(odds))
		}
	}
}

// likelihoods returns the factors of a group's verdict and of what is known of the truth: a run fails for
// certain if an answer is wrong, and otherwise only if one of the other answers that share the blame is.
func (v *verdictModel) likelihoods(g *answerGroup) factors {
	f := factors{1, 1}
	if g.verdict != verdictNone {
		f.right, f.wrong = v.rates.Likelihoods(g.verdict == verdictPass)
	}
	f.right, f.wrong = max(f.right, leastRate), max(f.wrong, leastRate)
	switch {
	case g.truth == 0:
		f.right = 0
	case g.truth == 1:
		f.wrong = 0
	case !math.IsNaN(g.truth):
		others := 1/(1-g.truth) - 1
		f.right *= 1 - math.Pow(v.share[g.models[0]], others)
	}
	return f
}

// groupsAtNode has the probabilities of the groups of a query at one node of the ease.
type groupsAtNode struct {
	total                float64   // of all that is known about the answers
	right                []float64 // that the answer of a group is right
	noneRight, noneWrong float64   // that no answer with a text is
}

// factors are the probabilities of what is known about a group, if its answer is right and if it is wrong.
type factors struct{ right, wrong float64 }

// factorsAt returns the factors of a group at node k. seen are those of its verdict and truth.
func (v *verdictModel) factorsAt(g *answerGroup, seen factors, k int) factors {
	right, wrong := 0.0, 0.0
	for _, m := range g.models {
		right, wrong = right+v.logRight[m][k], wrong+v.logWrong[m][k]
	}
	n := math.Sqrt(float64(len(g.models)))
	f := factors{seen.right * math.Exp(right/n), seen.wrong * math.Exp(wrong/n)}
	if g.text == "" {
		return f
	}
	f = factors{f.right * v.differ, f.wrong * (1 - v.repeat)}
	if len(g.models) > 1 {
		f = factors{f.right * (1 - v.differ), f.wrong * v.repeat}
	}
	return f
}

// atNode sets n to the probabilities of groups at node k, where at is scratch space. The probability that
// certain groups are right is a product of factors of the groups, up to those of the first right and of the
// first wrong group, which can neither differ from earlier ones nor repeat them.
func (v *verdictModel) atNode(groups []answerGroup, seen, at []factors, k int, n *groupsAtNode) {
	n.total = 1
	either, onlyRight, onlyWrong, texts := 1.0, 1.0, 1.0, 0
	for j := range groups {
		f := v.factorsAt(&groups[j], seen[j], k)
		at[j] = f
		if groups[j].text == "" {
			n.right[j] = f.right / (f.right + f.wrong)
			n.total *= f.right + f.wrong
			continue
		}
		either, onlyRight, onlyWrong, texts = either*(f.right+f.wrong), onlyRight*f.right, onlyWrong*f.wrong, texts+1
	}
	if texts == 0 {
		return
	}
	both := v.differ * (1 - v.repeat)
	texted := max(0, either-onlyRight-onlyWrong)/both + onlyRight/v.differ + onlyWrong/(1-v.repeat)
	for j, f := range at {
		if groups[j].text == "" || f.right == 0 {
			continue
		}
		others, otherRights := either/(f.right+f.wrong), onlyRight/f.right
		n.right[j] = min(1, f.right*(max(0, others-otherRights)/both+otherRights/v.differ)/texted)
	}
	n.noneRight, n.noneWrong = onlyWrong/(1-v.repeat)/texted, onlyRight/v.differ/texted
	n.total *= texted
}

// weigh returns the posterior of each node given the answers to a query, and the probabilities at each.
func (v *verdictModel) weigh(groups []answerGroup) (weight [easeNodes]float64, nodes [easeNodes]groupsAtNode) {
	scratch, rights := make([]factors, 2*len(groups)), make([]float64, easeNodes*len(groups))
	seen, at := scratch[:len(groups)], scratch[len(groups):]
	for j := range groups {
		seen[j] = v.likelihoods(&groups[j])
	}
	for k := range weight {
		nodes[k].right = rights[k*len(groups):][:len(groups)]
		v.atNode(groups, seen, at, k, &nodes[k])
		weight[k] = v.logPrior[k] + math.Log(nodes[k].total)
	}
	most, sum := slices.Max(weight[:]), 0.0
	for k, w := range weight {
		weight[k] = math.Exp(w - most)
		sum += weight[k]
	}
	for k := range weight {
		weight[k] /= sum
	}
	return weight, nodes
}

// expectations are the sums of a round over answers: by model and node those that are right and all; by
// verdict the right and the wrong groups; and how many right and wrong answers follow others of their
// kind, of which differ and repeat are shares.
type expectations struct {
	right, all          [][easeNodes]float64
	rights, wrongs      [verdictKinds]float64
	laterRight, differ  float64
	laterWrong, repeats float64
}

func (e *expectations) add(groups []answerGroup, k int, w float64, n *groupsAtNode) {
	rightGroups, wrongGroups, rights, wrongs := 0.0, 0.0, 0.0, 0.0
	for j := range groups {
		g, p := &groups[j], n.right[j]
		for _, m := range g.models {
			e.right[m][k] += w * p
			e.all[m][k] += w
		}
		e.rights[g.verdict] += w * p
		e.wrongs[g.verdict] += w * (1 - p)
		if size := float64(len(g.models)); g.text != "" {
			rightGroups, wrongGroups = rightGroups+p, wrongGroups+1-p
			rights, wrongs = rights+size*p, wrongs+size*(1-p)
		}
	}
	if rights+wrongs == 0 {
		return
	}
	anyRight, anyWrong := 1-n.noneRight, 1-n.noneWrong
	e.laterRight, e.differ = e.laterRight+w*(rights-anyRight), e.differ+w*(rightGroups-anyRight)
	e.laterWrong, e.repeats = e.laterWrong+w*(wrongs-anyWrong), e.repeats+w*(wrongs-wrongGroups)
}

// round is one round of expectation maximisation: the expectations of the answers, then a Newton step
// for slope and levels.
func (v *verdictModel) round(learns bool) {
	e := expectations{right: make([][easeNodes]float64, len(v.level)), all: make([][easeNodes]float64, len(v.level))}
	for _, groups := range v.queries {
		weight, nodes := v.weigh(groups)
		for k, w := range weight {
			e.add(groups, k, w, &nodes[k])
		}
	}
	if learns {
		v.rates = cascade.LearnRates(e.wrongs[verdictPass]+e.wrongs[verdictFail], e.wrongs[verdictPass], e.rights[verdictPass]+e.rights[verdictFail], e.rights[verdictFail])
	}
	v.differ, v.repeat = (e.differ+1)/(e.laterRight+2), (e.repeats+1)/(e.laterWrong+2) // one of each kind before
	slope, bend := usualSlope-v.slope, 1.0
	for m, level := range v.level {
		rise, curve, right, all := -levelPrecision*level, levelPrecision, 0.5, 1.0
		for k, z := range v.node {
			n := e.all[m][k]
			p := 1 / (1 + math.Exp(-v.slope*z-level))
			off, spread := e.right[m][k]-n*p, n*p*(1-p)
			slope, bend = slope+z*off, bend+z*z*spread
			rise, curve = rise+off, curve+spread
			right, all = right+e.right[m][k], all+n
		}
		v.level[m] += rise / curve
		v.share[m] = right / all
	}
	v.slope = max(0, v.slope+slope/bend)
}

// posteriors returns, for each answer of a table with the same models, the probability that it is right
// given all answers to its query, and its verdict; NaN means none.
func (v *verdictModel) posteriors(t *outcome.Table) (quality, verdicts [][]float64) {
	for q, answers := range judgedAnswers(t) {
		row, said := slices.Repeat([]float64{math.NaN()}, len(t.Models)), slices.Repeat([]float64{math.NaN()}, len(t.Models))
		groups := groupAnswers(t, q, answers)
		weight, nodes := v.weigh(groups)
		for j, g := range groups {
			right := 0.0
			for k, w := range weight {
				right += w * nodes[k].right[j]
			}
			for _, m := range g.models {
				row[m] = min(right, 1)
			}
		}
		for _, a := range answers {
			if a.verdict != verdictNone {
				said[a.model] = float64(a.verdict)
			}
		}
		quality, verdicts = append(quality, row), append(verdicts, said)
	}
	return quality, verdicts
}
