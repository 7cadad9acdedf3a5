package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stepfall/stepfall/examples/internal/offline"
	"github.com/stepfall/stepfall/sdk/jail"
)

// TestMain builds the plugin, as the README says.
func TestMain(m *testing.M) {
	jail.Main()
	offline.Unset()
	build := exec.Command("go", "build", "-o", "bin/", "../../plugins/verifier-tests")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
		os.Exit(1)
	}
	os.Setenv("STEPFALL_PLUGIN_PATH", "bin")
	os.Exit(m.Run())
}

func Example() {
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// gpt-4o-mini: failed
	// gpt-4o: passed
	// -	return year%4 == 0
	// +	return year%4 == 0 && year%100 != 0 || year%400 == 0
}
