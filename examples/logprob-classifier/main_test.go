package main

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stepfall/stepfall/adapters/programs"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

func TestMain(m *testing.M) {
	os.Unsetenv("OPENAI_API_KEY") // the examples never ask real models here
	os.Unsetenv("OPENAI_BASE_URL")
	os.Exit(m.Run())
}

func Example() {
	defer programs.Plugins("estimator-logprob")() // built as the README says
	if err := run(context.Background()); err != nil {
		panic(err)
	}
	// Output:
	// I loved every minute.: positive
	//   gpt-4o-mini: right with probability 0.95
	// Well, that was two hours of my life.: negative
	//   gpt-4o-mini: right with probability 0.84
	//   gpt-4o: right with probability 0.93
}

// The classifier is what the README's command makes of the recorded outcomes.
func TestTheClassifierIsTrainedOnTheOutcomes(t *testing.T) {
	table, err := outcome.Open("outcomes.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := estimate.TrainClassifier(table)
	if err != nil {
		t.Fatal(err)
	}
	trained, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("classifier.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(trained)+"\n" != string(kept) {
		t.Errorf("training gives\n%s", trained)
	}
}
