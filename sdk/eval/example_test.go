package eval_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// All is learnt on the first half of the outcomes and measured on the second.
func Example() {
	table := &outcome.Table{Models: []string{"small", "large"}, Verified: true}
	rng := rand.New(rand.NewPCG(1, 2))
	for q := range 200 {
		hard := rng.Float64()
		quality := []float64{0, 0}
		for i, reach := range []float64{0.6, 0.9} {
			if hard < reach {
				quality[i] = 1
			}
		}
		table.Queries = append(table.Queries, fmt.Sprint("q", q))
		table.Quality = append(table.Quality, quality)
		table.CostUSD = append(table.CostUSD, []float64{0.001, 0.010})
	}
	train, test := table.Split(0.5, 1)
	halves, err := eval.NewHalves(train, test, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	study := &eval.Study{Halves: halves, Strategies: []string{"linear_interpolation", "cascade_route"}, Seed: 1}
	result, err := study.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	mixed, routed := result.Rows[0], result.Rows[1]
	fmt.Println(mixed.Name, routed.Name)
	fmt.Println("a cascade that is verified beats mixing the models:", routed.AUC > mixed.AUC)
	// Output:
	// linear_interpolation cascade_route
	// a cascade that is verified beats mixing the models: true
}
