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
	// Red, yellow and blue.
	//   in several pieces: it was shown live
	// Bees sleep with their feet held.
	//   in several pieces: it was shown live
}
