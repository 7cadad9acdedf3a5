package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

// long skips a test that computes for seconds, and for minutes under the race detector.
// What runs at once in a fit does so in TestFitIsTheSameOnOneCore.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("computes for seconds")
	}
}

// spends replays a profile on a table and returns the mean cost and quality.
func spends(t *testing.T, p *Profile, table *outcome.Table) Point {
	t.Helper()
	r, err := p.Estimator.On(table)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.NewStrategy(table.Models)
	if err != nil {
		t.Fatal(err)
	}
	results, err := newStage(table, r).play(context.Background(), []cascade.Strategy{s})
	if err != nil {
		t.Fatal(err)
	}
	return results[0].point(0)
}

func TestBudgetHoldsOnUnseenQueries(t *testing.T) {
	long(t)
	for _, c := range []struct {
		table    *outcome.Table
		strategy string
		share    float64
	}{
		{estimate.Simulate(outcometest.Zeroeval(t, "5"), estimate.NoiseLevels()["medium"], 1), "index", 0.3},
		{outcometest.Zeroeval(t, "5"), "route", 0.3},
		{outcometest.Swebench(t), "index", 0.2},
	} {
		train, test := c.table.Split(0.5, 1)
		budget := c.share * maximum(train.MeanCosts())
		p, err := Fit(context.Background(), train, Options{Strategy: c.strategy, BudgetUSD: budget})
		if err != nil {
			t.Fatal(err)
		}
		got := spends(t, p, test)
		// What the profile says of itself: its own standard error, twice over for
		// two samples, and the tolerance.
		room := Tolerance*budget + 2*math.Sqrt2*p.HeldOut.CostStdError
		if math.Abs(got.CostUSD-budget) > room && math.Abs(got.CostUSD-p.HeldOut.CostUSD) > room {
			t.Errorf("%s: budget %.6f, held out %.6f, but %.6f on the test half", c.strategy, budget, p.HeldOut.CostUSD, got.CostUSD)
		}
		if math.Abs(p.Expected.CostUSD-budget) > 0.005*budget {
			t.Errorf("%s: fitted to %.6f for a budget of %.6f", c.strategy, p.Expected.CostUSD, budget)
		}
	}
}

func maximum(x []float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	return top
}

func TestProfileRefusesOtherModelsAndPrices(t *testing.T) {
	table := madeUp(60)
	models := []sdk.Model{{Name: "large", Price: sdk.Price{Input: 3, Output: 9}}, {Name: "small", Price: sdk.Price{Input: 1, Output: 2}}}
	p, err := Fit(context.Background(), table, Options{BudgetUSD: 0.005, Models: models})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "profile.json")
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	back, err := Load(path, models)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spends(t, p, table), spends(t, back, table)); diff != "" {
		t.Errorf("a profile read back decides otherwise: %s", diff)
	}
	searching := []sdk.Model{models[0], {Name: "small", Price: sdk.Price{Input: 1, Output: 2, SearchUSD: 0.01}}}
	dearer := []sdk.Model{models[0], {Name: "small", Price: sdk.Price{Input: 1, Output: 3}}}
	for _, c := range []struct {
		models []sdk.Model
		want   error
		text   string
	}{
		{models[:1], ErrModels, `"small" is gone`},
		{append(models[:2:2], sdk.Model{Name: "new"}), ErrModels, `not for "new"`},
		{dearer, errPrices, `small was {"input_usd_per_million":1,"output_usd_per_million":2}, is {`},
		{searching, errPrices, `"search_usd":0.01}`},
	} {
		_, err := Load(path, c.models)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("error %v, want %v with %q", err, c.want, c.text)
		}
	}
}

// madeUp returns outcomes of a small and a large model, verified.
func madeUp(n int) *outcome.Table {
	t := &outcome.Table{Models: []string{"small", "large"}, Verified: true}
	for q := range n {
		hard := q%3 == 0
		small, large := 1.0, 1.0
		if hard {
			small = 0
		}
		if q%9 == 0 {
			large = 0
		}
		t.Queries = append(t.Queries, strings.Repeat("q", q+1))
		t.Groups = append(t.Groups, []string{"a", "b"}[q%2])
		t.Quality = append(t.Quality, []float64{small, large})
		t.CostUSD = append(t.CostUSD, []float64{0.001, 0.01 + 0.0001*float64(q%7)})
	}
	return t
}

func TestAModelWithoutCostsIsNamed(t *testing.T) {
	table := small(40, 1)
	for q := range table.CostUSD {
		table.CostUSD[q][1] = math.NaN()
	}
	if _, err := Fit(context.Background(), table, Options{}); !errors.Is(err, ErrTooFew) || !strings.Contains(err.Error(), table.Models[1]) {
		t.Errorf("%v, want the model named whose costs are unknown", err)
	}
}

// If a threshold cascade of two models leaves a budget unspent, the fit reports the cost of the next
// better setting, which is above the budget.
func TestABudgetBetweenTwoDepthsSaysWhatIsBetter(t *testing.T) {
	table, rng := &outcome.Table{Models: []string{"a", "b", "c"}, Verified: true}, rand.New(rand.NewPCG(1, 1))
	for q := range 200 {
		row := make([]float64, 3)
		for m, chance := range []float64{0.5, 0.75, 0.9} {
			if rng.Float64() < chance {
				row[m] = 1
			}
		}
		table.Queries, table.Quality = append(table.Queries, fmt.Sprint(q)), append(table.Quality, row)
		table.CostUSD = append(table.CostUSD, []float64{1, 3, 60})
	}
	o := Options{Strategy: cascade.NameThreshold, BudgetUSD: 6, Estimate: estimate.Options{Quality: estimate.KindMean}}
	p, err := Fit(t.Context(), table, o)
	if err != nil {
		t.Fatal(err)
	}
	if b := p.Budget; b.Reached || p.Expected.CostUSD > 4 || b.BetterUSD < 6 || b.BetterUSD > 20 {
		t.Errorf("%+v, expected %+v", b, p.Expected)
	}
	o.BudgetUSD = 100
	best, err := Fit(t.Context(), table, o)
	if err != nil {
		t.Fatal(err)
	}
	if b := best.Budget; b.Reached || b.BetterUSD != 0 || best.Expected.Quality < p.Expected.Quality+0.05 {
		t.Errorf("%+v, expected %+v", b, best.Expected)
	}
	o.BudgetUSD, o.Strategy, o.Floor = 0, cascade.NameIndex, &Floor{MinQuality: 0.6}
	if p, err = Fit(t.Context(), table, o); err != nil || p.Budget != (Budget{}) {
		t.Errorf("without a budget: %+v, error %v", p.Budget, err)
	}
}

// Tables and orders that cannot be are refused, rather than fitted or replayed until something breaks.
func TestBrokenTablesAreRefused(t *testing.T) {
	for want, spoil := range map[string]func(*outcome.Table, *Options){
		"quality has 1 values for 3 models": func(t *outcome.Table, _ *Options) { t.Quality[7] = t.Quality[7][:1] },
		"cost_usd +Inf is not":              func(t *outcome.Table, _ *Options) { t.CostUSD[7][1] = math.Inf(1) },
		"outcomes of no model":              func(t *outcome.Table, _ *Options) { t.Models = nil },
		"an order with model 7 of 3":        func(_ *outcome.Table, o *Options) { o.Params.Order = []int{7} },
	} {
		table, o := drawn(60, 3, 1), Options{BudgetUSD: 0.0015}
		spoil(table, &o)
		if _, err := Fit(t.Context(), table, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if o.Params.Order != nil || strings.Contains(want, "Inf") { // tables of a fit's own have qualities beyond 1
			continue
		}
		if _, err := estimate.Fit(table, o.Estimate); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("estimate: %v, want %q", err, want)
		}
		if _, _, _, err := estimate.FitFolds(table, 5, o.Estimate); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("folds: %v, want %q", err, want)
		}
	}
}
