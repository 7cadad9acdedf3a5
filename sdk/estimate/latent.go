package estimate

import (
	"fmt"
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// latent is an item-response model: a query has one hidden ease z, normal around the
// mean of its group, and model i answers it well with probability
//
//	p_i(z, g) = sigmoid(Base_i + Slope_i·z + Shift_{i,g}).
//
// Given z the models are independent. The distribution of z is carried as weights on
// a grid: a verdict or a signal on one model's answer moves the weights, and with
// them what is believed of all others.
type latent struct {
	Nodes []float64 `json:"nodes"`
	// Groups are the known groups; the tables below have one more row, the last,
	// for queries of any other.
	Groups []string `json:"groups"`
	// Mean is the mean ease of each group.
	Mean  []float64   `json:"mean"`
	Base  []float64   `json:"base"`
	Slope []float64   `json:"slope"`
	Shift [][]float64 `json:"shift"` // group, model
	// Verified: a check judges the answers.
	Verified bool `json:"verified,omitempty"`
	// Ante and Post are how the signals are distributed; nil when there are none.
	Ante []emission `json:"ante,omitempty"`
	Post []emission `json:"post,omitempty"`

	tables *latentTables
}

// latentTables is what a cursor reads.
type latentTables struct {
	group map[string]int
	prior [][]float64   // group, node: log weight
	p     [][][]float64 // group, model, node
	post  []lookup      // model: deviation of the post-hoc estimate by probability
}

func (e *latent) Kind() string      { return KindLatent }
func (e *latent) Signals() []string { return nil }

func (e *latent) check(models int) error {
	if len(e.Base) != models || len(e.Slope) != models || len(e.Nodes) == 0 ||
		len(e.Shift) != len(e.Groups)+1 || len(e.Mean) != len(e.Groups)+1 ||
		e.Ante != nil && len(e.Ante) != models || e.Post != nil && len(e.Post) != models {
		return fmt.Errorf("parameters do not fit %d models", models)
	}
	for _, row := range e.Shift {
		if len(row) != models {
			return fmt.Errorf("parameters do not fit %d models", models)
		}
	}
	e.prepare()
	return nil
}

// prepare works out the tables.
func (e *latent) prepare() {
	t := &latentTables{group: map[string]int{}}
	for g, name := range e.Groups {
		t.group[name] = g
	}
	for g := range e.Mean {
		prior := make([]float64, len(e.Nodes))
		for k, z := range e.Nodes {
			prior[k] = -(z - e.Mean[g]) * (z - e.Mean[g]) / 2
		}
		t.prior = append(t.prior, prior)
		p := make([][]float64, len(e.Base))
		for i := range p {
			p[i] = make([]float64, len(e.Nodes))
			for k, z := range e.Nodes {
				p[i][k] = sigmoid(e.Base[i] + e.Slope[i]*z + e.Shift[g][i])
			}
		}
		t.p = append(t.p, p)
	}
	for _, m := range e.Post {
		t.post = append(t.post, m.deviations())
	}
	e.tables = t
}

func (e *latent) Cursor() QualityCursor {
	n, k := len(e.Base), len(e.Nodes)
	return &latentCursor{
		latent: e, log: make([]float64, k), weight: make([]float64, k),
		right: make([]float64, n), wrong: make([]float64, n), ran: make([]bool, n), verdict: make([]float64, n),
	}
}

// latentCursor holds the log weights of the nodes and, for each model, how likely
// what was seen of it is if its answer is right and if it is wrong.
type latentCursor struct {
	*latent
	group        int
	log, weight  []float64
	right, wrong []float64
	ran          []bool
	verdict      []float64 // NaN where there is none
}

func (c *latentCursor) Begin(q *Query) {
	g, known := c.tables.group[q.Group]
	if !known {
		g = len(c.Groups)
	}
	c.group = g
	copy(c.log, c.tables.prior[g])
	for i := range c.ran {
		c.ran[i], c.right[i], c.wrong[i], c.verdict[i] = false, 1, 1, math.NaN()
		if c.Ante != nil && q.Ante != nil {
			c.see(i, c.Ante[i].likelihoods(q.Ante[i]))
		}
	}
}

// see takes in evidence on model i: how likely it is if the answer is right, wrong.
func (c *latentCursor) see(i int, likely [2]float64) {
	right, wrong := c.right[i]*likely[0], c.wrong[i]*likely[1]
	for k, p := range c.tables.p[c.group][i] {
		c.log[k] += math.Log((p*right + (1-p)*wrong) / (p*c.right[i] + (1-p)*c.wrong[i]))
	}
	// Only the ratio matters from here on.
	scale := 1 / (right + wrong)
	c.right[i], c.wrong[i] = right*scale, wrong*scale
}

func (c *latentCursor) Observe(model int, r *Run) {
	c.ran[model] = true
	if c.Post != nil && math.IsNaN(r.Verdict) {
		c.see(model, c.Post[model].likelihoods(r.Post))
	}
	if !math.IsNaN(r.Verdict) {
		v := min(max(r.Verdict, certain), 1-certain)
		c.verdict[model] = r.Verdict
		c.right[model], c.wrong[model] = c.reset(model)
		c.see(model, [2]float64{v, 1 - v})
	}
}

// reset takes back all evidence on a model and returns the neutral one.
func (c *latentCursor) reset(model int) (right, wrong float64) {
	for k, p := range c.tables.p[c.group][model] {
		c.log[k] -= math.Log(p*c.right[model] + (1-p)*c.wrong[model])
	}
	return 1, 1
}

// certain keeps a verdict from ruling out every node.
const certain = 1e-6

func (c *latentCursor) Beliefs(dst []cascade.Belief) {
	softmax(c.weight, c.log)
	for i := range dst {
		if !math.IsNaN(c.verdict[i]) {
			dst[i] = cascade.Belief{Mean: c.verdict[i]}
			continue
		}
		mean := 0.0
		for k, p := range c.tables.p[c.group][i] {
			mean += c.weight[k] * p * c.right[i] / (p*c.right[i] + (1-p)*c.wrong[i])
		}
		dst[i] = cascade.Belief{Mean: mean, Bernoulli: c.Verified && !c.ran[i]}
		if c.Post != nil && !c.ran[i] {
			dst[i].StdDev = c.tables.post[i].at(mean)
		}
	}
}

// softmax fills weights with exp(log) over their sum.
func softmax(weight, log []float64) {
	top := math.Inf(-1)
	for _, l := range log {
		top = max(top, l)
	}
	sum := 0.0
	for k, l := range log {
		weight[k] = math.Exp(l - top)
		sum += weight[k]
	}
	for k := range weight {
		weight[k] /= sum
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// emission is how a signal is distributed when the answer is right and when it is
// wrong: normal, each with its mean and deviation.
type emission struct {
	Right, Wrong, RightStdDev, WrongStdDev float64
}

// likelihoods returns the densities of a signal, up to a factor; (1, 1) when it is
// unknown.
func (m *emission) likelihoods(x float64) [2]float64 {
	if math.IsNaN(x) || m.RightStdDev <= 0 || m.WrongStdDev <= 0 {
		return [2]float64{1, 1}
	}
	a, b := (x-m.Right)/m.RightStdDev, (x-m.Wrong)/m.WrongStdDev
	l, k := -a*a/2-math.Log(m.RightStdDev), -b*b/2-math.Log(m.WrongStdDev)
	// One signal never counts for more than e^20 to one.
	d := min(max(l-k, -20), 20)
	return [2]float64{sigmoid(d), sigmoid(-d)}
}

// deviations returns the standard deviation of the probability after the signal, by
// the probability before it.
func (m *emission) deviations() lookup {
	const steps = 400
	var t lookup
	for j := range t {
		p := float64(j) / float64(len(t)-1)
		if p == 0 || p == 1 || m.RightStdDev <= 0 || m.WrongStdDev <= 0 {
			continue
		}
		low := min(m.Right-6*m.RightStdDev, m.Wrong-6*m.WrongStdDev)
		high := max(m.Right+6*m.RightStdDev, m.Wrong+6*m.WrongStdDev)
		width := (high - low) / steps
		second, mass := 0.0, 0.0
		for s := range steps {
			x := low + (float64(s)+0.5)*width
			right := p * normalDensity((x-m.Right)/m.RightStdDev) / m.RightStdDev
			wrong := (1 - p) * normalDensity((x-m.Wrong)/m.WrongStdDev) / m.WrongStdDev
			if right+wrong > 0 {
				second += right * right / (right + wrong) * width
				mass += (right + wrong) * width
			}
		}
		t[j] = math.Sqrt(max(0, second/mass-p*p))
	}
	return t
}

func normalDensity(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

// lookup is a function on [0, 1] by its values at equal steps.
type lookup [65]float64

func (l *lookup) at(x float64) float64 {
	at := min(max(x, 0), 1) * float64(len(l)-1)
	j := min(int(at), len(l)-2)
	return l[j] + (at-float64(j))*(l[j+1]-l[j])
}
