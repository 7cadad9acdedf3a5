package outcome_test

import (
	"fmt"
	"strings"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// Recorded outcomes are read from long CSV: a row for each query and model. What
// is empty is unknown, and never zero.
func Example() {
	table, err := outcome.Read(strings.NewReader(`query_id,group,model,quality,cost_usd
q1,easy,small,1,0.001
q1,easy,large,1,0.010
q2,hard,small,0,0.001
q2,hard,large,,
`), "runs.csv", outcome.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.Models, table.Queries, table.Groups)
	fmt.Println(outcome.At(table.Quality, 0, 1), outcome.At(table.Quality, 1, 1))
	// Output:
	// [small large] [q1 q2] [easy hard]
	// 1 NaN
}
