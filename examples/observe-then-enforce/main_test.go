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
	// observe: would run gpt-4o-mini, ran gpt-4o
	// enforce: would run gpt-4o-mini, ran gpt-4o-mini
}
