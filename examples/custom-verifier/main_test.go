package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stepfall/stepfall/adapters/programs"
)

func TestMain(m *testing.M) {
	os.Unsetenv("OPENAI_API_KEY") // the examples never ask real models here
	os.Unsetenv("OPENAI_BASE_URL")
	if _, err := exec.LookPath("python3"); err != nil {
		fmt.Println("no python3: skipped")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func Example() {
	defer programs.Plugins("verifier-command")() // built as the README says
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// Mix 300 g flour, 192 g water and 8 g salt.
	//   gpt-4o-mini: the ingredients weigh 658 g
	//   gpt-4o: passed
}
