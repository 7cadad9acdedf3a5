package main

import "context"

func Example() {
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// within 5 % of the budget: true
	// cascade routing above routing: true, above mixing single models: true
}
