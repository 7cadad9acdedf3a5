package fit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// likeLarge returns steps with answers only: each model gives the large one's answer on its share of
// them, and otherwise an answer of its own or that of its maker's other model.
func likeLarge(steps int, models []string, costs, shares []float64) *outcome.Table {
	rng := rand.New(rand.NewPCG(3, 5))
	t := &outcome.Table{Models: models, Labels: "agreement with large", Reference: "large"}
	for q := range steps {
		t.Queries = append(t.Queries, fmt.Sprint("q", q))
		quality, answers := make([]float64, len(models)), make([]string, len(models))
		together := rng.Float64()
		for m, name := range models {
			maker, _, _ := strings.Cut(name, "-")
			answers[m] = "right"
			if maker == "twin" && together > shares[m] || maker != "twin" && rng.Float64() > shares[m] {
				answers[m] = "wrong as " + maker
			}
			if answers[m] == "right" {
				quality[m] = 1
			}
		}
		t.Quality, t.Answers, t.CostUSD = append(t.Quality, quality), append(t.Answers, answers), append(t.CostUSD, costs)
	}
	return t
}

// Pair takes the cheapest pair whose cascade gives the large model's answers; two models with
// correlated errors do not qualify, however cheap.
func TestPair(t *testing.T) {
	models := []string{"twin-1", "twin-2", "a", "b", "large"}
	table := likeLarge(200, models, []float64{0.1, 0.1, 0.2, 0.3, 10}, []float64{0.7, 0.7, 0.9, 0.9, 1})
	p, err := fit.Pair(t.Context(), table, fit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Strategy.Name != cascade.NameThreshold || !slices.Equal(p.Strategy.Order, []string{"a", "b", "large"}) {
		t.Fatalf("strategy %+v", p.Strategy)
	}
	agreed := 0.0
	for q := range table.Queries {
		if table.Answers[q][2] == table.Answers[q][3] {
			agreed++
		}
	}
	cost := 0.2 + 0.3 + 10*(1-agreed/200)
	if d := p.Expected.CostUSD - cost; d > 1e-9 || d < -1e-9 || p.Expected.Quality < 0.93 || p.Data.Labels != table.Labels {
		t.Errorf("expected %+v, by hand %v; labels %q", p.Expected, cost, p.Data.Labels)
	}
	path := filepath.Join(t.TempDir(), "profile.json")
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := fit.Load(path, nil)
	if err != nil || !slices.Equal(again.Strategy.Order, p.Strategy.Order) || again.Estimator.Quality.Kind() != p.Estimator.Quality.Kind() {
		t.Errorf("read again: %v", err)
	}

	// The cheapest pair may be the first that is tried.
	first, err := fit.Pair(t.Context(), likeLarge(200, []string{"a", "b", "c", "large"}, []float64{0.2, 0.3, 0.4, 10}, []float64{0.98, 0.98, 0.85, 1}), fit.Options{})
	if err != nil || !slices.Equal(first.Strategy.Order, []string{"a", "b", "large"}) {
		t.Errorf("of three cheap models: %v, %+v", err, first.Strategy)
	}

	// Where no pair does it, or none is cheaper, that is said.
	var none *fit.PairError
	if _, err := fit.Pair(t.Context(), likeLarge(100, []string{"twin-1", "twin-2", "large"}, []float64{0.1, 0.1, 10}, []float64{0.8, 0.8, 1}), fit.Options{}); !errors.As(err, &none) || none.Pairs != 1 || none.Share > 0.9 {
		t.Errorf("twins alone: %v", err)
	}
	if _, err := fit.Pair(t.Context(), likeLarge(100, []string{"a", "b", "large"}, []float64{6, 7, 10}, []float64{0.9, 0.9, 1}), fit.Options{}); !errors.As(err, &none) {
		t.Errorf("a pair that is not cheap: %v", err)
	}
	if _, err := fit.Pair(t.Context(), likeLarge(100, []string{"a", "large"}, []float64{1, 10}, []float64{0.9, 1}), fit.Options{}); !errors.As(err, &none) || !strings.Contains(err.Error(), "no two models are cheaper") {
		t.Errorf("no pair: %v", err)
	}
	twenty := likeLarge(20, []string{"a", "b", "large"}, []float64{0.2, 0.3, 10}, []float64{1, 1, 1})
	if _, err := fit.Pair(t.Context(), twenty, fit.Options{}); err != nil {
		t.Errorf("twenty steps: %v", err)
	}
	if _, err := fit.Pair(t.Context(), twenty.Rows([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}), fit.Options{}); !errors.Is(err, fit.ErrTooFew) || !strings.Contains(err.Error(), "19 steps") {
		t.Errorf("nineteen steps: %v", err)
	}
	table.Reference = ""
	if _, err := fit.Pair(t.Context(), table, fit.Options{}); !errors.Is(err, fit.ErrTooFew) {
		t.Errorf("without a reference: %v", err)
	}
}
