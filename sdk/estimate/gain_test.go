package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

// The maximum of two normals is exact, and that of three close, compared with the quadrature
// of package cascade.
func TestMaxOfNormals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var sum normal
		var all []cascade.Belief
		for k := range 3 {
			b := normal{rng.Float64(), 0.3 * rng.Float64()}
			all = append(all, cascade.Belief{Mean: b.mean, StdDev: b.dev})
			if k == 0 {
				sum = b
			} else {
				sum = sum.max(b)
			}
			tolerance := []float64{1e-12, 1e-8, 0.02}[k]
			if want := cascade.ExpectedMax(all); math.Abs(sum.mean-want) > tolerance {
				t.Fatalf("E[max] of %v is %v, want %v", all, sum.mean, want)
			}
		}
	}
	if got := (normal{mean: math.Inf(-1)}).max(normal{0.5, 0.1}); got != (normal{0.5, 0.1}) {
		t.Errorf("over nothing: %v", got)
	}
}

// independent returns outcomes with independent qualities of the models, and signals of them.
func independent(queries int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 7))
	t := &outcome.Table{Models: []string{"a", "b", "c", "d", "e", "f"}}
	for range queries {
		var quality, cost, post []float64
		for m := range t.Models {
			q := 0.0
			if rng.Float64() < 0.5 {
				q = 1
			}
			quality, cost = append(quality, q), append(cost, float64(m+1))
			post = append(post, q+rng.NormFloat64())
		}
		t.Queries = append(t.Queries, "q")
		t.Quality, t.CostUSD, t.Post = append(t.Quality, quality), append(t.CostUSD, cost), append(t.Post, post)
	}
	return t
}

// together is like independent, with one quality for all models.
func together(queries int, seed uint64) *outcome.Table {
	t := independent(queries, seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	for q, row := range t.Quality {
		shared := 0.3 * rng.NormFloat64()
		for m := range row {
			row[m] = row[0]
			t.Post[q][m] = row[0] + rng.NormFloat64()*0.5 + shared
		}
	}
	return t
}

func fittedGain(t *testing.T, table *outcome.Table, seed uint64) *gainScale {
	t.Helper()
	e, r, _, err := FitFolds(table, 5, Options{Quality: KindLatent, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	g := e.Quality.(*latent).Gain
	for _, fold := range r.estimators {
		if fold.Quality.(*latent).Gain != g {
			t.Fatal("the folds have another scale than the whole")
		}
	}
	return g
}

// With independent errors the scale is that of independence; with equal outcomes of all
// models a further one adds little.
func TestGainScaleTellsApartFromTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
	if g := fittedGain(t, independent(400, 1), 1); g.First < 0.9 || g.Later < 0.9 {
		t.Errorf("models that err apart: scale %+v, want about 1", *g)
	}
	if g := fittedGain(t, together(400, 1), 1); g.First > 0.6 || g.Later > 0.6 {
		t.Errorf("models that err together: scale %+v, want much less than 1", *g)
	}
}

// The scale is a property of the outcomes, not of the folds.
func TestGainScaleOverSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("fits to real outcomes")
	}
	table, _ := outcometest.Zeroeval(t, "11").Split(0.5, 1)
	table.Prompts = nil
	var first, later moments
	for seed := range uint64(4) {
		g := fittedGain(t, table, seed)
		first.add(g.First)
		later.add(g.Later)
	}
	for name, m := range map[string]moments{"first": first, "later": later} {
		if spread := m.stdDev() / m.mean; spread > 0.05 {
			t.Errorf("%s: mean %.3f, spread over seeds %.1f %%", name, m.mean, 100*spread)
		} else {
			t.Logf("%s: mean %.3f, spread over seeds %.1f %%", name, m.mean, 100*spread)
		}
	}
}
