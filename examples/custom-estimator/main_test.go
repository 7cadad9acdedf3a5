package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// TestMain builds the plugin, as the README says.
func TestMain(m *testing.M) {
	os.Unsetenv("OPENAI_API_KEY") // the examples never ask real models here
	os.Unsetenv("OPENAI_BASE_URL")
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
