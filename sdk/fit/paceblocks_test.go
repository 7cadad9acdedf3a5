package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// halls returns outcomes of a small and a large model in two groups: in one the small
// model does nearly as well, in the other hardly ever, and queries cost four times as much.
func halls(n int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 3))
	t := &outcome.Table{Models: []string{"small", "large"}, Verified: true}
	for q := range n {
		hard := q % 2
		quality := []float64{0, 0}
		for m, chance := range [][]float64{{0.85, 0.9}, {0.15, 0.8}}[hard] {
			if rng.Float64() < chance {
				quality[m] = 1
			}
		}
		usd := 0.001 * float64(1+3*hard) * (0.5 + rng.Float64())
		t.Queries, t.Groups = append(t.Queries, string(rune('a'+hard))+string(rune(0x4e00+q))), append(t.Groups, []string{"easy", "hard"}[hard])
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, []float64{usd, 6 * usd})
	}
	return t
}

// blocks are the rows of one group after the other, in blocks of some length.
func blocks(t *outcome.Table, length int) (rows []int) {
	by := map[string][]int{}
	for q := range t.Queries {
		by[t.Group(q)] = append(by[t.Group(q)], q)
	}
	for len(rows) < len(t.Queries) {
		for _, group := range []string{"easy", "hard"} {
			n := min(length, len(by[group]))
			rows, by[group] = append(rows, by[group][:n]...), by[group][n:]
		}
	}
	return rows
}

// If queries arrive in blocks of one group, budgets hold as in any other order, and hardly
// any quality is lost compared with a single lambda.
func TestPacingInBlocks(t *testing.T) {
	long(t)
	const seed = 5
	p, err := Fit(t.Context(), halls(600, seed), Options{Strategy: cascade.NameIndex})
	if err != nil {
		t.Fatal(err)
	}
	test := halls(2000, seed+1)
	replay, err := p.Estimator.On(test)
	if err != nil {
		t.Fatal(err)
	}
	front := frontier(p.Curve)
	strategies := make([]cascade.Strategy, len(front))
	for i, point := range front {
		setting := p.Strategy.At(point.Value)
		if strategies[i], err = setting.Strategy(test.Models); err != nil {
			t.Fatal(err)
		}
	}
	did, err := newStage(test, replay).play(t.Context(), strategies)
	if err != nil {
		t.Fatal(err)
	}
	budget := (front[0].CostUSD + front[len(front)-1].CostUSD) / 2
	spend := func(points []Point, rows []int) (usd, quality float64) {
		pacer, err := NewPacer(points, budget, DefaultPace, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range rows {
			i := pacer.Next()
			pacer.Spent(test.Group(q), i, did[i].cost[q])
			usd += did[i].cost[q] / float64(len(rows))
			quality += did[i].quality[q] / float64(len(rows))
		}
		return usd, quality
	}
	_, mixed := spend(p.Curve, rand.New(rand.NewPCG(seed, seed)).Perm(len(test.Queries)))
	for _, length := range []int{20, 100, 500} {
		usd, quality := spend(p.Curve, blocks(test, length))
		if math.Abs(usd/budget-1) > Tolerance || mixed-quality > 0.005 {
			t.Errorf("blocks of %d: %.5f USD for a budget of %.5f; quality %.4f, and %.4f in random order", length, usd, budget, quality, mixed)
		}
	}
	blind := append([]Point(nil), p.Curve...)
	for i := range blind {
		blind[i].ByGroup = nil
	}
	if _, quality := spend(blind, blocks(test, 250)); mixed-quality < 0.01 {
		t.Errorf("without knowing groups nothing is lost either (%.4f, %.4f): the test shows nothing", quality, mixed)
	}
}

// A mixture of groups that permanently differs from the fitted one does not break the
// budget permanently.
func TestPacingMakesUpForAnotherMixture(t *testing.T) {
	points := append([]Point(nil), ladder...)
	for i := range points {
		points[i].ByGroup = map[string]float64{"cheap": 0.5 * points[i].CostUSD, "dear": 1.5 * points[i].CostUSD}
	}
	p, err := NewPacer(points, 0.05, 50, 1)
	if err != nil {
		t.Fatal(err)
	}
	usd := 0.0
	const n = 20000
	for range n {
		i := p.Next()
		cost := p.Points()[i].costOf("dear")
		p.Spent("dear", i, cost)
		usd += cost / n
	}
	if math.Abs(usd/0.05-1) > Tolerance {
		t.Errorf("a mean of %.4f USD under a budget of 0.05 where only dear queries come", usd)
	}
}

// Costs of groups are means shrunk towards the overall mean, and preserve it.
func TestCostsByGroup(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	table := &outcome.Table{}
	var cost []float64
	for q := range 400 {
		group := []string{"a", "a", "a", "b"}[q%4]
		if q == 399 {
			group = "once"
		}
		table.Queries, table.Groups = append(table.Queries, ""), append(table.Groups, group)
		cost = append(cost, map[string]float64{"a": 1, "b": 3, "once": 9}[group]+rng.NormFloat64())
	}
	rows := rng.Perm(400)
	got := kindsOf(table).costs(cost, rows)
	if math.Abs(got["a"]-1) > 0.2 || math.Abs(got["b"]-3) > 0.3 {
		t.Errorf("got %v", got)
	}
	if got["once"] >= cost[399] {
		t.Errorf("a group met once costs %v, as its one query (%v)", got["once"], cost[399])
	}
	kept := (300*got["a"] + 99*got["b"] + got["once"]) / 400
	if math.Abs(kept-average(cost)) > 1e-9 {
		t.Errorf("the mean over groups is %v, of all %v", kept, average(cost))
	}
	for i := range cost {
		cost[i] = 1
	}
	if same := kindsOf(table).costs(cost, rows); same != nil {
		t.Errorf("groups that do not differ: %v", same)
	}
}
