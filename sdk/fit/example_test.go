package fit_test

import (
	"context"
	"fmt"

	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The small model solves every other query, the large one nearly all. Tests will
// judge the answers, so what the small one fails goes to the large one as far as
// the budget goes.
func Example() {
	table := &outcome.Table{Models: []string{"small", "large"}, Verified: true}
	for q := range 200 {
		table.Queries = append(table.Queries, fmt.Sprint("q", q))
		table.Quality = append(table.Quality, []float64{float64(q % 2), min(1, float64(q%10))})
		table.CostUSD = append(table.CostUSD, []float64{0.001, 0.010})
	}
	profile, err := fit.Fit(context.Background(), table, fit.Options{BudgetUSD: 0.004, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, %.4f USD a query, quality %.1f\n", profile.Strategy.Name, profile.Expected.CostUSD, profile.Expected.Quality)
	// Output:
	// index, 0.0040 USD a query, quality 0.7
}
