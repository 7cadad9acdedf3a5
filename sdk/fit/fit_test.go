package fit

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

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
	results, err := play(context.Background(), table, r, []cascade.Strategy{s})
	if err != nil {
		t.Fatal(err)
	}
	return results[0].point(0)
}

func TestBudgetHoldsOnUnseenQueries(t *testing.T) {
	for _, c := range []struct {
		set, level string
		strategies []string
		share      []float64
	}{
		{"11", "medium", []string{"index", "cascade_route", "route", "threshold", "cascade"}, []float64{0.1, 0.4}},
		{"5", "", []string{"index", "route"}, []float64{0.2, 0.5}},
		{"swe", "", []string{"index"}, []float64{0.1, 0.3}},
	} {
		for seed := range uint64(2) {
			var table *outcome.Table
			if c.set == "swe" {
				table = outcometest.Swebench(t)
			} else {
				table = outcometest.Zeroeval(t, c.set)
			}
			if c.level != "" {
				table = estimate.Simulate(table, estimate.NoiseLevels()[c.level], seed)
			}
			train, test := table.Split(0.5, seed)
			costs := train.MeanCosts()
			for _, strategy := range c.strategies {
				for _, share := range c.share {
					budget := share * maximum(costs)
					start := time.Now()
					p, err := Fit(context.Background(), train, Options{Strategy: strategy, BudgetUSD: budget, Seed: seed})
					if err != nil {
						t.Fatal(err)
					}
					took := time.Since(start)
					got := spends(t, p, test)
					t.Logf("%s %s %s: budget %.6f, test %+.1f%%, expected %+.1f%%, held-out %+.1f%% ± %.1f%% held %v conf %.2f reached %v over %v; scale %.2f gamma %.2f quality %.3f; %v",
						c.set, c.level, strategy, budget, 100*(got.CostUSD/budget-1), 100*(p.Expected.CostUSD/budget-1), 100*(p.HeldOut.CostUSD/budget-1),
						100*p.HeldOut.CostStdError/budget, p.HeldOut.Held, p.HeldOut.Confidence, p.Budget.Reached, p.Budget.Over, p.Strategy.Scale, p.Strategy.Gamma, got.Quality, took)
				}
			}
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
	if spends(t, p, table) != spends(t, back, table) {
		t.Error("a profile read back decides otherwise")
	}
	dearer := []sdk.Model{models[0], {Name: "small", Price: sdk.Price{Input: 1, Output: 3}}}
	for _, c := range []struct {
		models []sdk.Model
		want   error
		text   string
	}{
		{models[:1], ErrModels, `"small" is gone`},
		{append(models[:2:2], sdk.Model{Name: "new"}), ErrModels, `not for "new"`},
		{dearer, ErrPrices, "small was 1 in, 2 out"},
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
