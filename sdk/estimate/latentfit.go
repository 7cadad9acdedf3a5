package estimate

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// The size of the fit of latent, and the precisions of its priors.
const (
	latentNodes      = 21
	latentSpan       = 3.5
	latentRounds     = 40
	sharedRounds     = 10 // Shared is fitted once in so many rounds
	basePrecision    = 0.05
	armPrecision     = 2  // shrinks the efforts of a model towards one another
	shiftPrecision   = 2  // initial; shrinks the shifts of a model in groups to 0
	groupPrecision   = 1  // shrinks group means to 0
	lengthPrecision  = 10 // shrinks the effects of the prompt's length to 0
	textPrecision    = 2  // shrinks the coefficient of the text's prediction to 0
	troublePrecision = 2  // shrinks the effect of troubles with tools to 0
)

// easeNodes returns the nodes: the values of the ease that have weights.
func easeNodes() []float64 {
	nodes := make([]float64, latentNodes)
	for k := range nodes {
		nodes[k] = latentSpan * (2*float64(k)/(latentNodes-1) - 1)
	}
	return nodes
}

// fit fits by expectation maximisation, alternating the weights of the nodes given
// all outcomes of a query with each model's logistic regression on the nodes.
func (e *latent) fit(t *outcome.Table, o Options) error {
	n := len(t.Models)
	e.Nodes, e.Base, e.Slope, e.Verified = easeNodes(), make([]float64, n), make([]float64, n), t.Judged()
	if e.Family = familiesOf(t.Models); e.Family != nil {
		e.Shared = slices.Repeat([]float64{usualShared}, n)
	}
	e.Groups = groupsOf(t)
	e.Mean = make([]float64, len(e.Groups)+1)
	e.Shift = zeros(len(e.Mean), n)
	for i, v := range t.MeanQualities() {
		e.Base[i], e.Slope[i] = logit(v), 1
	}
	e.PerLength = make([]perLength, len(e.Mean))
	if t.ToolTroubles != nil {
		e.PerTrouble = make([]float64, len(e.Mean))
	}
	f := &latentFit{latent: e, slopes: latentPrior{slope: 1, precision: 2}, shifts: shiftPrecision, t: t, group: make([]int, len(t.Queries)), ease: make([]float64, len(t.Queries))}
	f.weight = zeros(len(t.Queries), len(e.Nodes))
	f.tries, f.of = triesOf(t.Models), make([]int, n)
	for k, tries := range f.tries {
		for _, i := range tries {
			f.of[i] = k
		}
	}
	e.prepare()
	lengths := make([]moments, len(e.Mean))
	f.logTokens, f.members = make([]float64, len(t.Queries)), make([][]int, len(e.Mean))
	for q := range t.Queries {
		f.group[q] = e.Groups.groupOf(t.Group(q))
		f.members[f.group[q]] = append(f.members[f.group[q]], q)
		f.logTokens[q] = logOf(promptTokens(t, q))
		lengths[f.group[q]].add(f.logTokens[q])
	}
	for g := range lengths {
		e.PerLength[g].Center = lengths[g].mean
	}
	for n := range latentRounds {
		f.round()
		if n%sharedRounds == sharedRounds-1 {
			f.learnShared()
		}
	}
	if t.Prompts != nil {
		f.fitText(o.Seed)
	}
	if !t.Judged() {
		f.fitSignals()
	}
	if !t.Verified {
		f.Evidence = f.fitEvidence()
	}
	for name, verdicts := range t.Verdicts {
		if _, known := o.Judges[name]; known || len(t.Verdicts) > 1 {
			continue
		}
		if e.Misreads = fitMisreads(t, verdicts); e.Misreads != nil {
			e.Nodes = append(e.Nodes, e.Nodes...)
		}
	}
	e.prepare()
	if !t.Judged() && f.Post == nil && (f.Lengths != nil || f.Agree != nil || f.Evidence != nil && f.Evidence.free() > 0) {
		f.fitChange()
	}
	return nil
}

type latentFit struct {
	*latent
	t         *outcome.Table
	group     []int
	members   [][]int     // group: its queries
	logTokens []float64   // of each prompt, NaN if unknown
	text      []float64   // out-of-fold prediction of the ease from each prompt's words; nil without
	weight    [][]float64 // query, node: posterior given all outcomes
	ease      []float64   // query: its posterior mean
	slopes    latentPrior
	shifts    float64 // precision
	tries     [][]int // the models, each with its further samples
	of        []int   // model: its index in tries
}

// textRounds is the number of rounds that adjust everything else to the text's predictions.
const textRounds = 10

// fitText regresses the ease on the words of the prompts, beyond group and length.
func (f *latentFit) fitText(seed uint64) {
	rest := make([]float64, len(f.ease))
	for q, z := range f.ease {
		rest[q] = z - f.priorMean(q)
	}
	f.Text, f.text = fitText(f.t.Prompts, rest, f.t.Folds(textFolds, seed))
	if f.Text == nil {
		return
	}
	f.PerText = make([]float64, len(f.Mean))
	f.regressEase()
	for range textRounds {
		f.round()
	}
}

// round is one round of expectation maximisation.
func (f *latentFit) round() {
	f.prepare()
	n, nodes, groups := len(f.Base), len(f.Nodes), len(f.Mean)
	// By group, model and node: the weight of all outcomes, and of the good ones.
	all, good := cube(groups, n, nodes), cube(groups, n, nodes)
	// The log-probability of a bad outcome, and by how much that of a good one is
	// greater: the log odds, which are linear in the ease.
	bad, odds := cube(groups, n, nodes), cube(groups, n, nodes)
	for g := range bad {
		for i := range bad[g] {
			level := f.Base[i] + f.Shift[g][i]
			for k, p := range f.tables.p[g][i] {
				bad[g][i][k], odds[g][i][k] = math.Log1p(-p), level+f.Slope[i]*f.Nodes[k]
			}
		}
	}
	logs := make([]float64, nodes)
	for q, row := range f.t.Quality {
		g, weight := f.group[q], f.weight[q]
		f.prior(logs, f.priorMean(q))
		for i, v := range row {
			if math.IsNaN(v) || f.tables.family(i) != nil {
				continue
			}
			bad, odds := bad[g][i][:nodes], odds[g][i][:nodes]
			for k := range logs {
				logs[k] += bad[k] + v*odds[k]
			}
		}
		for n := range f.tables.families {
			f.logFamily(logs, &f.tables.families[n], q)
		}
		softmax(weight, logs)
		f.ease[q] = 0
		for k, w := range weight {
			f.ease[q] += w * f.Nodes[k]
		}
		for i, v := range row {
			if !math.IsNaN(v) {
				addTo(all[g][i], weight, 1)
				addTo(good[g][i], weight, v)
			}
		}
	}
	for _, tries := range f.tries {
		for g := range all {
			for _, i := range tries[1:] {
				addTo(all[g][tries[0]], all[g][i], 1)
				addTo(good[g][tries[0]], good[g][i], 1)
			}
		}
		f.regress(tries[0], all, good)
	}
	for _, tries := range f.tries { // all samples of a model have the parameters of the first
		first := tries[0]
		for _, i := range tries[1:] {
			f.Base[i], f.Slope[i] = f.Base[first], f.Slope[first]
			for g := range f.Shift {
				f.Shift[g][i] = f.Shift[g][first]
			}
		}
	}
	f.regressEase()
	f.learnPrior(all)
}

// addTo adds by·x to sum.
func addTo(sum, x []float64, by float64) {
	x = x[:len(sum)]
	for k := range sum {
		sum[k] += x[k] * by
	}
}

// priorMean returns the prior mean ease of a query of the table.
func (f *latentFit) priorMean(q int) float64 {
	g := f.group[q]
	mean := f.Mean[g]
	if x := f.logTokens[q]; !math.IsNaN(x) {
		mean += f.PerLength[g].Slope * (x - f.PerLength[g].Center)
	}
	if f.PerTrouble != nil {
		mean += f.PerTrouble[g] * math.Log1p(f.t.Troubles(q))
	}
	if f.text != nil {
		mean += f.PerText[g] * f.text[q]
	}
	return mean
}

// regressEase regresses the ease on the group, the length of the prompt, its words and
// the earlier troubles of the run.
func (f *latentFit) regressEase() {
	for g := range f.Mean {
		// Normal equations of [1, length, words, troubles] with ridge.
		a, b := square(4), make([]float64, 4)
		for _, q := range f.members[g] {
			x := [4]float64{1, f.logTokens[q] - f.PerLength[g].Center, 0, math.Log1p(f.t.Troubles(q))}
			if math.IsNaN(x[1]) {
				x[1] = 0
			}
			if f.text != nil {
				x[2] = f.text[q]
			}
			for i := range x {
				for j := i; j < len(x); j++ {
					a[i][j] += x[i] * x[j]
				}
				b[i] += x[i] * f.ease[q]
			}
		}
		a[0][0] += groupPrecision
		a[1][1] += lengthPrecision
		a[2][2] += textPrecision
		a[3][3] += troublePrecision
		c := solve(a, b)
		if c == nil || len(f.members[g]) == 0 {
			continue
		}
		f.Mean[g], f.PerLength[g].Slope = c[0], c[1]
		if f.text != nil {
			f.PerText[g] = c[2]
		}
		if f.PerTrouble != nil {
			f.PerTrouble[g] = c[3]
		}
		if g == len(f.Groups) && len(f.Groups) > 0 {
			f.Mean[g] = 0
		}
	}
}

// regress does two Newton steps of model i's penalised logistic regression. The second
// derivatives of the shifts are diagonal: they are eliminated first.
func (f *latentFit) regress(i int, all, good [][][]float64) {
	groups := len(f.Groups)
	shift := make([]struct{ grad, base, slope float64 }, groups) // and second derivatives
	for range 2 {
		grad := []float64{-basePrecision * f.Base[i], -f.slopes.precision * (f.Slope[i] - f.slopes.slope)}
		hess := [][]float64{{basePrecision, 0}, {0, f.slopes.precision}}
		if like, known := f.otherArms(i); known {
			grad[0] -= armPrecision * (f.Base[i] - like)
			hess[0][0] += armPrecision
		}
		for g := range all {
			var r0, r1, h0, h1, h2 float64
			for k, z := range f.Nodes {
				w := all[g][i][k]
				p := sigmoid(f.Base[i] + f.Slope[i]*z + f.Shift[g][i])
				r, h := good[g][i][k]-w*p, w*p*(1-p)
				r0, r1, h0, h1, h2 = r0+r, r1+r*z, h0+h, h1+h*z, h2+h*z*z
			}
			grad[0], grad[1] = grad[0]+r0, grad[1]+r1
			hess[0][0], hess[0][1], hess[1][1] = hess[0][0]+h0, hess[0][1]+h1, hess[1][1]+h2
			if g == groups {
				continue
			}
			own, precise := &shift[g], h0+f.shifts
			own.grad, own.base, own.slope = (r0-f.shifts*f.Shift[g][i])/precise, h0/precise, h1/precise
			grad[0], grad[1] = grad[0]-h0*own.grad, grad[1]-h1*own.grad
			hess[0][0], hess[0][1], hess[1][1] = hess[0][0]-h0*own.base, hess[0][1]-h0*own.slope, hess[1][1]-h1*own.slope
		}
		step := solve(hess, grad)
		if step == nil {
			return
		}
		f.Base[i] += limit(step[0])
		f.Slope[i] = max(0, f.Slope[i]+limit(step[1]))
		for g, own := range shift {
			f.Shift[g][i] += limit(own.grad - own.base*step[0] - own.slope*step[1])
		}
	}
}

func limit(x float64) float64 { return min(max(x, -2), 2) }

func logit(p float64) float64 {
	p = min(max(p, 0.01), 0.99)
	return math.Log(p / (1 - p))
}

func cube(a, b, c int) [][][]float64 {
	out := make([][][]float64, a)
	for i := range out {
		out[i] = make([][]float64, b)
		for j := range out[i] {
			out[i][j] = make([]float64, c)
		}
	}
	return out
}

func square(n int) [][]float64 {
	return zeros(n, n)
}

// minusDot subtracts the inner product of b and the start of a from s, term by term.
func minusDot(s float64, a, b []float64) float64 {
	for k, v := range b {
		s -= a[k] * v
	}
	return s
}

// solve solves a·x = b by Cholesky decomposition, for a symmetric positive definite a,
// of which it reads only the upper half. It returns nil if a is not definite.
func solve(a [][]float64, b []float64) []float64 {
	n := len(b)
	l := square(n)
	for i := range n {
		for j := range i {
			l[i][j] = minusDot(a[j][i], l[i], l[j][:j]) / l[j][j]
		}
		s := minusDot(a[i][i], l[i], l[i][:i])
		if !(s > 0) {
			return nil
		}
		l[i][i] = math.Sqrt(s)
	}
	x := slices.Clone(b)
	for i := range n {
		x[i] = minusDot(x[i], l[i], x[:i]) / l[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= l[k][i] * x[k]
		}
		x[i] /= l[i][i]
	}
	return x
}

// latentPrior is the prior of the slopes of latent. Few outcomes leave single slopes
// uncertain, and the distribution over all models is the best guess then.
type latentPrior struct{ slope, precision float64 }

// learnPrior fits the prior to the slopes (empirical Bayes), with the curvature of the
// likelihood as the uncertainty of each. all has the weights of the outcomes by group,
// model and node.
func (f *latentFit) learnPrior(all [][][]float64) {
	// A pseudo-observation of slope 1, and one a unit away from the mean, regularise
	// the prior for few models.
	sum, squares := 1.0, 1.0
	for _, s := range f.Slope {
		sum += s
	}
	n := float64(len(f.Slope))
	mean := sum / (n + 1)
	for i, s := range f.Slope {
		information := f.slopes.precision
		for g := range f.Mean {
			for k, w := range all[g][i] {
				p, z := f.tables.p[g][i][k], f.Nodes[k]
				information += w * p * (1 - p) * z * z
			}
		}
		squares += (s-mean)*(s-mean) + 1/information
	}
	f.slopes = latentPrior{slope: mean, precision: (n + 2) / squares}
	f.learnShifts(all)
}

// learnShifts fits the precision of the prior of the shifts of models in groups in the same
// way, with pseudo-observations of the usual size.
func (f *latentFit) learnShifts(all [][][]float64) {
	const usual = 20
	n, squares := float64(usual), usual/float64(shiftPrecision)
	for g := range f.Groups {
		for i := range f.Base {
			information := f.shifts
			for k, w := range all[g][i] {
				p := f.tables.p[g][i][k]
				information += w * p * (1 - p)
			}
			squares += f.Shift[g][i]*f.Shift[g][i] + 1/information
			n++
		}
	}
	f.shifts = n / squares
}
