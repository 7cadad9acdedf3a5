package estimate_test

import (
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
)

func TestPriorsOfAgreement(t *testing.T) {
	models := []sdk.Model{
		{Name: "a", Price: sdk.Price{Input: 0.15, Output: 0.6}}, {Name: "b", Price: sdk.Price{Input: 0.1, Output: 0.4}},
		{Name: "large", Price: sdk.Price{Input: 3, Output: 15}},
	}
	e := estimate.OfPriors(models, []float64{0, 0, 0}).QualityEstimator()
	call := func(model, argument string) sdk.Attempt {
		return sdk.Attempt{Answer: sdk.Answer{Model: model, ToolCalls: []sdk.ToolCall{{Name: "f", Arguments: `{"x": ` + argument + `}`}}}}
	}
	ask := func(attempts ...sdk.Attempt) []sdk.Estimate {
		resp, err := e.EstimateQuality(t.Context(), &sdk.QualityRequest{Query: &sdk.Query{}, Models: []string{"a", "b", "large"}, Attempts: attempts})
		if err != nil {
			t.Fatal(err)
		}
		return resp.Estimates
	}
	before := ask()
	if !(before[2].Mean > before[0].Mean+0.05 && before[0].Mean > 0.75 && before[2].Mean < 0.93) {
		t.Errorf("believed by price alone: %v", before)
	}
	if !(before[0].StdDev > 0.1) {
		t.Errorf("what an answer is expected to tell once it is compared: %v", before)
	}
	alone := ask(call("a", "1"))
	if math.Abs(alone[0].Mean-before[0].Mean) > 1e-9 || !(alone[1].StdDev > 0.1) {
		t.Errorf("one answer alone says nothing, and a second would: %v", alone)
	}
	agreed, apart := ask(call("a", "1"), call("b", "1.0")), ask(call("a", "1"), call("b", "2"))
	if !(agreed[0].Mean > 0.93 && agreed[0].Mean < 0.98 && agreed[2].Mean-agreed[0].Mean < 0.02) {
		t.Errorf("where two agree, a larger model would hardly add to it: %v", agreed)
	}
	if !(apart[0].Mean < 0.65 && apart[2].Mean > apart[0].Mean+0.1) {
		t.Errorf("where they differ, the large model is worth more: %v", apart)
	}
	all := ask(call("a", "1"), call("b", "2"), call("large", "3"))
	if !(all[2].Mean > all[0].Mean && all[2].Mean > all[1].Mean) {
		t.Errorf("of three different calls the large model's is best: %v", all)
	}
	second := ask(call("a", "1"), call("b", "2"), call("large", "2"))
	if !(second[1].Mean > 0.8 && second[1].Mean > second[0].Mean) {
		t.Errorf("two of three: %v", second)
	}
	stated := estimate.OfPriors(models, []float64{0.6, 0, 0}).QualityEstimator()
	resp, err := stated.EstimateQuality(t.Context(), &sdk.QualityRequest{Models: []string{"a", "none"}})
	if err != nil || math.Abs(resp.Estimates[0].Mean-0.6) > 0.02 || !resp.Estimates[1].Abstains() {
		t.Errorf("a quality that is stated: %v %v", resp, err)
	}
}
