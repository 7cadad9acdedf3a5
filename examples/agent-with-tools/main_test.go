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
	// 204 bottles
	// step 1: gpt-4o-mini
	// step 2: gpt-4o-mini, then gpt-4o
}
