package estimate

import (
	"math"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// isNear fails the test if got differs from want by more than within.
func isNear(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %.12g, want %.12g", what, got, want)
	}
}

// A signal's densities are those of its two normals, and its predicted change matches a simulation.
func TestEmission(t *testing.T) {
	m := emission{Right: 0.8, Wrong: 0.3, RightStdDev: 0.1, WrongStdDev: 0.2}
	density := func(x, mean, dev float64) float64 { return math.Exp(-(x-mean)*(x-mean)/(2*dev*dev)) / dev }
	for _, x := range []float64{0.1, 0.5, 0.7, 0.9} {
		right, wrong := m.likelihoods(x)
		isNear(t, "ratio", math.Log(right/wrong), max(math.Log(density(x, 0.8, 0.1)/density(x, 0.3, 0.2)), -20), 1e-9)
	}
	if right, wrong := m.likelihoods(-9); wrong/right > math.Exp(20.001) || wrong/right < math.Exp(19.999) {
		t.Errorf("one signal counts for %v", wrong/right)
	}
	for name, c := range map[string]struct {
		m emission
		x float64
	}{"unknown": {m, math.NaN()}, "no right ones": {emission{WrongStdDev: 1}, 0.5}, "no wrong ones": {emission{RightStdDev: 1}, 0.5}} {
		if right, wrong := c.m.likelihoods(c.x); right != 1 || wrong != 1 {
			t.Errorf("%s: %v, %v", name, right, wrong)
		}
		if name != "unknown" && c.m.deviations() != (lookup{}) {
			t.Errorf("%s: it is expected to tell something", name)
		}
	}
	for _, m := range []emission{m, {Right: 0.2, Wrong: 0.6, RightStdDev: 0.3, WrongStdDev: 0.05}, {Right: 1, Wrong: 0, RightStdDev: 0.01, WrongStdDev: 0.01}} {
		table := m.deviations()
		for _, j := range []int{0, 13, 32, 50, 64} {
			p := float64(j) / 64
			const n, low, high = 40_000, -3.0, 4.0
			second := 0.0
			for k := range n {
				x := low + (high-low)*(float64(k)+0.5)/n
				right, wrong := p*density(x, m.Right, m.RightStdDev)/math.Sqrt(2*math.Pi), (1-p)*density(x, m.Wrong, m.WrongStdDev)/math.Sqrt(2*math.Pi)
				if right > 0 {
					second += right * right / (right + wrong) * (high - low) / n
				}
			}
			isNear(t, "deviation", table.at(p), math.Sqrt(max(second-p*p, 0)), 2e-4)
		}
	}
	var steps lookup
	for j := range steps {
		steps[j] = float64(j * j)
	}
	for x, want := range map[float64]float64{-1: 0, 0: 0, 0.5: 1024, 0.5078125: 1024 + 0.5*65, 1: 4096, 2: 4096} {
		isNear(t, "between", steps.at(x), want, 1e-9)
	}
	nan := math.NaN()
	fitted := fitEmission([]float64{1, 2, 3, 5, 6, 10, nan, 4}, []float64{1, 1, 1, 0, 0, 0, 1, nan})
	a, b := 2.0/3, 14.0/3
	pooled := (3*a + 3*b) / 6
	isNear(t, "right", fitted.Right, 2, 1e-12)
	isNear(t, "wrong", fitted.Wrong, 7, 1e-12)
	isNear(t, "its deviation", fitted.RightStdDev, math.Sqrt((3*a+20*pooled)/23), 1e-9)
	isNear(t, "the other's", fitted.WrongStdDev, math.Sqrt((3*b+20*pooled)/23), 1e-9)
	for _, quality := range [][]float64{{1, 1, 1, 0, 0, nan}, {1, 1, nan, 0, 0, 0}} {
		if got := fitEmission([]float64{1, 2, 3, 4, 5, 6}, quality); got != (emission{}) {
			t.Errorf("two outcomes of a kind are fitted: %+v", got)
		}
	}
}

func TestLinesAndMoments(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		x, y []float64
		want line
	}{
		{[]float64{1, 2, 4, nan, 9}, []float64{3, 4, 8, 7, nan}, line{1, 12.0 / 7}},
		{[]float64{2, 2}, []float64{1, 3}, line{2, 0}},
		{[]float64{nan}, []float64{1}, line{nan, 0}},
	} {
		got := fitLine(c.x, c.y)
		if math.IsNaN(c.want.Intercept) != math.IsNaN(got.Intercept) || math.Abs(got.Intercept-c.want.Intercept) > 1e-12 || math.Abs(got.Slope-c.want.Slope) > 1e-12 {
			t.Errorf("%v, %v: %+v, want %+v", c.x, c.y, got, c.want)
		}
	}
	isNear(t, "at", line{1, 2}.at(3), 7, 0)
	var m moments
	for _, x := range []float64{2, nan, 4, 9} {
		m.add(x)
	}
	isNear(t, "mean", m.mean, 5, 1e-12)
	isNear(t, "deviation", m.stdDev(), math.Sqrt(13), 1e-12)
	m = moments{}
	if m.add(3); m.stdDev() != 0 {
		t.Error("one number deviates")
	}
	m.add(5)
	isNear(t, "of two", m.stdDev(), math.Sqrt2, 1e-12)
	values := []float64{1, 2, 6, 5}
	if pool([][]int{{0, 2}, {1}, {3}}, values); !slices.Equal(values, []float64{3.5, 2, 3.5, 5}) {
		t.Errorf("pooled: %v", values)
	}
	if got := triesOf([]string{"a", "b", "a#2", "a#3"}); len(got) != 2 || !slices.Equal(got[0], []int{0, 2, 3}) || !slices.Equal(got[1], []int{1}) {
		t.Errorf("tries: %v", got)
	}
	// The normal that has a prior of 1/2 and sees load·f + noise.
	f := factor{0.5, 2}
	f.observe(3, 4, 7)
	precision := 1/2.0 + 9/4.0
	isNear(t, "variance", f.variance, 1/precision, 1e-12)
	isNear(t, "mean", f.mean, (0.5/2+3*7/4.0)/precision, 1e-12)
}

func TestVerdictsAreCounted(t *testing.T) {
	nan := math.NaN()
	c := countVerdicts([]float64{1, 0, 1, 0, 0.25, nan, 1}, []float64{1, 1, 0, 0.4, 0.5, 1, nan})
	if want := (verdictCounts{wrong: 2.75, passed: 1.75, right: 2.25, rejected: 1}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	r := cascade.Rates{FalsePass: 0.2, FalseReject: 0.1}
	isNear(t, "log", c.log(r), 1.75*math.Log(0.2)+math.Log(0.8)+math.Log(0.1)+1.25*math.Log(0.9), 1e-12)
	sum := verdictCounts{1, 1, 1, 1}
	if sum.add(&c, 2); sum != (verdictCounts{6.5, 4.5, 5.5, 3}) {
		t.Errorf("%+v", sum)
	}
	m := &misreads{Usual: r, Share: 0.1, Read: cascade.Rates{FalsePass: 0.05}, Misread: cascade.Rates{FalsePass: 0.6, FalseReject: 0.5}}
	isNear(t, "misread", m.logShare(true), math.Log(0.1), 1e-12)
	isNear(t, "read", m.logShare(false), math.Log(0.9), 1e-12)
	if m.rates(true) != m.Misread || m.rates(false) != m.Read || (*misreads)(nil).logShare(true) != 0 || (*misreads)(nil).rates(true) != (cascade.Rates{}) {
		t.Error("the rates are those of the other kind")
	}
	right, wrong := r.Likelihoods(true)
	if !m.isVerdict(true, right, wrong) || m.isVerdict(false, right, wrong) || m.isVerdict(true, right, 0.3) || m.isVerdict(true, 0.3, wrong) {
		t.Error("a verdict is told by its likelihoods")
	}
	// How often it errs on the next answer is the mean over what the query may be like.
	c2 := &latentCursor{latent: &latent{Misreads: m, Nodes: make([]float64, 4), tables: &latentTables{p: [][][]float64{{{0.2, 0.6, 0.3, 0.9}}}}}, weight: []float64{0.1, 0.4, 0.2, 0.3}}
	next := c2.judgeRates(0, r)
	all := 0.02 + 0.24 + 0.06 + 0.27
	isNear(t, "false reject", next.FalseReject, 0.5*(0.06+0.27)/all, 1e-12)
	isNear(t, "false pass", next.FalsePass, (0.05*(0.08+0.16)+0.6*(0.14+0.03))/(1-all), 1e-12)
	// Of a query that it probably misreads its verdict says next to nothing, and never the opposite.
	c2.weight = []float64{0, 0, 0.5, 0.5}
	wild := c2.judgeRates(0, r)
	isNear(t, "false pass at most", wild.FalsePass, 0.6*0.999/1.1, 1e-12)
	isNear(t, "false reject at most", wild.FalseReject, 0.5*0.999/1.1, 1e-12)
	c2.weight = []float64{0.1, 0.4, 0.2, 0.3}
	o := &online{estimator: &Estimator{Models: []string{"a"}}}
	if got := o.judgeRates(c2, []string{"a", "unknown"}); got.Usual != r || got.Next[0] != next || got.Next[1] != r {
		t.Errorf("%+v", got)
	}
	if other := (cascade.Rates{FalsePass: 0.3}); c2.judgeRates(0, other) != other {
		t.Error("another judge misreads too")
	}
}

// Judges are asked in turn until one rejects; their likelihoods and costs are combined.
func TestPanelOfJudges(t *testing.T) {
	nan := math.NaN()
	table := &outcome.Table{
		Models: []string{"a", "b", "c"}, Queries: []string{"0", "1"},
		Quality: [][]float64{{1, 0, 1}, {1, 1, 0}}, CostUSD: [][]float64{{1, 1, 1}, {1, 1, 1}},
		Verdicts: map[string][][]float64{"one": {{1, 0, nan}, {1, nan, nan}}, "two": {{0.5, 1, 1}, {0, 1, nan}}, "three": {{1, 1, 1}, {1, 1, 1}}},
		Signals: map[string][][]float64{
			"one" + sdk.SignalCostUSD: {{0.1, 0.1, nan}, {0.1, nan, nan}}, "two" + sdk.SignalCostUSD: {{0.2, 0.2, 0.2}, {0.2, 0.2, nan}},
		},
	}
	one, two := cascade.Rates{FalsePass: 0.1, FalseReject: 0.2}, cascade.Rates{FalsePass: 0.3, FalseReject: 0.05}
	p := panelOf(table, &Estimator{JudgeOrder: []string{"two", "one"}, Judges: map[string]cascade.Rates{"one": one, "two": two}})
	if len(p.judges) != 2 || p.judges[0].rates != two || !slices.Equal(p.judges[1].judges, []bool{true, true, false}) || !slices.Equal(p.judges[0].judges, []bool{true, true, true}) {
		t.Fatalf("%+v", p)
	}
	for _, c := range []struct {
		query, model int
		right, wrong float64
	}{
		{0, 0, 0.95 * 0.8, 0.3 * 0.1}, {0, 1, 0.95 * 0.2, 0.3 * 0.9}, {0, 2, 0.95, 0.3}, {1, 0, 0.05, 0.7}, {1, 1, 0.95, 0.3}, {1, 2, 0, 0},
	} {
		right, wrong := p.likelihoods(c.query, c.model)
		isNear(t, "if right", right, c.right, 1e-12)
		isNear(t, "if wrong", wrong, c.wrong, 1e-12)
	}
	for _, c := range []struct {
		query, model int
		ran          []int
		want         cascade.Rates
		judged       bool
	}{
		{0, 0, nil, two.And(one), true}, {0, 2, nil, two, true}, {0, 0, []int{1}, two.And(one), true},
		{1, 0, []int{1}, two, true},              // one could say nothing of b
		{1, 0, []int{2}, one, true},              // two could say nothing of c, which one never judges
		{1, 1, []int{0}, two.And(one), true},     // one was not asked, since two rejects a
		{1, 2, []int{2}, cascade.Rates{}, false}, // nobody is left
	} {
		got, judged := p.rates(c.query, c.model, c.ran)
		if judged != c.judged || math.Abs(got.FalsePass-c.want.FalsePass) > 1e-12 || math.Abs(got.FalseReject-c.want.FalseReject) > 1e-12 {
			t.Errorf("query %d, model %d after %v: %+v, %v; want %+v", c.query, c.model, c.ran, got, judged, c.want)
		}
	}
	bought := panelOf(table, &Estimator{Judges: map[string]cascade.Rates{"one": one}, VerdictsUSD: map[string][]float64{"one": {1, 2, 3}}})
	isNear(t, "a price of its own", bought.usd(0, 0), 0.1, 0)
	if !slices.Equal(bought.usual, []float64{1, 2, 3}) || p.usual != nil {
		t.Errorf("usual prices %v and %v", bought.usual, p.usual)
	}
	if panelOf(table, &Estimator{}) != nil {
		t.Error("judges whose errors nobody knows are asked")
	}
	for want, prices := range map[bool][][]float64{false: {{0, nan}, nil}, true: {{0}, {nan, 0.1}}} {
		if isPriced(prices) != want {
			t.Errorf("%v is priced: %v", prices, !want)
		}
	}
	priced := &panel{usual: []float64{0.5, 0.6, 0.7}, prices: [][]float64{{0.1, nan, 0}}}
	isNear(t, "for nothing", priced.usd(0, 2), 0, 0)
	isNear(t, "its own price", priced.usd(0, 0), 0.1, 0)
	isNear(t, "the usual price", priced.usd(0, 1), 0.6, 0)
}

// Wrong answers fall into clusters by a Chinese restaurant process: the probability of a
// partition is the product over its answers.
func TestPartitionOfWrongAnswers(t *testing.T) {
	a := &agreement{Spread: 2, Differ: 0.03}
	c := newClusters(6, 3)
	c.reset()
	for m, answer := range []string{"x", "y", "x", "z", "x"} {
		c.add(m, answer)
	}
	if !slices.Equal(c.size, []int{3, 1, 1}) || !slices.Equal(c.of, []int{0, 1, 0, 2, 0, -1}) || !slices.Equal(c.order, []int{0, 1, 2, 3, 4}) {
		t.Fatalf("%+v", c)
	}
	x := &latentCursor{latent: &latent{tables: &latentTables{}}, clusters: c}
	for skip, want := range map[int]float64{
		-1: 2.0 / 2 * 2 / 3 * 1 / 4 * 2 / 5 * 2 / 6, // new, new, joins one, new, joins two
		0:  2.0 / 2 * 2 / 3,
		1:  2.0 / 2 * 1 / 3 * 2 / 4 * 2 / 5,
	} {
		isNear(t, "partition", x.partition(a, skip), math.Log(want), 1e-12)
	}
	c.reset()
	isNear(t, "of nobody", x.partition(a, -1), 0, 0)

	nan := math.NaN()
	table := &outcome.Table{Queries: []string{"0", "1", "2"}, Quality: [][]float64{{1, 0}, {0, 0}, {nan, 1}}, Answers: [][]string{{"", ""}, {"", ""}, {"", "x"}}}
	if got := emptyAnswers(table, []int{0, 1, 1}, 3); !slices.Equal(got, []bool{true, false, true}) {
		t.Errorf("empty answers are right: %v", got)
	}
}

func TestGainScaleBetweenThoseTried(t *testing.T) {
	g := gains{n: 1}
	for k := range g.expected {
		g.expected[k] = float64(k)
	}
	for came, want := range map[float64]float64{-1: leastGainScale, 0: leastGainScale, 1: 0.1, 2.5: 0.25, 6.5: (0.75 + 1) / 2, 7: 1, 9: 1} {
		g.actual = came
		isNear(t, "scale", g.scale(), want, 1e-12)
	}
	g.n = 0
	isNear(t, "of nothing", g.scale(), 1, 0)
	s := &gainScale{First: 0.4, Later: 0.2}
	if s.at(false) != 0.4 || s.at(true) != 0.2 || (*gainScale)(nil).at(true) != 1 || optionValue(4) != 2 {
		t.Errorf("%v, %v, %v", s.at(false), s.at(true), optionValue(4))
	}
	sum := gains{actual: 1, n: 2}
	if sum.add(&gains{actual: 2, n: 3, expected: [len(gainGrid)]float64{4, 5}}); sum.actual != 3 || sum.n != 5 || sum.expected[1] != 5 {
		t.Errorf("%+v", sum)
	}
}

func TestPriorMeansByPrice(t *testing.T) {
	priced := func(in, out float64) sdk.Model { return sdk.Model{Price: sdk.Price{Input: in, Output: out}} }
	got := PriorMeans([]sdk.Model{priced(1, 1), priced(2, 2), priced(0, 0), priced(1, 13), priced(1000, 0), priced(9, 9)}, []float64{0, 0, 0, 0, 0, 0.3})
	for i, want := range []float64{0.8, 0.82, 0.8, 0.84, 0.89, 0.3} {
		isNear(t, "mean", got[i], want, 1e-12)
	}
	for want, quality := range map[bool][][]float64{true: {{0, 1}, {math.NaN()}}, false: {{0, 1}, {0.5}}} {
		if rightOrWrong(quality) != want {
			t.Errorf("%v", quality)
		}
	}
}
