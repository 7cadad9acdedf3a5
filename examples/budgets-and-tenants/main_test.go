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
	// bronze: some refused true, within its cap true
	// gold: some refused false, within its cap true
}
