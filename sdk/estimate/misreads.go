package estimate

import (
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// misreads describes a judge whose errors on one query are correlated: it reads most queries
// correctly, misreads the others, and has different error rates on the two kinds. Given the
// kind, its verdicts on the answers to a query are independent.
type misreads struct {
	Usual   cascade.Rates `json:"usual"` // over all queries
	Share   float64       `json:"share"` // of the queries that it misreads
	Read    cascade.Rates `json:"read"`
	Misread cascade.Rates `json:"misread"`
}

func (m *misreads) logShare(misread bool) float64 {
	switch {
	case m == nil:
		return 0
	case misread:
		return math.Log(m.Share)
	}
	return math.Log1p(-m.Share)
}

func (m *misreads) rates(misread bool) cascade.Rates {
	switch {
	case m == nil:
		return cascade.Rates{}
	case misread:
		return m.Misread
	}
	return m.Read
}

// isVerdict reports whether the likelihoods are those of one verdict of this judge, rather
// than of another judge or of several.
func (m *misreads) isVerdict(passed bool, ifRight, ifWrong float64) bool {
	right, wrong := m.Usual.Likelihoods(passed)
	return ifRight == right && ifWrong == wrong
}

type verdictCounts struct{ wrong, passed, right, rejected float64 }

func (c *verdictCounts) add(o *verdictCounts, weight float64) {
	c.wrong, c.passed = c.wrong+weight*o.wrong, c.passed+weight*o.passed
	c.right, c.rejected = c.right+weight*o.right, c.rejected+weight*o.rejected
}

func (c *verdictCounts) log(r cascade.Rates) float64 {
	return c.passed*math.Log(r.FalsePass) + (c.wrong-c.passed)*math.Log1p(-r.FalsePass) +
		c.rejected*math.Log(r.FalseReject) + (c.right-c.rejected)*math.Log1p(-r.FalseReject)
}

func countVerdicts(quality, verdicts []float64) (c verdictCounts) {
	for m, v := range quality {
		verdict := verdicts[m]
		if math.IsNaN(v) || math.IsNaN(verdict) {
			continue
		}
		c.right, c.wrong = c.right+v, c.wrong+1-v
		if verdict >= 0.5 {
			c.passed += 1 - v
		} else {
			c.rejected += v
		}
	}
	return c
}

// The number of rounds of fitMisreads, the prior share of misread queries, and the number of
// queries that this prior is worth.
const (
	misreadRounds = 30
	usualMisreads = 0.1
	misreadWeight = 10
)

// fitMisreads fits both kinds of queries by expectation maximisation. It returns nil if one
// kind explains the verdicts as well (by the Bayesian information criterion, Schwarz 1978).
func fitMisreads(t *outcome.Table, verdicts [][]float64) *misreads {
	counts := make([]verdictCounts, len(t.Queries))
	var all verdictCounts
	for q, row := range t.Quality {
		counts[q] = countVerdicts(row, verdicts[q])
		all.add(&counts[q], 1)
	}
	usual := all.rates()
	m := &misreads{
		Usual: usual, Share: usualMisreads, Read: usual,
		Misread: cascade.Rates{FalsePass: (1 + usual.FalsePass) / 2, FalseReject: (1 + usual.FalseReject) / 2},
	}
	gain, queries := 0.0, float64(len(counts))
	for range misreadRounds {
		var read, misread verdictCounts
		share := 0.0
		gain = 0
		for q := range counts {
			a, b := counts[q].log(m.Read)+m.logShare(false), counts[q].log(m.Misread)+m.logShare(true)
			weight := sigmoid(b - a)
			share += weight
			read.add(&counts[q], 1-weight)
			misread.add(&counts[q], weight)
			gain += max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))) - counts[q].log(usual)
		}
		m.Share = (share + misreadWeight*usualMisreads) / (queries + misreadWeight)
		m.Read = read.rates()
		m.Misread = cascade.Rates{
			FalsePass:   (misread.passed + misreadWeight/2) / (misread.wrong + misreadWeight),
			FalseReject: (misread.rejected + misreadWeight/2) / (misread.right + misreadWeight),
		}
	}
	if parameters := 3.0; gain < parameters/2*math.Log(queries) {
		return nil
	}
	return m
}

func (c *verdictCounts) rates() cascade.Rates {
	return cascade.LearnRates(c.wrong, c.passed, c.right, c.rejected)
}

// judge adds the verdict on an answer that has been observed before; see [runFacts].
func (c *latentCursor) judge(model int, ifRight, ifWrong float64) {
	if ifRight > 0 || ifWrong > 0 {
		c.revise(model, func() { c.updateMisread(model, ifRight, ifWrong) })
	}
}

// updateMisread multiplies a model's likelihoods by those of the judges' verdicts on its answer.
func (c *latentCursor) updateMisread(i int, right, wrong float64) {
	m := c.Misreads
	if m == nil || !m.isVerdict(true, right, wrong) && !m.isVerdict(false, right, wrong) {
		c.scale(i, right, wrong)
		return
	}
	passed := m.isVerdict(true, right, wrong)
	for k := range c.log {
		right, wrong := m.rates(k >= len(c.Nodes)/2).Likelihoods(passed)
		c.right[i][k] *= right
		c.wrong[i][k] *= wrong
	}
}

// judgeRates returns the judge's error rates on the answer of a model that has not run, given
// its verdicts on others. If usual are not the rates of this judge, it returns them unchanged.
func (c *latentCursor) judgeRates(i int, usual cascade.Rates) cascade.Rates {
	if c.Misreads == nil || usual != c.Misreads.Usual {
		return usual
	}
	var right, wrong, passed, rejected float64
	for k, p := range c.tables.p[c.group][i] {
		rates, w := c.Misreads.rates(k >= len(c.Nodes)/2), c.weight[k]
		right, wrong = right+w*p, wrong+w*(1-p)
		rejected += w * p * rates.FalseReject
		passed += w * (1 - p) * rates.FalsePass
	}
	next := cascade.Rates{FalsePass: passed / max(wrong, certain), FalseReject: rejected / max(right, certain)}
	// On a query that it probably misreads, its verdict carries no information.
	const most = 0.999
	if sum := next.FalsePass + next.FalseReject; sum > most {
		next.FalsePass, next.FalseReject = next.FalsePass*most/sum, next.FalseReject*most/sum
	}
	return next
}
