package main

import "context"

func Example() {
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// fitted: 0.0040 USD per query for 75 % quality
	// area under the cost-quality curve, on queries not seen:
	//   linear_interpolation 65 %
	//   route                67 %
	//   cascade_route        75 %
}
