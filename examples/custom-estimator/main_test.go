package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stepfall/stepfall/examples/internal/offline"
)

// TestMain builds the plugin, as the README says.
func TestMain(m *testing.M) {
	offline.Unset()
	build := exec.Command("go", "build", "-o", "bin/", "./estimator-hedge")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func Example() {
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// Two: Phobos and Deimos.
	//   gpt-4o-mini: quality 0.15
	//   gpt-4o: quality 0.95
}
