package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// enumerated computes the tail of breakChance by enumerating all ways to draw n of all values.
func enumerated(values []float64, broken int, m int) float64 {
	n, sum := len(values), 0
	for _, v := range values {
		sum += int(v)
	}
	marked := sum + broken
	reached, ways := 0.0, 0.0
	for set := range uint(1) << (n + m) {
		if bits.OnesCount(set) != n {
			continue
		}
		ways++
		if bits.OnesCount(set&(1<<marked-1)) >= sum {
			reached++
		}
	}
	return reached / ways
}

func TestBreakChanceByCounting(t *testing.T) {
	for _, c := range []struct {
		values []float64
		floor  float64
		m      int
		broken int // the most good ones among m that break the floor
	}{
		{[]float64{1, 1, 1, 1, 0}, 0.5, 5, 2},
		{[]float64{1, 1, 1, 1, 1, 1}, 0.5, 6, 2},
		{[]float64{1, 0, 1, 1, 1, 0, 1}, 0.6, 6, 3},
		{[]float64{1, 1, 1, 1}, 1, 3, 2},
	} {
		got, want := breakChance(c.values, 0, c.floor, c.m), enumerated(c.values, c.broken, c.m)
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%v, floor %v over %d: %v, want %v", c.values, c.floor, c.m, got, want)
		}
	}
	for name, got := range map[string]float64{
		"no values":        breakChance(nil, 0, 0.5, 5),
		"below the floor":  breakChance([]float64{-1, 0, 0, -1}, -1, -0.1, 4),
		"nothing promised": 1 - breakChance([]float64{0, 0, 1}, 0, 0, 3),
	} {
		if got != 1 {
			t.Errorf("%s: %v, want 1", name, got)
		}
	}
}

// For any population, the share of broken promises, with those not made counted as kept, is
// at most 1 - confidence.
func TestPromisesAreKeptOnRandomHalves(t *testing.T) {
	long(t)
	const level = 0.05
	for name, c := range map[string]struct {
		trials, n  int
		low, floor float64
		draw       func(rng *rand.Rand) float64
	}{
		"right or wrong": {3000, 80, 0, 0.7, func(rng *rand.Rand) float64 { return math.Floor(rng.Float64() + 0.75) }},
		"differences": {400, 50, -1, -0.2, func(rng *rand.Rand) float64 {
			switch u := rng.Float64(); {
			case u < 0.1:
				return -1
			case u < 0.22:
				return 1
			}
			return 0
		}},
		"parts": {400, 50, 0, 0.62, func(rng *rand.Rand) float64 { return math.Sqrt(rng.Float64()) }},
	} {
		trials, n := c.trials, c.n
		rng := rand.New(rand.NewPCG(4, 2))
		made, broken := 0, 0
		for range trials / 10 {
			population := make([]float64, 2*n)
			for i := range population {
				population[i] = c.draw(rng)
			}
			for range 10 {
				rng.Shuffle(len(population), func(i, j int) { population[i], population[j] = population[j], population[i] })
				if breakChance(population[:n], c.low, c.floor, n) > level {
					continue
				}
				made++
				if average(population[n:]) < c.floor-1e-9 {
					broken++
				}
			}
		}
		if made < trials/50 {
			t.Errorf("%s: only %d of %d promises made: the test tells nothing", name, made, trials)
		}
		if share := float64(broken) / float64(trials); share > level {
			t.Errorf("%s: %d of %d broken (%d made)", name, broken, trials, made)
		} else {
			t.Logf("%s: %d made, %d of %d broken", name, made, broken, trials)
		}
	}
}

func fitFloor(t *testing.T, table *outcome.Table, o Options) (*Profile, error) {
	t.Helper()
	o.Seed = 1
	return Fit(context.Background(), table, o)
}

func TestFloorTakesTheCheapestThatKeepsIt(t *testing.T) {
	long(t)
	table := drawn(300, 5, 1)
	high, err := fitFloor(t, table, Options{Floor: &Floor{MinQuality: 0.6}})
	if err != nil {
		t.Fatal(err)
	}
	low, err := fitFloor(t, table, Options{Floor: &Floor{MinQuality: 0.45}})
	if err != nil {
		t.Fatal(err)
	}
	if !(low.Expected.CostUSD < high.Expected.CostUSD) {
		t.Errorf("a floor of 0.45 costs %v, one of 0.6 %v", low.Expected.CostUSD, high.Expected.CostUSD)
	}
	for _, p := range []*Profile{low, high} {
		if k := p.Kept; k.Quality < k.MinQuality || k.Chance > 0.05 || k.Confidence != 0.95 || math.Abs(k.Quality-p.Expected.Quality) > 1e-9 {
			t.Errorf("kept %+v, expected quality %v", *k, p.Expected.Quality)
		}
	}
	path := filepath.Join(t.TempDir(), "p.json")
	if err := low.Save(path); err != nil {
		t.Fatal(err)
	}
	if again, err := Load(path, nil); err != nil || *again.Kept != *low.Kept {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

func TestFloorThatCannotBePromised(t *testing.T) {
	table := drawn(120, 4, 2)
	top := 0.0
	for _, q := range table.MeanQualities() {
		top = max(top, q)
	}
	var missing *FloorError
	if _, err := fitFloor(t, table, Options{Floor: &Floor{MinQuality: 1}}); !errors.As(err, &missing) || missing.Queries != 0 || !strings.Contains(err.Error(), "no number of outcomes will do") {
		t.Errorf("a quality of 1: %v", err)
	}
	if missing != nil && !(missing.Promised < missing.Quality && missing.Promised > 0.2) {
		t.Errorf("missing %+v", *missing)
	}
	_, err := fitFloor(t, table, Options{Floor: &Floor{MinQuality: missing.Quality - 0.01}})
	if !errors.As(err, &missing) || missing.Queries < 4*len(table.Queries) {
		t.Errorf("a floor one point below: %v, want thousands of outcomes", err)
	}
	for _, f := range []*Floor{{}, {MinQuality: 2}, {AsGoodAs: "nobody"}, {MinQuality: 0.5, AsGoodAs: table.Models[0]}, {AsGoodAs: table.Models[0], Margin: -1}} {
		if _, err := fitFloor(t, table, Options{Floor: f}); err == nil || errors.As(err, &missing) {
			t.Errorf("%+v: %v", *f, err)
		}
	}
	if _, err := fitFloor(t, table, Options{Floor: &Floor{MinQuality: 0.5}, BudgetUSD: 1}); err == nil {
		t.Error("a budget and a floor")
	}
}

func TestAsGoodAs(t *testing.T) {
	table := drawn(300, 5, 3)
	table.Verified = true
	best := table.Models[len(table.Models)-1]
	p, err := fitFloor(t, table, Options{Floor: &Floor{AsGoodAs: best, Margin: 0.02}})
	if err != nil {
		t.Fatal(err)
	}
	want := p.Expected.Quality - table.MeanQualities()[len(table.Models)-1]
	if math.Abs(p.Kept.Quality-want) > 1e-9 || p.Kept.Quality < -0.02 {
		t.Errorf("kept %+v, want a difference of %v", *p.Kept, want)
	}
}

func TestServed(t *testing.T) {
	long(t)
	table := drawn(400, 5, 4)
	wide, err := fitFloor(t, table, Options{MaxWrong: 0.4})
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := fitFloor(t, table, Options{MaxWrong: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Profile{wide, narrow} {
		if s := p.Served; s.Wrong > s.MaxWrong || !(s.Share > 0) || !s.Good(s.Estimate) || s.Good(s.Estimate-1e-9) {
			t.Errorf("served %+v", *s)
		}
	}
	if !(narrow.Served.Estimate >= wide.Served.Estimate && narrow.Served.Share <= wide.Served.Share) {
		t.Errorf("fewer wrong: %+v, more: %+v", *narrow.Served, *wide.Served)
	}
	none, err := fitFloor(t, table, Options{MaxWrong: 1e-4})
	if err != nil {
		t.Fatal(err)
	}
	if none.Served.Good(1) {
		t.Errorf("one wrong in ten thousand, by 400 outcomes: %+v", *none.Served)
	}
}

// A floor for steps of runs is one for the runs: a model that is wrong in 2 % of the steps is wrong in 8 % of the runs
// of four.
func TestFloorOfStepsIsThatOfTheirRuns(t *testing.T) {
	table := &outcome.Table{Models: []string{"small", "large"}}
	for q := range 400 {
		right := 1.0
		if q%50 == 0 {
			right = 0
		}
		table.Queries = append(table.Queries, fmt.Sprint(q))
		table.Quality, table.CostUSD = append(table.Quality, []float64{right, 1}), append(table.CostUSD, []float64{0.001, 0.01})
	}
	for steps, cheap := range map[float64]bool{0: true, 1: true, 4: false} {
		table.StepsPerRun = steps
		for _, floor := range []Floor{{AsGoodAs: "large", Margin: 0.05}, {MinQuality: 0.95}} {
			p, err := fitFloor(t, table, Options{Floor: &floor})
			if err != nil {
				t.Fatal(steps, err)
			}
			if wrong := 1 - p.Expected.Quality; (p.Expected.CostUSD < 0.002) != cheap || wrong*max(steps, 1) > 0.05 {
				t.Errorf("%s of %v steps a run: %v USD, wrong in %v of the steps", &floor, steps, p.Expected.CostUSD, wrong)
			}
			lost := max(steps, 1) * (1 - p.Expected.Quality)
			if kept := p.Kept; kept.StepsPerRun != steps || math.Abs(kept.Quality+lost) > 1e-9 && math.Abs(1-lost-kept.Quality) > 1e-9 || strings.Contains(kept.String(), "of the runs") != (steps > 0) {
				t.Errorf("%v steps a run: %s, %+v", steps, kept, kept)
			}
		}
	}
	// What is missing is said of the runs, too.
	table.StepsPerRun = 20
	_, err := fitFloor(t, table, Options{Floor: &Floor{AsGoodAs: "large", Margin: 0.01}})
	e, isFloor := errors.AsType[*FloorError](err)
	if !isFloor || !strings.Contains(e.Error(), "to within 1.00 points of the runs, which have 20.0 steps each, cannot be promised") || e.Promised > -0.05 {
		t.Errorf("%v", err)
	}
}
