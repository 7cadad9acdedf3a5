package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

func attempts(answers ...string) []sdk.Attempt {
	var all []sdk.Attempt
	for i := 0; i < len(answers); i += 2 {
		all = append(all, sdk.Attempt{Answer: sdk.Answer{Model: answers[i], Text: answers[i+1]}})
	}
	return all
}

func TestEstimate(t *testing.T) {
	config := Config{Method: "exact", Agree: 0.9, Disagree: 0.3}
	for _, test := range []struct {
		name     string
		config   Config
		attempts []sdk.Attempt
		want     []float64 // of a, b, c; NaN abstains
	}{
		{"nothing has run", config, nil, []float64{math.NaN(), math.NaN(), math.NaN()}},
		{"one has run", config, attempts("a", "7"), []float64{math.NaN(), math.NaN(), math.NaN()}},
		{"two agree", config, attempts("a", "7", "b", " 7 "), []float64{0.9, 0.9, math.NaN()}},
		{"two disagree", config, attempts("a", "7", "b", "8"), []float64{0.3, 0.3, math.NaN()}},
		{"two against one", config, attempts("a", "7", "b", "7", "c", "8"), []float64{0.6, 0.6, 0.3}},
		{"samples of one model", config, attempts("a", "7", "a", "7", "a", "8"), []float64{0.3, math.NaN(), math.NaN()}},
		{"final answers", Config{Method: "answer", Agree: 0.9, Disagree: 0.3}, attempts("a", "I think so. Answer: 7", "b", "7."), []float64{0.9, 0.9, math.NaN()}},
		{"numbers", Config{Method: "numeric", Agree: 0.9, Disagree: 0.3}, attempts("a", "It is 1,200.", "b", "1200.0"), []float64{0.9, 0.9, math.NaN()}},
		{"code", Config{Method: "code", Agree: 0.9, Disagree: 0.3}, attempts("a", "x := 1 // one", "b", "x:=1"), []float64{0.9, 0.9, math.NaN()}},
		{"weights", Config{Method: "exact", Agree: 1, Disagree: 0, Weights: map[string]float64{"b": 3, "c": 1}}, attempts("a", "7", "b", "7", "c", "8"), []float64{0.75, 0.5, 0}},
		{"weights of nothing", Config{Method: "exact", Agree: 1, Disagree: 0, Weights: map[string]float64{"b": 0}}, attempts("a", "7", "b", "7"), []float64{math.NaN(), 1, math.NaN()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := open(t.Context(), test.config)
			if err != nil {
				t.Fatal(err)
			}
			response, err := e.EstimateQuality(t.Context(), &sdk.QualityRequest{Models: []string{"a", "b", "c"}, Attempts: test.attempts})
			if err != nil {
				t.Fatal(err)
			}
			for i, estimate := range response.Estimates {
				if math.IsNaN(test.want[i]) != estimate.Abstains() || math.Abs(estimate.Mean-test.want[i]) > 1e-9 {
					t.Errorf("model %d: %v, want %v", i, estimate.Mean, test.want[i])
				}
			}
		})
	}
}

func TestToolCalls(t *testing.T) {
	call := func(model, arguments string) sdk.Attempt {
		return sdk.Attempt{Answer: sdk.Answer{Model: model, ToolCalls: []sdk.ToolCall{{ID: model, Name: "add", Arguments: arguments}}}}
	}
	e, err := open(t.Context(), Config{Method: "exact", Agree: 1, Disagree: 0})
	if err != nil {
		t.Fatal(err)
	}
	all := []sdk.Attempt{call("a", `{"x": 1, "y": 2}`), call("b", `{"y":2,"x":1.0}`), call("c", `{"x": 2}`)}
	response, err := e.EstimateQuality(t.Context(), &sdk.QualityRequest{Models: []string{"a", "c"}, Attempts: all})
	if err != nil || response.Estimates[0].Mean != 0.5 || response.Estimates[1].Mean != 0 {
		t.Errorf("%+v %v", response, err)
	}
}

func TestRefuses(t *testing.T) {
	for _, config := range []Config{{Method: "exact", Agree: 0.2, Disagree: 0.5}, {Method: "exact", Agree: 1, Weights: map[string]float64{"a": -1}}} {
		if _, err := open(t.Context(), config); err == nil {
			t.Errorf("%+v was accepted", config)
		}
	}
}

// TestBadInput: answers that are made to cost time, and requests without anything.
func TestBadInput(t *testing.T) {
	long := strings.Repeat("ab\x00\xff```'\"", 50_000)
	for _, method := range []string{"answer", "exact", "numeric", "code", "ngram"} {
		e, err := open(t.Context(), Config{Method: method, Agree: 0.9, Disagree: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		for name, all := range map[string][]sdk.Attempt{
			"empty answers": attempts("a", "", "b", ""),
			"long answers":  attempts("a", long, "b", long[1:]),
			"broken calls": {
				{Answer: sdk.Answer{Model: "a", ToolCalls: []sdk.ToolCall{{Name: "x", Arguments: "{"}}}},
				{Answer: sdk.Answer{Model: "b", ToolCalls: []sdk.ToolCall{{Name: "x", Arguments: "}"}}}},
			},
		} {
			response, err := e.EstimateQuality(t.Context(), &sdk.QualityRequest{Models: []string{"a", "none"}, Attempts: all})
			if err != nil || len(response.Estimates) != 2 || !response.Estimates[1].Abstains() {
				t.Fatalf("%s, %s: %+v %v", method, name, response, err)
			}
			if p := response.Estimates[0].Mean; p < 0.3 || p > 0.9 || name != "long answers" && p != 0.3 {
				t.Errorf("%s, %s: %v", method, name, p)
			}
		}
	}
}
