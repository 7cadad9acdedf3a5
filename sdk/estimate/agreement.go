package estimate

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// agreement describes how the answers of one group of queries agree. Right answers are
// equal, except for a share Differ that is written in another way. Wrong answers fall
// into clusters by a Chinese restaurant process: the next one joins a cluster of n with
// a probability proportional to n, and starts a new one with a probability proportional
// to Spread.
type agreement struct {
	Spread float64 `json:"spread"`
	Differ float64 `json:"differ"`
	// Repeat is the share of a family's further wrong answers that repeat an earlier one
	// of the family.
	Repeat float64 `json:"repeat,omitempty"`
}

// emptyAnswers reports for each group (the last: all) whether an empty answer is a valid
// answer, since some are right. Otherwise an empty answer is a missing one.
func emptyAnswers(t *outcome.Table, group []int, groups int) []bool {
	const few = 0.05
	right, all := make([]float64, groups), make([]float64, groups)
	for q, row := range t.Quality {
		for m, v := range row {
			if math.IsNaN(v) || t.Answers[q][m] != "" {
				continue
			}
			for _, g := range []int{group[q], groups - 1} {
				right[g] += v
				all[g]++
			}
		}
	}
	out := make([]bool, groups)
	for g := range out {
		out[g] = right[g] > few*all[g]
	}
	return out
}

// clusters holds the different answers of the models that have run, and the
// probabilities of which of them is right. Hypothesis 0 is that none is, hypothesis
// c+1 that cluster c is.
type clusters struct {
	answers []string
	size    []int
	of      []int       // model: its cluster, -1 if it has no answer
	mass    [][]float64 // hypothesis, node: joint probability with the observations
	order   []int       // the models in clusters, in the order in which they ran
}

func newClusters(models, nodes int) *clusters {
	return &clusters{
		answers: make([]string, 0, models), size: make([]int, 0, models), of: make([]int, models), mass: zeros(models+1, nodes),
	}
}

func (c *clusters) reset() {
	c.answers, c.size, c.order = c.answers[:0], c.size[:0], c.order[:0]
	for i := range c.of {
		c.of[i] = -1
	}
}

func (c *clusters) add(model int, answer string) {
	c.order = append(c.order, model)
	at := slices.Index(c.answers, answer)
	if at < 0 {
		at = len(c.answers)
		c.answers, c.size = append(c.answers, answer), append(c.size, 0)
	}
	c.of[model] = at
	c.size[at]++
}

// weigh computes the masses from the weights of the nodes, which leave out the models
// in clusters, and the likelihoods of those models, by model and node.
func (x *latentCursor) weigh() {
	c, a, p := x.clusters, &x.Agree[x.group], x.tables.p[x.group]
	softmax(x.weight, x.log)
	hypotheses := len(c.size) + 1
	sum := 0.0
	for k, w := range x.weight {
		all := w
		for i, cluster := range c.of {
			if cluster >= 0 && x.tables.family(i) == nil {
				all *= x.outside(a, p[i][k], i, k)
			}
		}
		for h := range hypotheses {
			m := all * x.partitions[h]
			if h > 0 {
				for i, cluster := range c.of {
					if cluster == h-1 && x.tables.family(i) == nil {
						m *= p[i][k] * x.right[i][k] * (1 - a.Differ) / x.outside(a, p[i][k], i, k)
					}
				}
			}
			for n := range x.tables.families {
				if f := &x.tables.families[n]; x.inClusters(f.members[0]) {
					m *= x.together(f, h, k)
				}
			}
			c.mass[h][k] = m
			sum += m
		}
	}
	for _, mass := range c.mass[:hypotheses] {
		for k := range mass {
			mass[k] /= sum
		}
	}
	for k := range x.weight {
		x.weight[k] = 0
		for h := range hypotheses {
			x.weight[k] += c.mass[h][k]
		}
	}
}

// outside returns the likelihood of a model whose answer is not in the right cluster.
func (x *latentCursor) outside(a *agreement, p float64, i, k int) float64 {
	return (1-p)*x.wrong[i][k] + p*a.Differ*x.right[i][k]
}

// ranQuality returns the probability that the answer of a model in a cluster is right.
func (x *latentCursor) ranQuality(i int) float64 {
	c, a, p := x.clusters, &x.Agree[x.group], x.tables.p[x.group][i]
	own, sum := c.of[i]+1, 0.0
	for _, m := range c.mass[own] {
		sum += m
	}
	for h := range len(c.size) + 1 {
		if h == own {
			continue
		}
		for k, m := range c.mass[h] {
			sum += m * p[k] * a.Differ * x.right[i][k] / x.outside(a, p[k], i, k)
		}
	}
	return min(sum, 1)
}

// agreementDev returns the standard deviation of the change that the agreement of
// model j's answer with the others would make to its estimate.
func (x *latentCursor) agreementDev(j int, mean float64) float64 {
	c, a, p := x.clusters, &x.Agree[x.group], x.tables.p[x.group][j]
	own := x.tables.family(j)
	hypotheses := len(c.size) + 1
	right, wrong := x.jointRight[:hypotheses], x.jointWrong[:hypotheses]
	for h := range hypotheses {
		right[h], wrong[h] = 0, 0
		for k, m := range c.mass[h] {
			q := p[k] * x.right[j][k] / (p[k]*x.right[j][k] + (1-p[k])*x.wrong[j][k])
			if own != nil {
				q = x.share(own, j, h, k)
			}
			right[h] += m * q
			wrong[h] += m * (1 - q)
		}
	}
	second, rest, alone := 0.0, 1.0, right[0]
	for joined := 1; joined < hypotheses; joined++ {
		alone += right[joined] * a.Differ
		good := right[joined] * (1 - a.Differ)
		p := good
		for h := range hypotheses {
			if h == joined {
				continue
			}
			n := len(c.order)
			if h > 0 {
				n -= c.size[h-1]
			}
			joins := float64(c.size[joined-1]) / (float64(n) + a.Spread)
			if own != nil {
				if same, any := x.copyShare(own, c.order, joined-1, h-1); any {
					joins = a.Repeat*same + (1-a.Repeat)*joins
				}
			}
			p += wrong[h] * joins
		}
		second += good * good / max(p, 1e-12)
		rest -= p
	}
	second += alone * alone / max(rest, 1e-12)
	return math.Sqrt(max(0, second-mean*mean))
}

// pairDeviations returns, by group and model, the greatest deviation that comparing the
// model's answer with that of one other model is expected to cause in its estimate. A
// single answer shows no agreement: its value lies in the comparison.
func (e *latent) pairDeviations() [][]float64 {
	out := zeros(len(e.Mean), len(e.Base))
	means := make([]cascade.Belief, len(e.Base))
	first := unknownRun()
	first.Answer = "x"
	c := e.Cursor().(*latentCursor)
	for g := range out {
		q := queryFacts{}
		if g < len(e.Groups) {
			q.Group = e.Groups[g]
		}
		for j := range e.Base {
			c.Begin(&q)
			c.Observe(j, &first)
			c.means(means)
			for i := range e.Base {
				if i != j {
					out[g][i] = max(out[g][i], c.agreementDev(i, means[i].Mean))
				}
			}
		}
	}
	return out
}
