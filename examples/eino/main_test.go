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
	// gpt-4o, after 2 of 2 models
	//   gpt-4o-mini, after 1 of 2 models
	//   gpt-4o, after 2 of 2 models
	//   gpt-4o-mini, after 1 of 2 models
	// It is warmest in Canberra, at 18 degrees.
	// Multiply any finite list of primes and add one: no prime of the list divides the result.
	//   gpt-4o, after 2 of 2 models
}
