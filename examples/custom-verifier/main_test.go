package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stepfall/stepfall/adapters/programs"
)

// TestMain builds the plugin that runs the script, as the README says.
func TestMain(m *testing.M) {
	os.Unsetenv("OPENAI_API_KEY") // the examples never ask real models here
	os.Unsetenv("OPENAI_BASE_URL")
	if _, err := exec.LookPath("python3"); err != nil {
		fmt.Println("no python3: skipped")
		os.Exit(0)
	}
	os.Exit(programs.Main(m, "verifier-command"))
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
