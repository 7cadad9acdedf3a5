// Command fit-and-evaluate fits a profile for a budget to recorded outcomes, and measures it on outcomes that the fit
// has not seen.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// budgetUSD is the budget per query; always asking the large model costs 0.01.
const budgetUSD = 0.004

func run(ctx context.Context) error {
	table, err := outcome.Open("outcomes.csv", outcome.Options{})
	if err != nil {
		return err
	}
	table.Verified = true // quality is the verdict of a check that also runs in production
	train, test := table.Split(0.5, 1)

	profile, err := fit.Fit(ctx, train, fit.Options{Strategy: "cascade_route", BudgetUSD: budgetUSD, Seed: 1})
	if err != nil {
		return err
	}
	fmt.Printf("fitted: %.4f USD per query for %.0f %% quality\n", profile.Expected.CostUSD, 100*profile.Expected.Quality)

	halves, err := eval.NewHalves(train, test, false)
	if err != nil {
		return err
	}
	study := eval.Study{Halves: halves, Strategies: []string{"linear_interpolation", "route", "cascade_route"}, Seed: 1}
	result, err := study.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Println("area under the cost-quality curve, on queries not seen:")
	for _, row := range result.Rows {
		fmt.Printf("  %-20s %.0f %%\n", row.Name, 100*row.AUC)
	}
	return nil
}
