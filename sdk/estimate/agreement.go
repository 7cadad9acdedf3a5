package estimate

import "math"

// agreement is how the answers of one group of queries agree. Right answers are the
// same answer, but for a share Differ that is written in another way. Wrong answers
// fall into clusters as guests at the tables of a Chinese restaurant: the next one
// joins a cluster of n with a probability in proportion to n, and is a new one in
// proportion to Spread.
type agreement struct {
	Spread float64 `json:"spread"`
	Differ float64 `json:"differ"`
}

// clusters are the different answers of the models that have run, and what is
// believed about which of them is right. Hypothesis 0 is that none is, hypothesis
// c+1 that cluster c is.
type clusters struct {
	answers []string
	size    []int
	of      []int       // model: its cluster, -1 when it has no answer
	mass    [][]float64 // hypothesis, node: joint probability with what was seen
	total   []float64   // hypothesis: probability
	n       int         // models in clusters
}

func newClusters(models, nodes int) *clusters {
	c := &clusters{
		answers: make([]string, 0, models), size: make([]int, 0, models), of: make([]int, models),
		mass: make([][]float64, models+1), total: make([]float64, models+1),
	}
	for h := range c.mass {
		c.mass[h] = make([]float64, nodes)
	}
	return c
}

func (c *clusters) reset() {
	c.answers, c.size, c.n = c.answers[:0], c.size[:0], 0
	for i := range c.of {
		c.of[i] = -1
	}
}

func (c *clusters) add(model int, answer string) {
	c.n++
	for k, a := range c.answers {
		if a == answer {
			c.of[model] = k
			c.size[k]++
			return
		}
	}
	c.of[model] = len(c.answers)
	c.answers = append(c.answers, answer)
	c.size = append(c.size, 1)
}

// partition is the logarithm of the probability that wrong answers fall into the
// clusters other than skip (-1: all).
func (c *clusters) partition(a *agreement, skip int) float64 {
	log, n := 0.0, 0
	for k, size := range c.size {
		if k == skip {
			continue
		}
		l, _ := math.Lgamma(float64(size))
		log += math.Log(a.Spread) + l
		n += size
	}
	if n == 0 {
		return 0
	}
	x, _ := math.Lgamma(a.Spread)
	y, _ := math.Lgamma(a.Spread + float64(n))
	return log + x - y
}

// weigh works out mass and total from the weights of the nodes without the models in
// clusters, whose likelihoods right and wrong are by model and node.
func (x *latentCursor) weigh() {
	c, a, p := x.clusters, &x.Agree[x.group], x.tables.p[x.group]
	softmax(x.weight, x.log)
	hypotheses := len(c.size) + 1
	sum := 0.0
	for k, w := range x.weight {
		all := w
		for i, cluster := range c.of {
			if cluster >= 0 {
				all *= x.outside(a, p[i][k], i, k)
			}
		}
		for h := range hypotheses {
			m := all * x.partitions[h]
			if h > 0 {
				for i, cluster := range c.of {
					if cluster == h-1 {
						m *= p[i][k] * x.right[i][k] * (1 - a.Differ) / x.outside(a, p[i][k], i, k)
					}
				}
			}
			c.mass[h][k] = m
			sum += m
		}
	}
	for h := range hypotheses {
		c.total[h] = 0
		for k := range x.weight {
			c.mass[h][k] /= sum
			c.total[h] += c.mass[h][k]
		}
	}
	for k := range x.weight {
		x.weight[k] = 0
		for h := range hypotheses {
			x.weight[k] += c.mass[h][k]
		}
	}
}

// outside is the likelihood of a model whose answer is not the right cluster's.
func (x *latentCursor) outside(a *agreement, p float64, i, k int) float64 {
	return (1-p)*x.wrong[i][k] + p*a.Differ*x.right[i][k]
}

// ranQuality is the probability that the answer of a model in a cluster is right.
func (x *latentCursor) ranQuality(i int) float64 {
	c, a, p := x.clusters, &x.Agree[x.group], x.tables.p[x.group][i]
	own := c.of[i] + 1
	sum := c.total[own]
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

// expectedBest is the expected quality of the best answer once model j has run too:
// it agrees with one of the clusters or not, which moves what is believed of all.
func (x *latentCursor) expectedBest(j int) float64 {
	c, a, p := x.clusters, &x.Agree[x.group], x.tables.p[x.group][j]
	hypotheses := len(c.size) + 1
	// By hypothesis: the probability that it holds and j is right, or wrong.
	right, wrong := x.jointRight[:hypotheses], x.jointWrong[:hypotheses]
	for h := range hypotheses {
		right[h], wrong[h] = 0, 0
		for k, m := range c.mass[h] {
			q := p[k] * x.right[j][k] / (p[k]*x.right[j][k] + (1-p[k])*x.wrong[j][k])
			right[h] += m * q
			wrong[h] += m * (1 - q)
		}
	}
	others := func(h int) float64 {
		n := c.n
		if h > 0 {
			n -= c.size[h-1]
		}
		return float64(n) + a.Spread
	}
	sum := 0.0
	for joined := 1; joined < hypotheses; joined++ {
		top := right[joined] * (1 - a.Differ)
		for h := 1; h < hypotheses; h++ {
			if h != joined {
				top = max(top, wrong[h]*float64(c.size[joined-1])/others(h))
			}
		}
		sum += top
	}
	alone := right[0]
	for h := 1; h < hypotheses; h++ {
		alone = max(alone, wrong[h]*a.Spread/others(h)+right[h]*a.Differ)
	}
	return sum + alone
}

// deviationFor returns the deviation of a normal around mean for which the expected
// gain over a sure value is gain: E[(X - sure)^+] = gain. It is 0 when the mean
// alone gives as much.
func deviationFor(mean, sure, gain float64) float64 {
	extra := gain - max(mean-sure, 0)
	if extra <= 1e-9 {
		return 0
	}
	distance := math.Abs(mean - sure)
	low, high := 0.0, 1.0
	for range 30 {
		middle := (low + high) / 2
		d := distance / middle
		if middle*(normalDensity(d)-d*normalCDF(-d)) > extra {
			high = middle
		} else {
			low = middle
		}
	}
	return (low + high) / 2
}
