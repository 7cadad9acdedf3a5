// Command fit-and-evaluate goes from recorded outcomes to a profile that meets a
// budget, and measures it on outcomes that it has not seen.
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

// budgetUSD is what a query may cost on average: always asking the large model costs 0.01.
const budgetUSD = 0.004

func run(ctx context.Context) error {
	table, err := outcome.Open("outcomes.csv", outcome.Options{})
	if err != nil {
		return err
	}
	table.Verified = true // the quality is the verdict of a check that will be there in use
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
