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
	// 204 bottles
	// step 1: gpt-4o-mini
	// step 2: gpt-4o-mini, then gpt-4o
}
