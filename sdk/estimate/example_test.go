package estimate_test

import (
	"context"
	"fmt"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Queries are easy or hard for both models, so that a failure of one lowers what
// is expected of the other.
func Example() {
	table := &outcome.Table{Models: []string{"small", "large"}, Verified: true}
	for q := range 200 {
		small, large := 0.0, 0.0
		switch {
		case q%4 < 2:
			small, large = 1, 1
		case q%4 == 2 || q%8 == 3:
			large = 1
		}
		if q%16 >= 12 {
			small, large = 0, 0
		}
		table.Queries = append(table.Queries, fmt.Sprint("q", q))
		table.Quality = append(table.Quality, []float64{small, large})
		table.CostUSD = append(table.CostUSD, []float64{0.001, 0.010})
	}
	e, err := estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := &sdk.QualityRequest{Query: &sdk.Query{}, Models: table.Models}
	before, err := e.QualityEstimator().EstimateQuality(context.Background(), request)
	if err != nil {
		fmt.Println(err)
		return
	}
	request.Attempts = []sdk.Attempt{{Answer: sdk.Answer{Model: "small"}, Verdict: &sdk.Verdict{Outcome: sdk.Failed, Confidence: 1}}}
	after, err := e.QualityEstimator().EstimateQuality(context.Background(), request)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("less is expected of large once small has failed:", after.Estimates[1].Mean < before.Estimates[1].Mean-0.1)
	// Output:
	// less is expected of large once small has failed: true
}
