package estimate

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// The samples and the efforts of one model are a family. Their answers are not independent
// given the ease of the query: a model that cannot solve it fails again. On each query a
// family has a factor u ~ N(0, 1), and given both, a member is right with probability
//
//	Φ((Φ⁻¹(p_i(z, g)) + sqrt(Shared)·u) / sqrt(1 - Shared)),
//
// whose mean over u is p_i(z, g), so the estimate of a first answer is that of any model.

// family has the members of a family and their probabilities of being right.
type family struct {
	members []int
	// chance is by group, member and node, at each of the factor's points.
	chance [][][][factorPoints]float64
}

// factorPoints is the number of equally probable values of a family's factor.
const factorPoints = 7

// factorAt has these values: the medians of equal parts, scaled to a deviation of 1.
var factorAt = func() (at [factorPoints]float64) {
	squares := 0.0
	for m := range at {
		at[m] = -math.Sqrt2 * math.Erfinv(1-2*(float64(m)+0.5)/factorPoints)
		squares += at[m] * at[m] / factorPoints
	}
	for m := range at {
		at[m] /= math.Sqrt(squares)
	}
	return at
}()

// chancesOf returns a member's probability of being right at each of the factor's points.
// Their mean is p.
func chancesOf(p, shared float64) (at [factorPoints]float64) {
	p = min(max(p, certain), 1-certain)
	level, mean := math.Sqrt2*math.Erfinv(2*p-1), 0.0
	for m, u := range factorAt {
		at[m] = math.Erfc(-(level+math.Sqrt(shared)*u)/math.Sqrt(2*(1-shared))) / 2
		mean += at[m] / factorPoints
	}
	for m, x := range at {
		if mean > p {
			at[m] = x * p / mean
		} else {
			at[m] = 1 - (1-x)*(1-p)/(1-mean)
		}
	}
	return at
}

// familiesOf returns the family of each model, as the index of its first member, or nil if
// there are no families of more than one.
func familiesOf(models []string) []int {
	first := sdk.Families(models)
	for i, f := range first {
		if f != i {
			return first
		}
	}
	return nil
}

// listFamilies lists the families of more than one model, and returns for each model the
// index of its family in the list, or -1.
func listFamilies(first []int) (list []family, of []int) {
	of = slices.Repeat([]int{-1}, len(first))
	for i, f := range first {
		if f == i {
			continue
		}
		if of[f] < 0 {
			of[f] = len(list)
			list = append(list, family{members: []int{f}})
		}
		of[i] = of[f]
		list[of[f]].members = append(list[of[f]].members, i)
	}
	return list, of
}

func (f *family) prepare(t *latentTables, shared float64) {
	f.chance = make([][][][factorPoints]float64, len(t.p))
	for g, p := range t.p {
		f.chance[g] = make([][][factorPoints]float64, len(f.members))
		for a, i := range f.members {
			if a > 0 && slices.Equal(p[i], p[f.members[a-1]]) {
				f.chance[g][a] = f.chance[g][a-1]
				continue
			}
			f.chance[g][a] = make([][factorPoints]float64, len(p[i]))
			for k := range p[i] {
				f.chance[g][a][k] = chancesOf(p[i][k], shared)
			}
		}
	}
}

// family returns the family of model i, or nil if it has none.
func (t *latentTables) family(i int) *family {
	if t.families == nil || t.familyOf[i] < 0 {
		return nil
	}
	return &t.families[t.familyOf[i]]
}

// likelihoods returns the joint probability of the members' observations and each of the
// factor's points, and the sum over the points. seen returns a member's likelihoods.
func (f *family) likelihoods(g, k int, seen func(i int) (right, wrong float64)) (at [factorPoints]float64, all float64) {
	for m := range at {
		at[m] = 1.0 / factorPoints
	}
	for a, i := range f.members {
		right, wrong := seen(i)
		if right == 1 && wrong == 1 {
			continue
		}
		chance := &f.chance[g][a][k]
		for m, p := range chance {
			at[m] *= p*right + (1-p)*wrong
		}
	}
	for _, x := range at {
		all += x
	}
	return at, all
}

// likelihood returns the likelihoods of the observations on model i's answer if it is right
// and if it is wrong, under a hypothesis on which cluster is right; -1 ignores clusters.
func (c *latentCursor) likelihood(i, hypothesis, k int) (right, wrong float64) {
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

// hasNoEvidence reports whether there are no observations on a family on this query yet, so
// that its members have the estimates of models without a family.
func (c *latentCursor) hasNoEvidence(f *family) bool {
	return c.Ante == nil && !slices.ContainsFunc(f.members, func(i int) bool { return c.ran[i] })
}

// together returns the likelihood of the observations on a family's answers at node k.
func (c *latentCursor) together(f *family, hypothesis, k int) float64 {
	if c.hasNoEvidence(f) {
		return 1
	}
	_, all := f.likelihoods(c.group, k, func(i int) (float64, float64) { return c.likelihood(i, hypothesis, k) })
	return all
}

// addShares adds to dst the probability that each member's answer is right, given the ease and a
// hypothesis, times weight. It ignores negligible weights.
func (c *latentCursor) addShares(dst []float64, f *family, hypothesis, k int, weight float64) {
	if !(weight > 1e-12) {
		return
	}
	at, all := f.likelihoods(c.group, k, func(i int) (float64, float64) { return c.likelihood(i, hypothesis, k) })
	if all == 0 {
		return
	}
	for a, i := range f.members {
		right, wrong := c.likelihood(i, hypothesis, k)
		sum := 0.0
		for m, p := range &f.chance[c.group][a][k] {
			if x := p * right; x > 0 {
				sum += at[m] * x / (x + (1-p)*wrong)
			}
		}
		dst[a] += weight * sum / all
	}
}

// share returns the probability that the answer of member i is right, given the ease and a
// hypothesis.
func (c *latentCursor) share(f *family, i, hypothesis, k int) float64 {
	c.shares = append(c.shares[:0], make([]float64, len(f.members))...)
	c.addShares(c.shares, f, hypothesis, k, 1)
	return c.shares[slices.Index(f.members, i)]
}

func (c *latentCursor) familyMeans(dst []float64, f *family) {
	clear(dst)
	if c.hasNoEvidence(f) {
		for a, i := range f.members {
			dst[a] = dot(c.weight, c.tables.p[c.group][i])
		}
		return
	}
	if !c.inClusters(f.members[0]) {
		for k, w := range c.weight {
			c.addShares(dst, f, -1, k, w)
		}
		return
	}
	for h := range len(c.clusters.size) + 1 {
		for k, m := range c.clusters.mass[h] {
			c.addShares(dst, f, h, k, m)
		}
	}
}

// inClusters reports whether an answer of the model or of its family is in a cluster.
func (c *latentCursor) inClusters(i int) bool {
	if c.clusters == nil {
		return false
	}
	f := c.tables.family(i)
	if f == nil {
		return c.clusters.of[i] >= 0
	}
	return slices.ContainsFunc(f.members, func(j int) bool { return c.clusters.of[j] >= 0 })
}

// copyShare returns the share of the family's wrong answers so far that are in a cluster, and
// whether there are any. Answers in the right cluster do not count.
func (c *latentCursor) copyShare(f *family, before []int, cluster, right int) (share float64, any bool) {
	n, same := 0.0, 0.0
	for _, j := range before {
		of := c.clusters.of[j]
		if of == right || c.tables.family(j) != f {
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

// partition returns the logarithm of the probability that wrong answers fall into the clusters other than right (-1:
// all). A wrong answer repeats an earlier one of its family with probability Repeat, and otherwise is drawn like any other.
func (c *latentCursor) partition(a *agreement, right int) float64 {
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
		if f := c.tables.family(i); f != nil {
			if same, any := c.copyShare(f, c.clusters.order[:at], cluster, right); any {
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

// The prior of Shared, and the weight of the other families' outcomes in it.
const (
	usualShared, sharedDeviation = 0.6, 0.2
	likeOthers                   = 1
	// The prior and the maximum of the share of further wrong answers that repeat one of the family.
	usualRepeat, mostRepeat = 0.3, 0.95
)

// sharedGrid has the values of Shared to try.
var sharedGrid = [...]float64{0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}

// logFamily adds the log likelihood of a family's outcomes on a query to the log weights of the nodes.
func (f *latentFit) logFamily(logs []float64, own *family, q int) {
	row := f.t.Quality[q]
	for k := range logs {
		_, all := own.likelihoods(f.group[q], k, func(i int) (float64, float64) {
			if v := row[i]; !math.IsNaN(v) {
				return v, 1 - v
			}
			return 1, 1
		})
		logs[k] += math.Log(max(all, math.SmallestNonzeroFloat64))
	}
}

// learnShared fits Shared to the families' outcomes.
func (f *latentFit) learnShared() {
	likelihood := zeros(len(f.tables.families), len(sharedGrid))
	var all [len(sharedGrid)]float64
	logs := make([]float64, len(f.Nodes))
	for n := range f.tables.families {
		own := family{members: f.tables.families[n].members}
		for s, shared := range sharedGrid {
			own.prepare(f.tables, shared)
			for q := range f.t.Quality {
				clear(logs)
				f.logFamily(logs, &own, q)
				likelihood[n][s] += dot(f.weight[q], logs)
			}
			all[s] += likelihood[n][s]
		}
	}
	posterior := make([]float64, len(sharedGrid))
	for n, own := range likelihood {
		for s, shared := range sharedGrid {
			off := (shared - usualShared) / sharedDeviation
			own[s] += likeOthers*(all[s]-own[s]) - off*off/2
		}
		softmax(posterior, own)
		for _, i := range f.tables.families[n].members {
			f.Shared[i] = dot(posterior, sharedGrid[:])
		}
	}
}

// otherArms returns the mean level of the other efforts of model i, if there are any.
func (f *latentFit) otherArms(i int) (level float64, known bool) {
	own := f.tables.family(i)
	if own == nil {
		return 0, false
	}
	n := 0.0
	for _, j := range own.members {
		if f.of[j] != f.of[i] {
			level += f.Base[j]
			n++
		}
	}
	return level / max(n, 1), n > 0
}

func (f *latentFit) triesOf(i int) []int { return f.tries[f.of[i]] }

// validFamilies reports whether a profile's families are valid: each is identified by its
// first member, and shares are below 1.
func validFamilies(first []int, shared []float64) bool {
	if len(first) != len(shared) {
		return false
	}
	for i, f := range first {
		if f < 0 || f >= len(first) || first[f] != f || !(shared[i] >= 0 && shared[i] < 1) {
			return false
		}
	}
	return true
}

// columns returns the concatenated columns of all samples of model i.
func (f *latentFit) columns(matrix [][]float64, i int) []float64 {
	var all []float64
	for _, j := range f.triesOf(i) {
		all = append(all, column(matrix, j)...)
	}
	return all
}
