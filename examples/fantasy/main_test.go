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
	//   gpt-4o, after 2 of 2 models
	//   gpt-4o-mini, after 1 of 2 models
	//   gpt-4o, after 2 of 2 models
	//   gpt-4o-mini, after 1 of 2 models
	// It is warmest in Sydney.
}
