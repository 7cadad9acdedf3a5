package main

import (
	"context"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	os.Unsetenv("OPENAI_API_KEY") // the examples never ask real models here
	os.Unsetenv("OPENAI_BASE_URL")
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
