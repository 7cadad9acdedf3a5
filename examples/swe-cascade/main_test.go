package main

import (
	"context"
	"os"
	"testing"

	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/sdk/jail"
)

func TestMain(m *testing.M) {
	jail.Main()
	os.Unsetenv("OPENAI_API_KEY") // the examples never ask real models here
	os.Unsetenv("OPENAI_BASE_URL")
	os.Exit(m.Run())
}

func Example() {
	defer programs.Plugins("verifier-tests")() // built as the README says
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// gpt-4o-mini: failed
	// gpt-4o: passed
	// -	return year%4 == 0
	// +	return year%4 == 0 && year%100 != 0 || year%400 == 0
}
