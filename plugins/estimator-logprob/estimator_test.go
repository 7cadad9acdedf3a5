package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// outcomes writes a table in which more confident answers are right more often.
func outcomes(t *testing.T) string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("query_id,model,quality,cost_usd,mean_log_prob,args_mean_log_prob\n")
	for q := range 400 {
		for _, model := range []string{"a", "b"} {
			sure := -random.ExpFloat64()
			quality := 0
			if random.Float64() < math.Exp(sure) {
				quality = 1
			}
			arguments := ""
			if q%2 == 0 {
				arguments = fmt.Sprint(sure)
			}
			fmt.Fprintf(&b, "%d,%s,%d,0.001,%v,%s\n", q, model, quality, sure, arguments)
		}
	}
	path := filepath.Join(t.TempDir(), "outcomes.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func trained(t *testing.T) string {
	t.Helper()
	table, err := outcome.Open(outcomes(t), outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := estimate.TrainClassifier(table)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "classifier.json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func tokens(p float64, texts ...string) []sdk.TokenLogProb {
	var all []sdk.TokenLogProb
	for _, text := range texts {
		all = append(all, sdk.TokenLogProb{Token: text, LogProb: math.Log(p)})
	}
	return all
}

func estimates(t *testing.T, e sdk.QualityEstimator, models []string, attempts ...sdk.Attempt) []sdk.Estimate {
	t.Helper()
	response, err := e.EstimateQuality(context.Background(), &sdk.QualityRequest{Query: &sdk.Query{}, Models: models, Attempts: attempts})
	if err != nil {
		t.Fatal(err)
	}
	return response.Estimates
}

func TestTrainThenEstimate(t *testing.T) {
	e, err := open(t.Context(), Config{Classifier: trained(t)})
	if err != nil {
		t.Fatal(err)
	}
	sure := sdk.Attempt{Answer: sdk.Answer{Model: "a", Text: "4", LogProbs: tokens(0.99, "4")}}
	unsure := sdk.Attempt{Answer: sdk.Answer{Model: "b", Text: "5", LogProbs: tokens(0.15, "5")}}
	blind := sdk.Attempt{Answer: sdk.Answer{Model: "c", Text: "6"}}
	got := estimates(t, e, []string{"a", "b", "c", "d"}, sure, unsure, blind)
	if !(got[0].Mean > 0.7 && got[1].Mean < 0.4 && got[0].StdDev > 0) {
		t.Errorf("sure %v, unsure %v", got[0], got[1])
	}
	if !got[2].Abstains() || !got[3].Abstains() {
		t.Errorf("without log-probabilities %v, not run %v", got[2], got[3])
	}
	if ante := estimates(t, e, []string{"a"}); !ante[0].Abstains() {
		t.Errorf("before anything ran: %v", ante)
	}
}

func TestArgumentsCountOnTheirOwn(t *testing.T) {
	arguments := `{"x":1}`
	make := func(p float64) sdk.Attempt {
		logProbs := append(tokens(0.9, "I", " call", " it"), tokens(p, `{"x"`, `:1}`)...)
		return sdk.Attempt{Answer: sdk.Answer{Model: "a", ToolCalls: []sdk.ToolCall{{Name: "f", Arguments: arguments}}, LogProbs: logProbs}}
	}
	e := &estimator{}
	signals := e.signals([]sdk.Attempt{make(0.5)}, 0)
	if got := signals["args_mean_log_prob"]; math.Abs(got-math.Log(0.5)) > 1e-9 {
		t.Errorf("mean log-probability of the arguments %v", got)
	}
	if signals["mean_log_prob"] <= signals["args_mean_log_prob"] {
		t.Errorf("whole answer %v", signals["mean_log_prob"])
	}
}

func TestComparisonsWithEarlierAnswers(t *testing.T) {
	word := func(model string, yes float64) sdk.Attempt {
		text := "yes"
		if yes < 0.5 {
			text = "no"
		}
		return sdk.Attempt{Answer: sdk.Answer{Model: model, Text: text, LogProbs: []sdk.TokenLogProb{{Token: text, LogProb: math.Log(max(yes, 1-yes)), Top: []sdk.TopLogProb{
			{Token: "yes", LogProb: math.Log(yes)}, {Token: "no", LogProb: math.Log(1 - yes)},
		}}}}}
	}
	e := &estimator{classes: []string{"yes", "no"}}
	measured := word("a", 0.8)
	measured.Answer.Signals = map[string]float64{"agreement": 0.25}
	if got := e.signals([]sdk.Attempt{measured, word("b", 0.8)}, 0)["agreement"]; got != 0.25 {
		t.Errorf("agreement %v, not what the step engine measured", got)
	}
	same := e.signals([]sdk.Attempt{word("a", 0.8), word("b", 0.8)}, 0)
	far := e.signals([]sdk.Attempt{word("a", 0.8), word("b", 0.1)}, 0)
	if same["js_divergence"] > 1e-12 || math.Abs(same["class_top_prob"]-0.8) > 1e-9 {
		t.Errorf("the same: %v", same)
	}
	if far["js_divergence"] < 0.1 {
		t.Errorf("far apart: %v", far)
	}
	if alone := e.signals([]sdk.Attempt{word("a", 0.8)}, 0); alone["class_entropy"] <= 0 {
		t.Errorf("alone: %v", alone)
	}
}

func TestBadUse(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"version": 9}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, config := range []Config{{Classifier: "/nowhere"}, {Classifier: bad}, {Classifier: trained(t), Classes: []string{"Yes", "yes "}}} {
		if _, err := open(t.Context(), config); err == nil {
			t.Errorf("%+v was accepted", config)
		}
	}
}
