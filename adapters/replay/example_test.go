package replay_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/stepfall/stepfall/adapters/replay"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Recorded outcomes go through the middleware and the step engine: the tests judged
// these, so that a failure of the small model leads to the large one.
func ExampleRun() {
	table, err := outcome.Read(strings.NewReader(`query_id,group,model,quality,cost_usd
q1,api,small,1,0.001
q1,api,large,1,0.010
q2,api,small,0,0.001
q2,api,large,1,0.010
`), "runs.csv", outcome.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	estimator, err := estimate.Fit(table, estimate.Options{Quality: "mean", Cost: "mean"})
	if err != nil {
		fmt.Println(err)
		return
	}
	strategy, err := cascade.New(cascade.NameIndex, cascade.Params{Lambdas: []float64{10}})
	if err != nil {
		fmt.Println(err)
		return
	}
	steps, err := replay.Run(context.Background(), replay.Config{Table: table, Estimator: estimator, Strategy: strategy, Verified: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range steps {
		fmt.Printf("%s: ran %v, %.3f USD\n", s.Query, s.Ran, s.CostUSD)
	}
	// Output:
	// q1: ran [small], 0.001 USD
	// q2: ran [small large], 0.011 USD
}
