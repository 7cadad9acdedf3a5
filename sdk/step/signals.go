package step

import (
	"maps"
	"math"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

// addFreeSignals sets an answer's key and adds the free signals: agreement with earlier answers and features
// of its log-probabilities. Signals that the caller has set are kept.
func addFreeSignals(a *sdk.Answer, earlier []sdk.Attempt) {
	a.Key = feature.HashKey(feature.AnswerKey(&sdk.Answer{Text: a.Text, ToolCalls: a.ToolCalls}))
	for name, v := range a.Signals {
		if math.IsNaN(v) || math.IsInf(v, 0) { // JSON cannot represent it
			a.Signals = maps.Clone(a.Signals)
			delete(a.Signals, name)
		}
	}
	if len(earlier) == 0 && len(a.LogProbs) == 0 {
		return
	}
	signals := map[string]float64{}
	if len(earlier) > 0 {
		same := 0
		for i := range earlier {
			if earlier[i].Answer.Key == a.Key {
				same++
			}
		}
		signals[feature.SignalAgreement] = float64(same) / float64(len(earlier))
	}
	maps.Copy(signals, feature.OfAnswer(a))
	maps.Copy(signals, a.Signals)
	a.Signals = signals
}
