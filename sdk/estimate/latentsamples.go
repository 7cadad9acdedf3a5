package estimate

import (
	"math"

	"github.com/stepfall/stepfall/sdk"
)

// A model that may be asked several times for one query is several models that share
// all parameters. Given the ease of the query its answers are not independent: what it
// cannot do it fails at again. Each query gives the model a chance p of its own, drawn
// from the beta distribution whose mean is p_i(z, g) and that makes two answers
// correlated by Repeat; given that chance the answers are independent. So a first
// answer is believed as that of any model, and how many of n are right is
// beta-binomial, in closed form.

// repeats are the answers of one model that may be asked several times, the first one
// first.
type repeats struct {
	arms []int
	// sets holds, for each group and node, the probability that exactly some s of the
	// answers are right: those of one particular set.
	sets [][][]float64 // group, node, s
}

// findRepeats lists the models that may be asked several times, and for each model
// its place in the list, -1 for others.
func findRepeats(first []int) (list []repeats, of []int) {
	of = make([]int, len(first))
	count := make([]int, len(first))
	for _, f := range first {
		count[f]++
	}
	for i, f := range first {
		of[i] = -1
		if f == i && count[i] > 1 {
			of[i] = len(list)
			list = append(list, repeats{arms: []int{i}})
		}
	}
	for i, f := range first {
		if f != i {
			of[i] = of[f]
			list[of[i]].arms = append(list[of[i]].arms, i)
		}
	}
	return list, of
}

// firstSamples returns for each model the one whose further answer it is; nil where no
// model is asked twice.
func firstSamples(models []string) []int {
	first := sdk.Samples(models)
	for i, f := range first {
		if f != i {
			return first
		}
	}
	return nil
}

// betaBinomial fills in the probability that some s of n answers are right and the
// others wrong, where each is right with probability p and any two are correlated.
func betaBinomial(dst []float64, p, correlation float64) {
	n, theta := len(dst)-1, correlation/(1-correlation)
	for s := range dst {
		x := 1.0
		for a := range s {
			x *= p + float64(a)*theta
		}
		for b := range n - s {
			x *= 1 - p + float64(b)*theta
		}
		for c := range n {
			x /= 1 + float64(c)*theta
		}
		dst[s] = x
	}
}

// prepareRepeats works out the tables of the models that may be asked several times.
func (e *latent) prepareRepeats(t *latentTables) {
	if e.Sample == nil {
		return
	}
	t.repeats, t.repeatOf = findRepeats(e.Sample)
	for f := range t.repeats {
		r := &t.repeats[f]
		for g := range e.Mean {
			nodes := square2(len(e.Nodes), len(r.arms)+1)
			for k := range nodes {
				betaBinomial(nodes[k], t.p[g][r.arms[0]][k], e.Repeat[r.arms[0]])
			}
			r.sets = append(r.sets, nodes)
		}
	}
}

// repeated returns the answers of which model i's is one, nil for a model that is
// asked once.
func (t *latentTables) repeated(i int) *repeats {
	if t.repeats == nil || t.repeatOf[i] < 0 {
		return nil
	}
	return &t.repeats[t.repeatOf[i]]
}

// counter sums over which of a model's answers are right.
type counter []float64

// reset begins with no answers; grow takes in one, by how likely what was seen of it
// is if it is right and if it is wrong.
func (c *counter) reset() { *c = append((*c)[:0], 1) }

func (c *counter) grow(right, wrong float64) {
	*c = append(*c, 0)
	x := *c
	for s := len(x) - 1; s > 0; s-- {
		x[s] = x[s]*wrong + x[s-1]*right
	}
	x[0] *= wrong
}

// times is the sum over how many are right, where further ones are known to be.
func (c counter) times(sets []float64, further int) float64 {
	sum := 0.0
	for s, x := range c {
		sum += x * sets[s+further]
	}
	return sum
}

// seen returns how likely what was seen of model i's answer is, if right and if wrong,
// under a hypothesis on which cluster is right, -1 for none of them at all.
func (c *latentCursor) seen(i, hypothesis, k int) (right, wrong float64) {
	right, wrong = c.right[i][k], c.wrong[i][k]
	if hypothesis < 0 || c.clusters.of[i] < 0 {
		return right, wrong
	}
	differ := c.Agree[c.group].Differ
	if c.clusters.of[i] == hypothesis-1 {
		return right * (1 - differ), 0
	}
	return right * differ, wrong
}

// together is how likely what was seen of a model's answers is.
func (c *latentCursor) together(r *repeats, hypothesis, k int) float64 {
	c.counter.reset()
	for _, i := range r.arms {
		c.counter.grow(c.seen(i, hypothesis, k))
	}
	return c.counter.times(r.sets[c.group][k], 0)
}

// share is the probability that answer i of a model that may be asked several times is
// right, given the ease and a hypothesis.
func (c *latentCursor) share(r *repeats, i, hypothesis, k int) float64 {
	c.counter.reset()
	for _, j := range r.arms {
		if j != i {
			c.counter.grow(c.seen(j, hypothesis, k))
		}
	}
	right, wrong := c.seen(i, hypothesis, k)
	sets := r.sets[c.group][k]
	right *= c.counter.times(sets, 1)
	wrong *= c.counter.times(sets, 0)
	if right+wrong == 0 {
		return 0
	}
	return right / (right + wrong)
}

// repeatMean is the probability that the answer of a model that may be asked several
// times is right.
func (c *latentCursor) repeatMean(r *repeats, i int) float64 {
	mean := 0.0
	if !c.inClusters(i) {
		for k, w := range c.weight {
			mean += w * c.share(r, i, -1, k)
		}
		return mean
	}
	for h := range len(c.clusters.size) + 1 {
		for k, m := range c.clusters.mass[h] {
			if m > 0 {
				mean += m * c.share(r, i, h, k)
			}
		}
	}
	return min(mean, 1)
}

// inClusters reports whether an answer of the model is in a cluster.
func (c *latentCursor) inClusters(i int) bool {
	if c.clusters == nil {
		return false
	}
	r := c.tables.repeated(i)
	if r == nil {
		return c.clusters.of[i] >= 0
	}
	for _, j := range r.arms {
		if c.clusters.of[j] >= 0 {
			return true
		}
	}
	return false
}

// copied returns the share of the model's wrong answers so far that are in a cluster,
// those of the right cluster left out, and whether there are any.
func (c *latentCursor) copied(r *repeats, before []int, cluster, right int) (share float64, any bool) {
	n, same := 0.0, 0.0
	for _, j := range before {
		of := c.clusters.of[j]
		if of == right || c.tables.repeated(j) != r {
			continue
		}
		n++
		if of == cluster {
			same++
		}
	}
	if n == 0 {
		return 0, false
	}
	return same / n, true
}

// partitionRepeats is [clusters.partition] where models may be asked several times: a
// wrong answer is with probability Repeat that of an earlier try of its model, and
// else comes as any other.
func (c *latentCursor) partitionRepeats(a *agreement, right int) float64 {
	log, n := 0.0, 0.0
	size := c.sizes[:0]
	for range c.clusters.size {
		size = append(size, 0)
	}
	for at, i := range c.clusters.order {
		cluster := c.clusters.of[i]
		if cluster == right {
			continue
		}
		p := size[cluster]
		if p == 0 {
			p = a.Spread
		}
		p /= n + a.Spread
		if r := c.tables.repeated(i); r != nil {
			if same, any := c.copied(r, c.clusters.order[:at], cluster, right); any {
				p = a.Repeat*same + (1-a.Repeat)*p
			}
		}
		log += math.Log(p)
		size[cluster]++
		n++
	}
	c.sizes = size
	return log
}

// Priors of the correlations of a model's answers: as if so many pairs had shown it.
const (
	repeatPrior  = 5
	usualRepeat  = 0.3
	mostRepeat   = 0.95
	leastRepeats = 0.01
)

// repeatMoments are what the correlation of a model's answers is taken from.
type repeatMoments struct{ product, variance float64 }

// add takes in two outcomes of a model whose chance is p, with a weight.
func (m *repeatMoments) add(weight, p, a, b float64) {
	m.product += weight * (a - p) * (b - p)
	m.variance += weight * p * (1 - p)
}

func (m *repeatMoments) correlation() float64 {
	return min(max((m.product+repeatPrior*usualRepeat)/(m.variance+repeatPrior), leastRepeats), mostRepeat)
}

// logRepeats adds to the log weights of the nodes what a query's outcomes of a model
// that is asked several times tell.
func (f *latentFit) logRepeats(logs []float64, r *repeats, g int, row []float64) {
	for k := range logs {
		f.counter.reset()
		for _, i := range r.arms {
			if v := row[i]; math.IsNaN(v) {
				f.counter.grow(1, 1)
			} else {
				f.counter.grow(v, 1-v)
			}
		}
		logs[k] += math.Log(max(f.counter.times(r.sets[g][k], 0), math.SmallestNonzeroFloat64))
	}
}

// learnRepeats takes in how a query's outcomes of such a model go together.
func (f *latentFit) learnRepeats(m *repeatMoments, r *repeats, g int, row, weight []float64) {
	for a, i := range r.arms {
		for _, j := range r.arms[:a] {
			if math.IsNaN(row[i]) || math.IsNaN(row[j]) {
				continue
			}
			for k, w := range weight {
				m.add(w, f.tables.p[g][i][k], row[i], row[j])
			}
		}
	}
}

// pool adds what the outcomes of all answers of a model come to into those of its
// first, by group, model and node.
func (r *repeats) pool(sums [][][]float64) {
	for g := range sums {
		for _, i := range r.arms[1:] {
			for k, v := range sums[g][i] {
				sums[g][r.arms[0]][k] += v
			}
		}
	}
}

// sameAsFirst gives all answers of a model the parameters of its first.
func (e *latent) sameAsFirst(r *repeats, correlation float64) {
	first := r.arms[0]
	e.Repeat[first] = correlation
	for _, i := range r.arms[1:] {
		e.Base[i], e.Slope[i], e.Repeat[i] = e.Base[first], e.Slope[first], correlation
		for g := range e.Shift {
			e.Shift[g][i] = e.Shift[g][first]
		}
	}
}

// armsOf are the answers that share model i's parameters.
func (e *latent) armsOf(i int) []int {
	if r := e.tables.repeated(i); r != nil {
		return r.arms
	}
	return []int{i}
}

// validSamples reports whether a profile's samples can be read: each is of a model
// that is its own, and correlations are below 1.
func validSamples(first []int, repeat []float64) bool {
	for i, f := range first {
		if f < 0 || f >= len(first) || first[f] != f || !(repeat[i] >= 0 && repeat[i] < 1) {
			return false
		}
	}
	return true
}

// average gives all answers of a model the mean of what is known of each.
func (r *repeats) average(values []float64) {
	mean := 0.0
	for _, i := range r.arms {
		mean += values[i] / float64(len(r.arms))
	}
	for _, i := range r.arms {
		values[i] = mean
	}
}

// columns are the columns of all answers of model i, one after the other.
func (f *latentFit) columns(matrix [][]float64, i int) []float64 {
	var all []float64
	for _, j := range f.armsOf(i) {
		all = append(all, column(matrix, j)...)
	}
	return all
}
