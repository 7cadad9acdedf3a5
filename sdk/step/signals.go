package step

import (
	"maps"
	"math"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

// measure adds to an answer's signals what can be measured on it for nothing:
// agreement with earlier answers, and features of its log-probabilities, those of the
// arguments of tool calls apart. Signals
// that the caller has set stay.
func measure(a *sdk.Answer, earlier []sdk.Attempt) {
	for name, v := range a.Signals {
		if math.IsNaN(v) || math.IsInf(v, 0) { // no trace can hold it
			a.Signals = maps.Clone(a.Signals)
			delete(a.Signals, name)
		}
	}
	if len(earlier) == 0 && len(a.LogProbs) == 0 {
		return
	}
	signals := map[string]float64{}
	if len(earlier) > 0 {
		key, same := feature.AnswerKey(a), 0
		for i := range earlier {
			if feature.AnswerKey(&earlier[i].Answer) == key {
				same++
			}
		}
		signals[feature.SignalAgreement] = float64(same) / float64(len(earlier))
	}
	maps.Copy(signals, feature.OfAnswer(a))
	maps.Copy(signals, a.Signals)
	a.Signals = signals
}
