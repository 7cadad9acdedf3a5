package main

import (
	"context"
	"os"
	"testing"

	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/sdk/jail"
)

// TestMain builds the plugin, as the README says.
func TestMain(m *testing.M) {
	jail.Main()
	os.Unsetenv("OPENAI_API_KEY") // the examples never ask real models here
	os.Unsetenv("OPENAI_BASE_URL")
	os.Exit(programs.Main(m, "verifier-tests"))
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
