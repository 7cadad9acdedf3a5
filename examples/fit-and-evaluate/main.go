// Command fit-and-evaluate goes from recorded outcomes to a profile that meets a
// budget, and measures it on outcomes that it has not seen.
package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/stepfall/stepfall/examples/internal/offline"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

func main() { offline.Must(run(context.Background())) }

// budgetUSD is what a query may cost on average: the large model costs 0.01.
const budgetUSD = 0.002

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "fit-and-evaluate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "outcomes.csv")
	if err := record(file, 600); err != nil {
		return err
	}

	table, err := outcome.Open(file, outcome.Options{})
	if err != nil {
		return err
	}
	table.Verified = true // the quality is the verdict of tests that will be there in use
	train, test := table.Split(0.5, 1)

	profile, err := fit.Fit(ctx, train, fit.Options{Strategy: "cascade_route", BudgetUSD: budgetUSD, Seed: 1})
	if err != nil {
		return err
	}
	if err := profile.Save(filepath.Join(dir, "profile.json")); err != nil {
		return err
	}
	fmt.Printf("within 5 %% of the budget: %v\n", math.Abs(profile.Expected.CostUSD-budgetUSD) <= 0.05*budgetUSD)

	halves, err := eval.NewHalves(train, test, false)
	if err != nil {
		return err
	}
	study := eval.Study{Halves: halves, Strategies: []string{"linear_interpolation", "route", "cascade_route"}, Seed: 1}
	result, err := study.Run(ctx)
	if err != nil {
		return err
	}
	area := map[string]float64{}
	for _, row := range result.Rows {
		area[row.Name] = row.AUC
	}
	fmt.Printf("cascade routing above routing: %v, above mixing single models: %v\n",
		area["cascade_route"] > area["route"], area["cascade_route"] > area["linear_interpolation"])
	return nil
}

// record writes outcomes of three models on queries of hidden difficulty. Yours
// come from your traces, from a benchmark, or from stepfall collect.
func record(file string, queries int) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	fmt.Fprintln(f, "query_id,group,model,quality,cost_usd")
	for q := range queries {
		difficulty := rng.NormFloat64()
		for _, m := range []struct {
			name  string
			skill float64
			usd   float64
		}{{"small", 0, 0.0005}, {"medium", 0.8, 0.002}, {"large", 1.6, 0.01}} {
			solved := 0
			if rng.Float64() < 1/(1+math.Exp(2*(difficulty-m.skill))) {
				solved = 1
			}
			if _, err := fmt.Fprintf(f, "q%d,synthetic,%s,%d,%g\n", q, m.name, solved, m.usd*(0.5+rng.Float64())); err != nil {
				return err
			}
		}
	}
	return nil
}
