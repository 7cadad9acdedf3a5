package fit

import (
	"math"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// is fails the test if a number differs from the value computed by hand in the first twelve
// digits.
func is(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-12*max(1, math.Abs(want))) {
		t.Errorf("%s: %.15g, want %.15g", what, got, want)
	}
}

// The random effects of two groups: within them the sum of squares is 2 + 8 with 5 - 2
// degrees of freedom, between them 2*9 + 3*4 less one within, over 5 - (4 + 9)/5.
func TestCostsOfGroupsAreDrawnTowardsTheMean(t *testing.T) {
	k := &kinds{names: []string{"a", "b", "none"}, of: []int{0, 0, 1, 1, 1, 2}}
	got := k.costs([]float64{1, 3, 5, 7, 9, 1000}, []int{0, 1, 2, 3, 4})
	const within, between = 10.0 / 3, (30 - 10.0/3) / 2.4
	a, b := 5-3*2/(2+within/between), 5+2*3/(3+within/between)
	shift := 5 - (2*a+3*b)/5
	if len(got) != 2 {
		t.Fatalf("groups without rows have costs: %v", got)
	}
	is(t, "a", got["a"], a+shift)
	is(t, "b", got["b"], b+shift)
	is(t, "their mean", (2*got["a"]+3*got["b"])/5, 5)
	for name, cost := range map[string][]float64{"alike": {1, 9, 1, 9, 5}, "equal": {2, 2, 2, 2, 2}} {
		if got := k.costs(cost, []int{0, 1, 2, 3, 4}); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestUsualIsMomentsOfWeights(t *testing.T) {
	of := &tally{}
	of.add(0, 0, 1, 0.1, 1)
	of.add(0, 0, 3, 0.1, 3)
	u := of.offset("x")
	is(t, "count", u.Count, 16.0/10)
	is(t, "off", u.Off, 2.5)
	is(t, "variance", u.Variance, 28.0/4-6.25)
	of.add(0, 0, 2.5, 4, 4)
	is(t, "variance of its own account", of.offset("x").Variance, (0.1+0.3+16)/8)

	all := tallies{}
	all.addCall("m", byChance, 0.3, 1, 2)
	all.addCall("m", "", 0.3, math.NaN(), 1)
	all.addCallCost(&Model{Name: "m"}, byChance, false, 2, 4, 0, 2)
	all.addCallCost(&Model{Name: "m"}, "", false, 0, 4, 0, 1)
	all.addCallCost(&Model{Name: "m"}, "", false, 4, 0, 0, 1)
	all.addStep("g", 1.2, 2, 0.4, 2)
	all.addStep("h", 1.2, 2, 0.4, 0)
	if len(all) != 3 {
		t.Errorf("what is not known is counted: %v", all)
	}
	for _, want := range []Offset{
		{ofQuality + "m" + byChance, 1, 0.7, 0.3 * 0.7},
		{ofCost + "m" + byChance, 1, math.Ln2, 0},
		{ofGroup + "g", 1, 0.4, 0.1},
	} {
		u := all.of(want.Of).offset(want.Of)
		is(t, want.Of+" count", u.Count, want.Count)
		is(t, want.Of+" off", u.Off, want.Off)
		is(t, want.Of+" variance", u.Variance, want.Variance)
	}
	for p, want := range map[float64]float64{0: 0.01 * 0.99, 0.2: 0.16, 1: 0.01 * 0.99} {
		is(t, "spread", bernoulliVariance(p), want)
	}
}

func TestMeetSpendsTheBudget(t *testing.T) {
	line := []Point{{CostUSD: 1, Quality: 0.2}, {CostUSD: 3, Quality: 0.6}, {CostUSD: 2, Quality: 0.9}}
	for _, tt := range []struct {
		name   string
		points []Point
		budget float64
		want   mix
	}{
		{"between two", line, 1.5, mix{0, 1, 0.25, true, false}},
		{"the better of two pairs", line, 2.5, mix{1, 2, 0.5, true, false}},
		{"at the first", line, 1, mix{0, 1, 0, true, false}},
		{"at the dearest", line, 3, mix{0, 1, 1, true, false}},
		{"equal costs", []Point{{CostUSD: 1, Quality: 0.2}, {CostUSD: 1, Quality: 0.3}}, 1, mix{0, 1, 1, true, false}},
		{"equal costs, worse", []Point{{CostUSD: 1, Quality: 0.3}, {CostUSD: 1, Quality: 0.2}}, 1, mix{0, 1, 0, true, false}},
		{"more than any", line, 9, mix{first: 2, second: 2}},
		{"less than any", line[1:], 0.5, mix{first: 1, second: 1, over: true}},
		{"one that rounding misses", line[:1], 1 - 1e-12, mix{}},
	} {
		got := meet(tt.points, tt.budget)
		is(t, tt.name+": share", got.share, tt.want.share)
		got.share = tt.want.share
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestMeritIsMeanQualityAroundTheBudget(t *testing.T) {
	curve := []Point{{CostUSD: 1, Quality: 0.2}, {CostUSD: 3, Quality: 0.6}, {CostUSD: 3, Quality: 0.5}, {CostUSD: 4, Quality: 0.9}}
	for budget, want := range map[float64]float64{0.5: 0.1, 1: 0.2, 2: 0.4, 3: 0.6, 3.5: 0.7, 4: 0.9, 9: 0.9} {
		is(t, "quality", qualityAt(curve, budget), want)
	}
	// Where quality is a tenth of the cost, so is the mean of nine budgets at equal ratios.
	sum := 0.0
	for k := -4; k <= 4; k++ {
		sum += 0.2 * math.Pow(1.6, float64(k)/4) / 9
	}
	straight := []Point{{CostUSD: 8, Quality: 0.8}, {CostUSD: 0.5, Quality: 0.05}, {CostUSD: 2, Quality: 0.2}}
	is(t, "merit", merit(nil, straight, 2), sum)
	if straight[0].CostUSD != 8 {
		t.Error("merit sorts the points that it is given")
	}
}

func TestStartValues(t *testing.T) {
	costs := func(a, b float64) *outcome.Table {
		return &outcome.Table{Models: []string{"a", "b"}, Queries: []string{"q"}, Quality: [][]float64{{0, 1}}, CostUSD: [][]float64{{a, b}}}
	}
	for _, tt := range []struct {
		name, strategy string
		table          *outcome.Table
		n              int
		want           []float64
	}{
		{"ratios", cascade.NameIndex, costs(1, 4), 4, []float64{0, 0.0025, math.Sqrt(0.0025 * 20), 20}},
		{"one is free", cascade.NameIndex, costs(0, 4), 3, []float64{0, 0.0025, 50000}},
		{"all are free", cascade.NameIndex, costs(0, 0), 4, []float64{0}},
		{"thresholds", cascade.NameThreshold, costs(1, 4), 3, []float64{0, 0.5005, 1.001}},
	} {
		got := startValues(tt.strategy, tt.table, tt.n)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %v", tt.name, got)
			continue
		}
		for i := range got {
			is(t, tt.name, got[i], tt.want[i])
		}
	}
}

// Gaps are |difference of quality| + |difference of cost| / 4 + 0.2 ln of its ratio wide:
// 0.1 + 0.25 + 0.139, 0.3 + 0.5 + 0.139 and, as costs beyond the budget of 4 are alike,
// 0.5 + 0.024. Nothing further is looked at, and no gap in which nothing changes.
func TestGapsAreSplitWhereTheyAreWidest(t *testing.T) {
	c := &candidate{}
	for _, p := range []Point{{Value: 0, CostUSD: 1}, {Value: 1, CostUSD: 1}, {Value: 4, CostUSD: 2, Quality: 0.1}, {Value: 9, CostUSD: 4, Quality: 0.4}, {Value: 10, CostUSD: 4.5, Quality: 0.9}, {Value: 11, CostUSD: 9}} {
		r := newReplayRow(1)
		r.cost[0], r.quality[0] = p.CostUSD, p.Quality
		c.values, c.results = append(c.values, p.Value), append(c.results, r)
	}
	for _, tt := range []struct {
		n    int
		want []float64
	}{
		{1, []float64{6}},
		{2, []float64{6, math.Sqrt(90)}},
		{3, []float64{2, 6, math.Sqrt(90)}},
		{4, []float64{2, 4 * math.Pow(1.5, 2.0/3), 4 * math.Pow(1.5, 4.0/3), math.Sqrt(90)}},
	} {
		got := c.gapValues(tt.n, 4)
		slices.Sort(got)
		if len(got) != len(tt.want) {
			t.Errorf("%d: %v, want %v", tt.n, got, tt.want)
			continue
		}
		for i := range got {
			is(t, "value", got[i], tt.want[i])
		}
	}
	if got := c.gapValues(3, 0.5); got != nil {
		t.Errorf("all cost more: %v", got)
	}
}

// Welch's statistic and its degrees of freedom, 1.1² / (0.2²/39 + 0.9²/29); the tails are
// integrals of the density by Simpson's rule.
func TestWelch(t *testing.T) {
	tail := func(x, nu float64) float64 {
		logOf := func(v float64) float64 { g, _ := math.Lgamma(v); return g }
		density := func(u float64) float64 {
			return math.Exp(logOf((nu+1)/2)-logOf(nu/2)-(nu+1)/2*math.Log1p(u*u/nu)) / math.Sqrt(nu*math.Pi)
		}
		const parts = 2000
		sum, h := density(0)+density(x), x/parts
		for i := 1; i < parts; i++ {
			sum += float64(2+2*(i%2)) * density(float64(i)*h)
		}
		return 2 * (0.5 - sum*h/3)
	}
	d, p := welchTest(Offset{Count: 40, Off: 3, Variance: 8}, Offset{Count: 30, Off: 1, Variance: 27})
	x := 2 / math.Sqrt(0.2+0.9)
	is(t, "deviations", d.Deviations, x)
	if want := tail(x, 1.1*1.1/(0.2*0.2/39+0.9*0.9/29)); math.Abs(p-want) > 1e-9 {
		t.Errorf("chance %v, want %v", p, want)
	}
	// Of few, both vary as the one that varies more.
	d, p = welchTest(Offset{Count: 4, Off: -1, Variance: 1}, Offset{Count: 12, Off: 0, Variance: 12})
	is(t, "deviations of few", d.Deviations, -0.5)
	if want := tail(0.5, 16/(9.0/3+1.0/11)); math.Abs(p-want) > 1e-9 {
		t.Errorf("chance of few %v, want %v", p, want)
	}
}

// Over a hundred queries, the default candidate has an advantage of half a point of quality.
func TestOnlyWhatIsBetterByMoreThanChanceIsChosen(t *testing.T) {
	table := &outcome.Table{Queries: make([]string, 100)}
	const own, other, third = 0, 1, 2
	newOne := func(depth int) *candidate {
		return &candidate{params: cascade.Params{MaxDepth: depth}, values: []float64{1}, results: []replayRow{newReplayRow(100)}, isDefault: depth == own}
	}
	for _, c := range []struct {
		quality [3]float64
		want    int
	}{
		{[3]float64{0.5, 0.504, 0.1}, own}, {[3]float64{0.5, 0.506, 0.1}, other}, {[3]float64{0.5, 0.506, 0.507}, third},
		{[3]float64{0.5, 0.506, 0.506}, other}, {[3]float64{0.1, 0, 0}, own},
	} {
		for _, order := range [][]int{{own, other, third}, {other, third, own}} {
			var list []*candidate
			for _, i := range order {
				list = append(list, newOne(i))
			}
			got := chooseBest(table, list, 1, func(one *candidate) []Point { return []Point{{CostUSD: 0.1, Quality: c.quality[one.params.MaxDepth]}} })
			if got.params.MaxDepth != c.want {
				t.Errorf("%+v: chose %d", c, got.params.MaxDepth)
			}
		}
	}
}
