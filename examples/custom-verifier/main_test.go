package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/examples/internal/offline"
)

// TestMain builds the plugin that runs the script, as the README says.
func TestMain(m *testing.M) {
	offline.Unset()
	if _, err := exec.LookPath("python3"); err != nil {
		fmt.Println("no python3: skipped")
		os.Exit(0)
	}
	if err := programs.Into("bin", "verifier-command"); err != nil {
		fmt.Fprintln(os.Stderr, err)
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
	// Mix 300 g flour, 192 g water and 8 g salt.
	//   gpt-4o-mini: the ingredients weigh 658 g
	//   gpt-4o: passed
}
