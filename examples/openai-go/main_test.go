package main

import (
	"context"
	"os"
	"testing"

	"github.com/stepfall/stepfall/examples/internal/offline"
)

func TestMain(m *testing.M) {
	offline.Unset()
	os.Exit(m.Run())
}

func Example() {
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// Canberra.
	//   asked gpt-4o-mini for 0.0000033 USD
	// Multiply any finite list of primes and add one: no prime of the list divides the result.
	//   asked gpt-4o-mini, gpt-4o for 0.000405 USD
	// Canberra.
}
