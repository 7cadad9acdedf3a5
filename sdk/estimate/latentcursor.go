package estimate

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// certain keeps verdicts off 0 and 1, so that they cannot rule out every node.
const certain = 1e-6

func (e *latent) Cursor() qualityCursor {
	n, k := len(e.Base), len(e.Nodes)
	c := &latentCursor{
		latent: e, log: make([]float64, k), weight: make([]float64, k), ran: make([]bool, n), verdict: make([]float64, n),
		right: zeros(n, k), wrong: zeros(n, k), taken: zeros(n, k),
	}
	if e.Text != nil {
		c.text = newTextReader(e.Text)
	}
	if e.Evidence != nil {
		c.evidence = newEvidenceCursor(e.Evidence, n)
	}
	if e.Agree != nil {
		c.clusters = newClusters(n, k)
		c.partitions = make([]float64, n+1)
		c.jointRight, c.jointWrong = make([]float64, n+1), make([]float64, n+1)
	}
	return c
}

// latentCursor holds the log weights of the nodes and, for each model and node, the
// likelihoods of the model's observations if its answer is right and if it is wrong.
// The log weights leave out the models in clusters.
type latentCursor struct {
	*latent
	group        int
	text         *textReader // nil without text
	log, weight  []float64
	right, wrong [][]float64 // model, node
	taken        [][]float64 // model, node: the model's part of the log weights
	ran          []bool
	verdict      []float64       // NaN if there is none
	evidence     *evidenceCursor // nil without evidence
	clusters     *clusters       // nil without agreement
	partitions   []float64       // hypothesis
	jointRight   []float64
	jointWrong   []float64
	shares       []float64 // of a family's members
	sizes        []float64
	rightAt      []float64 // node: probability that the best answer so far is right
}

func (c *latentCursor) Begin(q *queryFacts) {
	c.group = c.Groups.groupOf(q.Group)
	ease := c.ease(c.group, q.InputTokens, q.Troubles)
	if c.text != nil {
		ease += c.PerText[c.group] * c.text.at(q)
	}
	c.prior(c.log, ease)
	for i := range c.ran {
		c.ran[i], c.verdict[i] = false, math.NaN()
		for k := range c.log {
			c.right[i][k], c.wrong[i][k] = 1, 1
		}
		clear(c.taken[i])
	}
	if c.Ante != nil && q.Ante != nil { // after all are set, since forget and recall act on whole families
		for i := range c.ran {
			right, wrong := c.Ante[i].likelihoods(q.Ante[i])
			c.forget(i)
			c.scale(i, right, wrong)
			c.recall(i)
		}
	}
	if c.clusters != nil {
		c.clusters.reset()
	}
	if c.evidence != nil {
		c.evidence.begin()
	}
}

// forget removes the likelihood of a model, or of its family, from the log weights; recall adds it again.
func (c *latentCursor) forget(i int) {
	if f := c.tables.family(i); f != nil {
		for k := range c.log {
			c.log[k] -= math.Log(c.together(f, -1, k))
		}
		return
	}
	for k, l := range c.taken[i] {
		c.log[k] -= l
	}
}

func (c *latentCursor) recall(i int) {
	if f := c.tables.family(i); f != nil {
		for k := range c.log {
			c.log[k] += math.Log(c.together(f, -1, k))
		}
		return
	}
	for k, p := range c.tables.p[c.group][i] {
		c.taken[i][k] = math.Log(p*c.right[i][k] + (1-p)*c.wrong[i][k])
		c.log[k] += c.taken[i][k]
	}
}

// scale multiplies a model's likelihoods.
func (c *latentCursor) scale(i int, right, wrong float64) {
	for k := range c.log {
		c.right[i][k] *= right
		c.wrong[i][k] *= wrong
	}
}

// revise calls change, which changes a model's likelihoods, while these are out of the log
// weights. Those of models in clusters always are.
func (c *latentCursor) revise(model int, change func()) {
	if !c.inClusters(model) {
		c.forget(model)
	}
	change()
	if !c.inClusters(model) {
		c.recall(model)
	}
}

func (c *latentCursor) Observe(model int, r *runFacts) {
	c.ran[model] = true
	c.revise(model, func() { c.observe(model, r) })
}

func (c *latentCursor) observe(model int, r *runFacts) {
	if !math.IsNaN(r.Verdict) {
		v := min(max(r.Verdict, certain), 1-certain)
		c.verdict[model] = r.Verdict
		for k := range c.log {
			c.right[model][k], c.wrong[model][k] = v, 1-v
		}
		return
	}
	if r.IfRight > 0 || r.IfWrong > 0 {
		c.updateMisread(model, r.IfRight, r.IfWrong)
	}
	if c.Post != nil {
		right, wrong := c.Post[model].likelihoods(r.Post)
		c.scale(model, right, wrong)
	}
	if c.evidence != nil {
		c.multiply(model, c.evidence.addSignals(model, 0, c.evidence.free(), r.Signals))
	}
	if c.Lengths != nil && r.OutputTokens > 0 {
		x, l := math.Log(r.OutputTokens), &c.Lengths[model].Group[c.group]
		for k, z := range c.Nodes {
			right, wrong := l.likelihoods(z, x)
			c.right[model][k] *= right
			c.wrong[model][k] *= wrong
		}
	}
	empty := c.Empty != nil && c.Empty[c.group]
	if c.NoAnswer != nil && !empty {
		right, wrong := c.NoAnswer[model].likelihoods(r.Answer == "")
		c.scale(model, right, wrong)
	}
	if c.clusters != nil && (r.Answer != "" || empty) {
		c.clusters.add(model, r.Answer)
		a := &c.Agree[c.group]
		base := c.partition(a, -1)
		c.partitions[0] = 1
		for h := range c.clusters.size {
			c.partitions[h+1] = math.Exp(c.partition(a, h) - base)
		}
	}
}

func (c *latentCursor) Beliefs(dst []cascade.Belief) {
	c.means(dst)
	clustered := c.hasClusters()
	scale := c.Gain.at(slices.Contains(c.ran, true))
	c.fillShared(dst)
	for i := range dst {
		if !math.IsNaN(c.verdict[i]) {
			continue
		}
		if c.evidence != nil {
			dst[i].Look = c.evidence.look(i, dst[i].Mean, c.ran[i])
		}
		if c.Verified {
			continue
		}
		if !c.ran[i] {
			dst[i].StdDev = scale * c.deviation(i, dst[i].Mean, clustered)
			dst[i].Look.StdDev *= scale
		}
	}
}

// byAgreement reports whether a single answer has no signal of its quality.
func (c *latentCursor) byAgreement() bool {
	return !c.Verified && c.Post == nil && c.evidence == nil && c.Lengths == nil && c.NoAnswer == nil
}

func (c *latentCursor) hasClusters() bool { return c.clusters != nil && len(c.clusters.order) > 0 }

// means is a cheaper Beliefs without deviations and looks.
func (c *latentCursor) means(dst []cascade.Belief) {
	clustered := c.hasClusters()
	if clustered {
		c.weigh()
	} else {
		softmax(c.weight, c.log)
	}
	for i := range dst {
		switch {
		case !math.IsNaN(c.verdict[i]):
			dst[i] = cascade.Belief{Mean: c.verdict[i]}
		case c.tables.family(i) != nil:
			// Set below, with its family.
		case clustered && c.clusters.of[i] >= 0:
			dst[i] = cascade.Belief{Mean: c.ranQuality(i)}
		default:
			mean := 0.0
			for k, p := range c.tables.p[c.group][i] {
				right, wrong := p*c.right[i][k], (1-p)*c.wrong[i][k]
				mean += c.weight[k] * right / (right + wrong)
			}
			dst[i] = cascade.Belief{Mean: mean, Bernoulli: c.Verified && !c.ran[i]}
		}
	}
	for n := range c.tables.families {
		own := &c.tables.families[n]
		c.shares = append(c.shares[:0], make([]float64, len(own.members))...)
		c.familyMeans(c.shares, own)
		for a, i := range own.members {
			if math.IsNaN(c.verdict[i]) {
				dst[i] = cascade.Belief{Mean: min(c.shares[a], 1), Bernoulli: c.Verified && !c.ran[i]}
			}
		}
	}
}

// multiply multiplies a model's likelihoods by the given log odds.
func (c *latentCursor) multiply(model int, log float64) {
	c.scale(model, sigmoid(log), sigmoid(-log))
}

// Look adds the next bought signal, from those in [runFacts], of the answer of a model that has run. If it
// has no value, it is not offered again on this query.
func (c *latentCursor) Look(model int, signals []float64) {
	if c.evidence == nil || !c.ran[model] || c.evidence.bought[model] == len(c.evidence.CostUSD) {
		return
	}
	if next := c.evidence.bought[model]; math.IsNaN(signals[c.evidence.free()+next]) {
		c.evidence.silent[next] = true
		return
	}
	c.revise(model, func() {
		at := c.evidence.free() + c.evidence.bought[model]
		c.evidence.bought[model]++
		change := c.evidence.addSignals(model, at, at+1, signals)
		if math.IsNaN(c.verdict[model]) {
			c.multiply(model, change)
		}
	})
}

// Offered returns the name of the signal of the model's answer that can be bought next, or "".
func (c *latentCursor) Offered(model int) string {
	if c.evidence == nil || c.evidence.bought[model] == len(c.evidence.CostUSD) {
		return ""
	}
	return c.evidence.Names[c.evidence.free()+c.evidence.bought[model]]
}

// look returns the look that can be bought next at a model's answer, whose estimate is mean.
func (n *evidenceCursor) look(model int, mean float64, ran bool) cascade.Look {
	at, apart := n.bought[model], n.first[model]
	if ran {
		apart = n.next[model]
	}
	if at == len(n.CostUSD) || n.silent[at] {
		return cascade.Look{}
	}
	look := cascade.Look{StdDev: oddsSpread(mean, apart), CostUSD: n.CostUSD[at][model]}
	if v := n.verdict(n.free() + at); v != nil {
		pass, passed, failed := v.Look(min(max(mean, 0), 1))
		look.StdDev = math.Sqrt(pass*(1-pass)) * (passed - failed)
		look.Bernoulli, look.Judge = true, v.Rates
	}
	return look
}

func (c *latentCursor) deviation(i int, mean float64, clustered bool) float64 {
	dev := 0.0
	switch {
	case c.Post != nil:
		dev = c.tables.post[i].at(mean)
	case c.Change != nil:
		dev = c.Change[c.group][i]
	}
	if clustered {
		return math.Hypot(dev, c.agreementDev(i, mean))
	}
	if c.tables.pair != nil {
		return math.Hypot(dev, c.tables.pair[c.group][i])
	}
	return dev
}

func zeros(n, m int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, m)
	}
	return out
}

// fillShared sets Shared: the share of the information in a verdict on a model that has not
// run that also applies to the best answer so far. If b is 1 if that answer is right, i is
// 1 if the other one is, and V is 1 if the other one passes,
//
//	Shared = Cov(b, V) / Cov(i, V),
//
// which is Cov(b, i) / Var(i) if the judge has the same error rates on all queries. Given
// the node, the two answers are independent.
func (c *latentCursor) fillShared(dst []cascade.Belief) {
	best := -1
	for i, ran := range c.ran {
		if ran && (best < 0 || dst[i].Mean > dst[best].Mean) {
			best = i
		}
	}
	bought := c.evidence != nil && c.evidence.Verdicts != nil
	if best < 0 || !math.IsNaN(c.verdict[best]) || !c.Verified && !bought {
		return
	}
	right := c.rightAt[:0] // and the node
	for k, p := range c.tables.p[c.group][best] {
		ifRight, ifWrong := p*c.right[best][k], (1-p)*c.wrong[best][k]
		right = append(right, c.weight[k]*ifRight/(ifRight+ifWrong))
	}
	c.rightAt = right
	for i := range dst {
		if c.ran[i] {
			continue
		}
		var pass, both, own float64
		for k, p := range c.tables.p[c.group][i] {
			rates := c.Misreads.rates(k >= len(c.Nodes)/2)
			passes := p*(1-rates.FalseReject) + (1-p)*rates.FalsePass
			pass += c.weight[k] * passes
			both += right[k] * passes
			own += c.weight[k] * p * (1 - rates.FalseReject)
		}
		if own -= dst[i].Mean * pass; own > 0 {
			dst[i].Shared = min(max((both-dst[best].Mean*pass)/own, 0), 1)
		}
	}
}
