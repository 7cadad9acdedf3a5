package main

import (
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

func TestDoubtCosts(t *testing.T) {
	e, err := newEstimator(t.Context(), Config{Words: []string{"maybe"}, Penalty: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := e.EstimateQuality(t.Context(), &sdk.QualityRequest{
		Query: &sdk.Query{}, Models: []string{"a", "b"},
		Attempts: []sdk.Attempt{{Answer: sdk.Answer{Model: "a", Text: "Maybe 7."}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Estimates[0].Mean; got > 0.46 || got < 0.44 {
		t.Errorf("one maybe leaves %v", got)
	}
	if !resp.Estimates[1].Abstains() {
		t.Error("a model that has not run is estimated")
	}
}
